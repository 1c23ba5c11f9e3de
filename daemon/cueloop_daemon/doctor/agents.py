"""The agents that the configuration uses: whether a run could start them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from shlex import quote

from cueloop_daemon.doctor.cursor import PACKAGE
from cueloop_daemon.doctor.kinds import found
from cueloop_daemon.doctor.programs import Answer, NotStarted, Said, Silent
from cueloop_daemon.doctor.reading import beginning
from cueloop_daemon.doctor.sight import Agent, Sight
from cueloop_daemon.runners import Effective, Refused, UnknownRunner, install_hint
from cueloop_daemon.runners.calling import version_of
from cueloop_daemon.runners.facts import BUILT_IN, Facts
from cueloop_daemon.store.git import Tree
from cueloop_protocol.documents.doctor import AgentReport, Finding

NODE_SCRIPT = b"node"
_LAST_WORDS = 200


def reports(sight: Sight) -> tuple[AgentReport, ...]:
    """Each agent for the table: where it is, what it says, which traps are known of that."""
    return tuple(_report(agent) for agent in sight.agents)


def _report(agent: Agent) -> AgentReport:
    facts, version = BUILT_IN.get(agent.id), _own_version(agent)
    found_traps = () if facts is None or version is None else tuple(trap for trap in facts.traps if trap.applies_to(version))
    return AgentReport(
        id=agent.id,
        name=agent.name,
        program=agent.program.name,
        path=_path(agent),
        version=None if version is None else ".".join(map(str, version)),
        problem=_problem(agent),
        tried="" if facts is None else facts.seen,
        used_for=agent.used_for,
        traps=tuple(trap.text for trap in found_traps),
    )


def agents(sight: Sight) -> Iterator[Finding]:
    """What keeps the configured agents from working. The others are nobody's business."""
    for phase, settings in sight.phases.items():
        match settings:
            case UnknownRunner():
                yield found("agent-unknown", f"{settings.message} It is configured for phase {phase}.", fix=settings.detail)
            case Refused(message, detail):
                yield found("agent-refused", f"Phase {phase}: {message}", fix=detail)
    for agent in sight.agents:
        if agent.used_for:
            yield from _one(sight, agent)


def _one(sight: Sight, agent: Agent) -> Iterator[Finding]:
    facts, program = BUILT_IN.get(agent.id), agent.program
    used = f"{agent.id}, used for {', '.join(agent.used_for)}"
    if program.path is None:
        if program.closed is not None:
            fix = f"chmod +x {quote(program.closed)}"
            yield found("agent-not-executable", f"{program.closed} ({used}) may not be executed.", fix=fix, path=program.closed)
        else:
            is_path = "/" in program.name
            cause = None if is_path else f"None of the folders of PATH has it: {sight.environ.get('PATH', os.defpath)}"
            message = f"The program {program.name} ({used}) {'is not there' if is_path else 'is not on PATH'}."
            yield found("agent-missing", message, cause=cause, fix=install_hint(agent.id))
        return
    if facts is None:  # a plugin's program answers to our own protocol alone
        return
    yield from _started(agent, used, facts)
    if agent.id == "cursor" and agent.sdk is None:
        yield found("agent-sdk-missing", f"{PACKAGE} ({used}) is not installed.", fix=install_hint(agent.id))
    yield from _version_findings(sight, agent, used, facts)
    if facts.needs_git and sight.tree is Tree.UNKNOWN:
        yield found("agent-needs-git", f"{agent.id} is configured, and this is not in a git work tree.")
    if agent.id == "claude" and sight.uid == 0 and not sight.environ.get("IS_SANDBOX") and _bypasses(sight):
        yield found("agent-refuses-root", "claude is configured to bypass permissions, and you are root.")


def _started(agent: Agent, used: str, facts: Facts) -> Iterator[Finding]:
    match agent.answer:
        case NotStarted(why):
            message = f"{agent.program.path} ({used}) cannot be started: {why}."
            yield found("agent-broken", message, fix=install_hint(agent.id), path=agent.program.path)
        case Said(code, text) if code != 0:
            said = " ".join(text.split())[-_LAST_WORDS:]
            message = f"{agent.program.path} ({used}) ends with {code} when asked for its version: {said or 'it said nothing'}"
            yield found("agent-broken", message, fix=install_hint(agent.id), path=agent.program.path)
        case Silent():
            yield found("agent-silent", f"{agent.program.path} ({used}) did not say its version.", path=agent.program.path)


def _version_findings(sight: Sight, agent: Agent, used: str, facts: Facts) -> Iterator[Finding]:
    if facts.node is not None and (agent.id == "cursor" or _is_node_script(agent.program.path)):
        node = _version(agent.answer if agent.id == "cursor" else sight.node)
        if node is not None and node < facts.node:
            text, least = ".".join(map(str, node)), ".".join(map(str, facts.node))
            yield found("node-too-old", f"{used}, needs Node.js {least}, and this one is {text}.")
    version = _own_version(agent)
    if version is None:
        return
    for trap in facts.traps:
        if trap.is_fatal and trap.applies_to(version):
            text = ".".join(map(str, version))
            yield found("agent-retired", f"{used}, has version {text}: {trap.text}", fix=f"Replace it: {facts.install}")
            return
    tried = version_of(facts.seen)
    if tried is not None and version != tried:
        text = ".".join(map(str, version))
        yield found("agent-version-untried", f"{agent.id} has version {text}; tried was {facts.seen}.")


def _bypasses(sight: Sight) -> bool:
    """Whether a phase of claude's asks for no permissions at all."""
    settings = [one.settings for one in sight.phases.values() if isinstance(one, Effective) and one.settings.runner == "claude"]
    return any(
        one.approval_mode == "yolo" or (one.approval_mode in ("default", "safe") and one.permission_mode == "bypass_permissions")
        for one in settings
    )


def _problem(agent: Agent) -> str | None:
    """What the table says in place of a version."""
    if agent.program.path is None:
        return "not executable" if agent.program.closed is not None else "not installed"
    if agent.id == "cursor" and agent.sdk is None:
        return "not installed"
    match agent.answer:
        case NotStarted(why):
            return f"cannot be started: {why}"
        case Silent():
            return "did not say its version"
        case Said(code, _) if code != 0:
            return f"ends with {code} when asked for its version"
    return None


def _version(answer: Answer) -> tuple[int, ...] | None:
    return version_of(answer.text) if isinstance(answer, Said) and answer.code == 0 else None


def _path(agent: Agent) -> str | None:
    if agent.id == "cursor":
        return None if agent.sdk is None else agent.sdk.path
    return agent.program.path


def _own_version(agent: Agent) -> tuple[int, ...] | None:
    """The agent's own version: of Cursor its SDK's, since its program is Node.js."""
    if agent.id == "cursor":
        return None if agent.sdk is None else version_of(agent.sdk.version)
    return _version(agent.answer)


def _is_node_script(path: str | None) -> bool:
    """Whether the program's first line names Node."""
    first = b"" if path is None else beginning(path, 256).split(b"\n", 1)[0]
    return first.startswith(b"#!") and NODE_SCRIPT in first
