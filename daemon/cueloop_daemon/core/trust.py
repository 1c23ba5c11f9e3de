"""Trust: what a project's config may say before a person has trusted the repository (contract section 4)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from cueloop_protocol.documents.session import RUNNERS

from cueloop_daemon.core.config_rules import BINARIES
from cueloop_daemon.core.layers import Layer, as_values, dig
from cueloop_daemon.core.rules import Key, Rule, boolean, key_text, refused, table, text

_MOMENT = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[Tt ]"
    r"(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):?[0-5]\d)"
)


def moment(value: object, key: Key) -> object:
    """A moment as RFC 3339 writes it."""
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        return value
    raise refused(value, key, "a moment like 2026-02-07T10:00:00Z, or null")


TRUST: Rule = table({"allow_project_commands": boolean, "trusted_at": moment}, ignored={"$schema": text})


def is_trusted(document: object) -> bool:
    """Whether a trust file's value trusts the repository. Raises RuleError."""
    return dig(TRUST(document, ()), "allow_project_commands") is True


def gated_keys(project: Layer, outside: Collection[str]) -> tuple[str, ...]:
    """The keys of the project's layer that need trust, as dotted paths. `outside`: instruction files not in the repository."""
    found = list(_of_agent(as_values(project.get("agent")), ("agent",), outside))
    for name, patch in as_values(project.get("profiles")).items():
        found += _of_agent(as_values(patch), ("profiles", name), outside)
    found += [("plugins", "plugins", plugin) for plugin in as_values(project.get("plugins", "plugins"))]
    if project.get("parallel", "ignored_file_allowlist") is not None:
        found.append(("parallel", "ignored_file_allowlist"))
    return tuple(key_text(key) for key in found)


def instruction_files(layer: Layer) -> tuple[str, ...]:
    """Every instruction file that the layer names, for itself or in a profile, as it is written."""
    agents = [layer.get("agent"), *as_values(layer.get("profiles")).values()]
    return tuple(str(entry) for agent in agents for entry in _entries(dig(agent, "instruction_files")))


def _of_agent(agent: Mapping[str, object], place: Key, outside: Collection[str]) -> Iterator[Key]:
    if "ci_gate" in agent:
        yield (*place, "ci_gate")
    yield from ((*place, name) for name in BINARIES if name in agent)
    if _runs_code(agent.get("runner")):
        yield (*place, "runner")
    for phase, override in as_values(agent.get("phase_overrides")).items():
        if _runs_code(dig(override, "runner")):
            yield (*place, "phase_overrides", phase, "runner")
    yield from ((*place, "webhook", name) for name in as_values(agent.get("webhook")))
    if agent.get("git_publish_mode") not in (None, "off"):
        yield (*place, "git_publish_mode")
    if agent.get("claude_permission_mode") == "bypass_permissions":
        yield (*place, "claude_permission_mode")
    cli = agent.get("runner_cli")
    if dig(cli, "defaults", "approval_mode") == "yolo":
        yield (*place, "runner_cli", "defaults", "approval_mode")
    for runner, options in as_values(dig(cli, "runners")).items():
        if dig(options, "approval_mode") == "yolo":
            yield (*place, "runner_cli", "runners", runner, "approval_mode")
    for position, entry in enumerate(_entries(agent.get("instruction_files"))):
        if entry in outside:
            yield (*place, "instruction_files", position)


def _runs_code(runner: object) -> bool:
    """Whether a runner is one whose program the repository itself can bring along."""
    return runner is not None and (runner == "cursor" or runner not in RUNNERS)


def _entries(value: object) -> list[object]:
    return value if isinstance(value, list) else []
