"""Trust: what a project's config may say before a person has trusted the repository (contract section 4)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from cueloop_daemon.core.config_rules import BINARIES
from cueloop_daemon.core.layers import Layer, Values, as_values, dig
from cueloop_daemon.core.rules import Key, Rule, boolean, key_text, refused, table, text
from cueloop_protocol.documents.session import RUNNERS

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


def gated_keys(project: Layer, own: Layer | None, outside: Collection[str]) -> tuple[str, ...]:
    """The keys of the project's layer that need trust, as dotted paths.

    `own` is the global layer, which decides with the project's whether a webhook is enabled: one that nothing enables sends
    nothing, so its settings may stand there. `outside` are the project's instruction files that are not in the repository.
    """
    sends = any(
        dig(agent, "webhook", "enabled") is True for layer in (own, project) if layer for agent in _agents(layer).values()
    )
    found: list[Key] = []
    for place, agent in _agents(project).items():
        found += [(*place, *key) for key in _that_run_code(agent)]
        found += [(*place, *key) for key in _that_loosen(agent, outside)]
        found += [(*place, "webhook", name) for name in as_values(agent.get("webhook")) if sends]
    found += [("plugins", "plugins", plugin) for plugin in as_values(project.get("plugins", "plugins"))]
    if project.get("parallel", "ignored_file_allowlist") is not None:
        found.append(("parallel", "ignored_file_allowlist"))
    return tuple(key_text(key) for key in found)


def instruction_files(layer: Layer) -> tuple[str, ...]:
    """Every instruction file that the layer names, for itself or in a profile, as it is written."""
    return tuple(str(entry) for agent in _agents(layer).values() for entry in _entries(agent.get("instruction_files")))


def _agents(layer: Layer) -> dict[tuple[str, ...], Values]:
    """The agent settings of a layer and of its profiles, by their place."""
    profiles: dict[tuple[str, ...], Values] = {
        ("profiles", name): as_values(patch) for name, patch in as_values(layer.get("profiles")).items()
    }
    return {("agent",): as_values(layer.get("agent")), **profiles}


def _that_run_code(agent: Values) -> Iterator[Key]:
    """What names a program: one that the repository could bring along."""
    if "ci_gate" in agent:
        yield ("ci_gate",)
    yield from ((name,) for name in BINARIES if name in agent)
    if _is_foreign(agent.get("runner")):
        yield ("runner",)
    for phase, override in as_values(agent.get("phase_overrides")).items():
        if _is_foreign(dig(override, "runner")):
            yield ("phase_overrides", phase, "runner")


def _that_loosen(agent: Values, outside: Collection[str]) -> Iterator[Key]:
    """What publishes, takes away a question, or shows an agent files from elsewhere."""
    if agent.get("git_publish_mode") not in (None, "off"):
        yield ("git_publish_mode",)
    if agent.get("claude_permission_mode") == "bypass_permissions":
        yield ("claude_permission_mode",)
    cli = agent.get("runner_cli")
    if dig(cli, "defaults", "approval_mode") == "yolo":
        yield ("runner_cli", "defaults", "approval_mode")
    for runner, options in as_values(dig(cli, "runners")).items():
        if dig(options, "approval_mode") == "yolo":
            yield ("runner_cli", "runners", runner, "approval_mode")
    for position, entry in enumerate(_entries(agent.get("instruction_files"))):
        if entry in outside:
            yield ("instruction_files", position)


def _is_foreign(runner: object) -> bool:
    return runner is not None and (runner == "cursor" or runner not in RUNNERS)


def _entries(value: object) -> list[object]:
    return value if isinstance(value, list) else []
