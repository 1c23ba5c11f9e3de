"""Our own settings: `cueloopd.jsonc` of the user only, never of a repository (contract section 4).

One daemon serves callers with different homes and config homes, so its own settings are those of the passwd home's `.config`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import JsonValue

from cueloop_daemon.core.layers import as_values
from cueloop_daemon.core.model import Unusable
from cueloop_daemon.core.rules import U32, Rule, RuleError, Whole, integer, one_of, opaque, table, text
from cueloop_daemon.store.jsonc import JsoncError, read_json
from cueloop_protocol.base import Wire
from cueloop_protocol.roots import Caller, settings_path, shown
from cueloop_protocol.values import dataclass

_MINUTES = integer(0, U32)


class Settings(Wire):
    """All settings with their defaults. Minutes of 0 mean "never" or "no limit"."""

    idle_exit_minutes: int = 30
    agent_idle_minutes: int = 15
    agent_wall_minutes: int = 0
    question_minutes: int = 60
    max_connections: int = 2048
    run_output_limit_mib: int = 256
    """Less than 48 acts as 48: six segments of the shim's, the fewest that a budget is made of."""
    event_log_limit_mib: int = 64
    run_history_limit: int = 200
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_limit_mib: int = 16
    fleet: JsonValue = None
    """For the fleet commands, which read it themselves."""


FIELDS: Mapping[str, Rule] = {
    "idle_exit_minutes": _MINUTES,
    "agent_idle_minutes": _MINUTES,
    "agent_wall_minutes": _MINUTES,
    "question_minutes": _MINUTES,
    "max_connections": integer(1, 65_535),
    "run_output_limit_mib": integer(1, U32),
    "event_log_limit_mib": integer(1, U32),
    "run_history_limit": integer(1, U32),
    "log_level": one_of("debug", "info", "warning", "error"),
    "log_limit_mib": integer(1, U32),
    "fleet": opaque,
}
SETTINGS: Rule = table(FIELDS, ignored={"$schema": text})


@dataclass(frozen=True, slots=True)
class SettingsState:
    """The settings, or why there are none, and the path (for system calls) that they were read from."""

    settings: Settings | Unusable
    path: str


def load_settings(caller: Caller, read: Callable[[str], bytes | None]) -> SettingsState:
    """The caller's settings; the defaults where there is no file. Blocking. Never raises for what the file is."""
    path = settings_path(caller)
    try:
        data = read(path)
    except NotADirectoryError:
        data = None
    except OSError as exc:
        return SettingsState(_unreadable(shown(path), exc), path)
    return SettingsState(Settings() if data is None else parse_settings(data, shown(path)), path)


def parse_settings(data: bytes, seen: str) -> Settings | Unusable:
    """The settings that a file's bytes stand for; `seen` is its path as people see it."""
    try:
        values = as_values(SETTINGS(read_json(data), ()))
    except JsoncError as exc:
        return _incompatible(seen, f"{exc}", f"Correct {seen}.")
    except RuleError as exc:
        return _incompatible(seen, f"{exc.place} {exc.reason}", exc.remedy)
    return Settings.model_validate({key: value.value if isinstance(value, Whole) else value for key, value in values.items()})


def _unreadable(seen: str, error: OSError) -> Unusable:
    if isinstance(error, PermissionError):
        message = f"The settings {seen} cannot be read: permission denied."
        return Unusable("permission_denied", message, f"Give yourself access to it, for example with chmod u+r {seen}.", seen)
    return _incompatible(seen, error.strerror or str(error), f"Look what {seen} is.")


def _incompatible(seen: str, reason: str, remedy: str) -> Unusable:
    return Unusable("config_incompatible", f"The settings {seen} cannot be used: {reason}.", remedy, seen)
