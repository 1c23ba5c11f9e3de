"""Which model a phase runs with, where several places ask for one."""

from __future__ import annotations

from collections.abc import Iterable

from cueloop_daemon.core.config_defaults import DEFAULTS
from cueloop_daemon.core.layers import dig
from cueloop_protocol.values import dataclass

_PI_ALONE = "openai-codex/"
"""Models of the configuration's defaults are named as pi names them; codex lists the names that it takes."""
_UNASKED = frozenset(
    str(dig(DEFAULTS, "agent", *path, "model"))
    for path in ((), ("phase_overrides", "phase1"), ("phase_overrides", "phase2"), ("phase_overrides", "phase3"))
)


@dataclass(frozen=True, slots=True)
class Wish:
    """A model that is asked for, the runner that it was meant for, and the place it stands; None: in the call."""

    model: str
    runner: str
    place: str | None


@dataclass(frozen=True, slots=True)
class Chosen:
    """The model, and what the run has to say. Without a name, `refusal` says why."""

    name: str | None
    warnings: tuple[str, ...] = ()
    refusal: str = ""


def choose_model(runner: str, wishes: Iterable[Wish], *, allowed: tuple[str, ...] | None, default: str | None) -> Chosen:
    """The first wish that fits, else the runner's default, with a sentence about each that was passed over.

    One from the call is used as it is, or refused where the runner takes only certain models. Nothing is said of the defaults of
    the configuration, which nobody asked for, unless the runner's own default takes their place.
    """
    passed: list[Wish] = []
    for wish in wishes:
        if wish.place is None:
            if allowed is not None and wish.model not in allowed:
                return Chosen(None, refusal=f"{runner} does not take the model {wish.model}.")
            return Chosen(wish.model)
        if _fits(wish, runner, allowed, default):
            return Chosen(wish.model, tuple(_said(runner, other, wish.model) for other in passed if other.model not in _UNASKED))
        passed.append(wish)
    said = [other for other in passed if other.model not in _UNASKED] or passed[:1]
    name = default or said[0].model
    return Chosen(name, tuple(_said(runner, other, name) for other in said if other.model != name))


def _fits(wish: Wish, runner: str, allowed: tuple[str, ...] | None, default: str | None) -> bool:
    if allowed is not None:
        return wish.model in allowed
    if wish.model.startswith(_PI_ALONE):
        return runner == "pi" or (default is None and wish.runner == runner)
    return wish.runner == runner


def _said(runner: str, wish: Wish, name: str) -> str:
    return f"The model {wish.model} ({wish.place}) does not fit {runner}; {name} is used."
