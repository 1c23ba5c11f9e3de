"""The params of `run.start` that a command line asks for. Pure. Standard library only."""

from __future__ import annotations

from cueloop_client.failures import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from cueloop_client.flags import Values

EFFORTS = ("low", "medium", "high", "xhigh")
SWITCHES = ("default", "enabled", "disabled")
WORDS: Mapping[str, tuple[str, ...]] = {
    "effort": EFFORTS,
    "approval-mode": ("default", "auto_edits", "yolo", "safe"),
    "sandbox": SWITCHES,
    "plan-mode": SWITCHES,
    "output-format": ("stream_json", "json", "text"),
    "verbosity": ("quiet", "normal", "verbose"),
    "unsupported-option-policy": ("ignore", "warn", "error"),
    "git-revert-mode": ("ask", "enabled", "disabled"),
    "git-publish-mode": ("off", "commit", "commit_and_push"),
    "repo-prompt": ("tools", "plan", "off"),
}
"""Options that take one of these words; `-` is as good as `_` in them, and capitals as good as small letters."""
TEXTS = ("profile", "runner", "model")
SWITCHED_ON = (
    "quick",
    "include-draft",
    "lfs-check",
    "notify-sound",
    "wait-when-blocked",
    "wait-when-empty",
    "notify-when-unblocked",
)
NUMBERS = {
    "phases": (1, 3),
    "wait-poll-ms": (1, 999_999_999),
    "empty-poll-ms": (1, 999_999_999),
    "wait-timeout-seconds": (0, 999_999_999),
}
OPPOSITES = ("notify", "notify-fail")


def run_params(mode: str, values: Values, *, interactive: bool) -> dict[str, Any]:
    """What to ask for; without `env`, `caller` and the key. Raises Usage naming the option and what it takes."""
    params: dict[str, Any] = {"mode": mode}
    if values.has("resume") and values.has("fresh"):
        raise Usage("--resume and --fresh contradict each other.")
    task = _said(values, "id")
    if task is not None:
        params["task_id"] = task
    if values.has("max-tasks"):
        params["max_tasks"] = values.number("max-tasks", 0)
    params |= {name: True for name in ("resume", "fresh", "force") if values.has(name)}
    if interactive:
        params["interactive"] = True
    overrides = overrides_of(values)
    if overrides:
        params["overrides"] = overrides
    return params


def overrides_of(values: Values) -> dict[str, Any]:
    """The settings that the options replace; an option that was not given is absent. Raises Usage."""
    told: dict[str, Any] = {name: _said(values, name) for name in TEXTS}
    told |= {_key(name): _word(values, name, allowed) for name, allowed in WORDS.items()}
    told |= {_key(name): _number(values, name, *limits) for name, limits in NUMBERS.items()}
    told |= {_key(name): _either(values, name) for name in OPPOSITES}
    told |= {_key(name): True for name in SWITCHED_ON if values.has(name)}
    for number in (1, 2, 3):
        phase = {
            "runner": _said(values, f"runner-phase{number}"),
            "model": _said(values, f"model-phase{number}"),
            "effort": _word(values, f"effort-phase{number}", EFFORTS),
        }
        told[f"phase{number}"] = _given(phase) or None
    if values.has("quick") and told["phases"] not in (None, 1):
        raise Usage("--quick is one phase and contradicts --phases.")
    return _given(told)


def agents_environment(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The environment for the agents, and the names in it that cannot be sent: they or their values are no UTF-8."""
    sent: dict[str, str] = {}
    left: list[str] = []
    for name, value in environ.items():
        if not name or "=" in name:
            continue
        try:
            (name + value).encode()
        except UnicodeEncodeError:
            left.append(name)
        else:
            sent[name] = value
    return sent, left


def _given(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _key(name: str) -> str:
    return name.replace("-", "_")


def _said(values: Values, name: str) -> str | None:
    text = values.text(name)
    if text is not None and not text.strip():
        raise Usage(f"--{name} needs a value, not an empty one.")
    if text is not None and not _is_text(text):
        raise Usage(f"--{name} takes text in UTF-8.")
    return text


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _word(values: Values, name: str, allowed: tuple[str, ...]) -> str | None:
    text = values.text(name)
    if text is None:
        return None
    word = text.strip().lower().replace("-", "_")
    if word not in allowed:
        raise Usage(f"--{name} takes {', '.join(allowed[:-1])} or {allowed[-1]}, not {text!r}.")
    return word


def _number(values: Values, name: str, least: int, most: int) -> int | None:
    if not values.has(name):
        return None
    number = values.number(name, least)
    if not least <= number <= most:
        raise Usage(f"--{name} takes a number from {least} to {most}, not {number}.")
    return number


def _either(values: Values, name: str) -> bool | None:
    yes, no = values.has(name), values.has(f"no-{name}")
    if yes and no:
        raise Usage(f"--{name} and --no-{name} contradict each other.")
    return yes if yes or no else None
