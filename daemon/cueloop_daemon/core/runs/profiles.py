"""Profiles: named sets of agent settings for one run (`--profile`), two of them built in. Pure. `docs/profiles.md` describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from pydantic import BaseModel

from cueloop_protocol.documents.config import Agent, Config
from cueloop_protocol.values import dataclass

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A profile of ours. `settings` is written as `agent` is in a file; `options` holds for every runner, whatever its own entry says."""

    settings: Mapping[str, object]
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnknownProfile:
    """There is no such profile; both texts are fit for people."""

    message: str
    detail: str


BUILT_IN_PROFILES: Mapping[str, BuiltIn] = MappingProxyType(
    {
        "safe": BuiltIn(
            {"claude_permission_mode": "accept_edits", "git_revert_mode": "ask", "git_publish_mode": "off"},
            {"approval_mode": "safe"},
        ),
        "power-user": BuiltIn(
            {"claude_permission_mode": "bypass_permissions", "git_revert_mode": "disabled", "git_publish_mode": "commit"},
            {"approval_mode": "yolo"},
        ),
    }
)
"""By name; a file may not define a profile of these names. Neither pushes: that is said for each run, or configured."""


def with_profile(config: Config, name: str | None) -> Config | UnknownProfile:
    """The configuration of a run with this profile: what it sets replaces `agent`'s, leaf by leaf, lists whole. None: as it is."""
    if name is None:
        return config
    built_in = BUILT_IN_PROFILES.get(name)
    if built_in is not None:
        return config.model_copy(
            update={"agent": _with_options(_merged(config.agent, built_in.settings.items()), built_in.options)}
        )
    own = (config.profiles or {}).get(name)
    if own is None:
        known = ", ".join([*(config.profiles or {}), *BUILT_IN_PROFILES])
        return UnknownProfile(f"There is no profile {name}.", f"The profiles are {known}.")
    return config.model_copy(update={"agent": _merged(config.agent, own)})


def _with_options(agent: Agent, options: Mapping[str, str]) -> Agent:
    cli = agent.runner_cli
    runners = {runner: _merged(entry, options.items()) for runner, entry in cli.runners.items()}
    return agent.model_copy(
        update={"runner_cli": cli.model_copy(update={"defaults": _merged(cli.defaults, options.items()), "runners": runners})}
    )


def _merged(low: M, high: Iterable[tuple[str, object]]) -> M:
    """`low` with what `high` sets. Copied member by member: a dump would redact the webhook's secret."""
    return low.model_copy(update={key: _value(getattr(low, key), value) for key, value in high if value is not None})


def _value(low: object, high: object) -> object:
    if isinstance(low, BaseModel) and isinstance(high, BaseModel):
        return _merged(low, high)
    if isinstance(low, Mapping) and isinstance(high, Mapping):
        return {**low, **{key: _value(low.get(key), value) for key, value in high.items()}}
    return high
