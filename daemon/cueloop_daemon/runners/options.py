"""Which options a runner cannot honour, and what is done then (`unsupported_option_policy`)."""

from __future__ import annotations

from collections.abc import Mapping

from cueloop_daemon.runners.model import Settings

_NEITHER: Mapping[str, frozenset[str]] = {
    "sandbox": frozenset({"enabled"}),
    "plan_mode": frozenset({"enabled"}),
    "approval_mode": frozenset({"safe"}),
}
# `disabled` where there is no such thing is honoured by doing nothing, and so is an approval that nobody is asked for.
UNSUPPORTED: Mapping[str, Mapping[str, frozenset[str]]] = {
    "claude": {"sandbox": frozenset({"enabled"})},
    "codex": {"plan_mode": frozenset({"enabled"})},
    "gemini": {"plan_mode": frozenset({"enabled"})},
    "kimi": _NEITHER,
    "pi": _NEITHER,
    "opencode": {"sandbox": frozenset({"enabled"}), "plan_mode": frozenset({"enabled"})},
    "cursor": {"approval_mode": frozenset({"safe"})},
}
"""Runner → option → values without an effect. Plugins get every option handed to them."""
TAKES_EFFORT = frozenset({"claude", "codex", "opencode", "pi", "cursor"})


def unsupported(settings: Settings) -> list[str]:
    """One phrase for each option that the runner cannot honour, in a fixed order."""
    given = {"approval_mode": settings.approval_mode, "sandbox": settings.sandbox, "plan_mode": settings.plan_mode}
    table = UNSUPPORTED.get(settings.runner, {})
    found = [f"{name} {value}" for name, value in given.items() if value in table.get(name, frozenset())]
    if settings.output_format != "stream_json":
        found.append(f"output_format {settings.output_format}")
    if settings.effort is not None and settings.runner in UNSUPPORTED and settings.runner not in TAKES_EFFORT:
        found.append(f"reasoning_effort {settings.effort}")
    return found
