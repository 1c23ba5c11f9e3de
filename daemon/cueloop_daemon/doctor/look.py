"""Reading once what the checks look at: the repository's files, git, and the agents' programs."""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio

from cueloop_daemon.core.controls import BUILT_IN
from cueloop_daemon.core.model import Unusable
from cueloop_daemon.doctor.asked import Asked
from cueloop_daemon.doctor.carried import really_held
from cueloop_daemon.doctor.cursor import find_sdk
from cueloop_daemon.doctor.programs import SECONDS, Answer, NotAsked, ask_versions, find_program
from cueloop_daemon.doctor.sight import PHASES, Agent, PhaseSettings, Sight
from cueloop_daemon.runners import Effective, effective, plugin_runners
from cueloop_daemon.runs.active import read_active
from cueloop_daemon.runs.owed_file import read_owed
from cueloop_daemon.store.git import Git, Tree
from cueloop_daemon.store.trees import GitTrees
from cueloop_daemon.workspace.files import FileCache, read_regular
from cueloop_daemon.workspace.loading import Loader, QueueCache
from cueloop_daemon.workspace.view import Dirt, snapshot_of
from cueloop_protocol.documents.config import Agent as AgentConfig
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.doctor import PhaseName
from cueloop_protocol.overrides import Overrides
from cueloop_protocol.place import local_folder
from cueloop_protocol.roots import Caller, Root, expand

_PHASES: Mapping[int, tuple[int, ...]] = {1: (2,), 2: (1, 2), 3: (1, 2, 3)}
"""How many phases there are → their numbers (a single phase is the second)."""
_BIN: Mapping[str, str] = {"cursor": "cursor_sdk_node_bin"}
_OWN_NAMES: Mapping[str, str] = {"cursor": "node"}
_NODE = "node"


def look(
    root: Root, caller: Caller, uid: int, environ: Mapping[str, str], passwd_home: str, asked: Asked, **changed: Any
) -> Sight:
    """Everything as it is now. Blocking.

    `changed` stands in for fields of Sight (a clock, a disk, a folder of locks); `seconds` are those that programs may take.
    """
    seconds: float = changed.pop("seconds", SECONDS)
    now: datetime = changed.pop("now", None) or datetime.now(UTC)
    loader = Loader(root, FileCache(time.time_ns), QueueCache(time.time_ns), time.time_ns)
    loaded = loader.load(caller)
    loaded = replace(loaded, lock=really_held(root, loaded.lock))
    git = Git(environ)
    tree = git.tree_sync(root, caller)
    facts = snapshot_of(loaded, Dirt(tree is Tree.DIRTY, now, 0.0), read_active(root), 0, read_owed(root))
    config = None if isinstance(facts.config, Unusable) else facts.config
    phases, agents, node = _agents(
        root, caller, environ, config, trusted=facts.trusted, seconds=seconds if asked.with_agents else None
    )
    return Sight(
        **{
            "root": root,
            "caller": caller,
            "uid": uid,
            "environ": environ,
            "passwd_home": passwd_home,
            "now": now,
            "asked": asked,
            "facts": facts,
            "tree": tree,
            "is_dirty": tree is Tree.DIRTY and _is_dirty(root, caller, environ, config),
            "has_git": shutil.which("git", path=environ.get("PATH", os.defpath)) is not None,
            "local": local_folder(uid),
            "phases": phases,
            "agents": agents,
            "node": node,
            "open_files": _open_files,
            **changed,
        }
    )


def _is_dirty(root: Root, caller: Caller, environ: Mapping[str, str], config: Config | None) -> bool:
    """As a run sees it."""
    names = (".cueloop/queue.jsonc", ".cueloop/done.jsonc") if config is None else (config.queue.file, config.queue.done_file)
    paths = (os.path.relpath(expand(name, root, caller).io, root.base) for name in names)
    trees = GitTrees(root, caller, environ, tuple(path for path in paths if not path.startswith("..")))
    return anyio.run(trees.standing).is_dirty


def _agents(
    root: Root, caller: Caller, environ: Mapping[str, str], config: Config | None, *, trusted: bool, seconds: float | None
) -> tuple[Mapping[PhaseName, PhaseSettings], tuple[Agent, ...], Answer]:
    """The phases' settings, the agents with what their programs say within `seconds` (None: they are not asked), and Node.js's answer."""
    plugins = {} if config is None else plugin_runners(root, caller, config, lambda path: read_regular(path)[0], trusted=trusted)
    phases: dict[PhaseName, PhaseSettings] = {}
    if config is not None:
        for number in _PHASES.get(config.agent.phases or 3, _PHASES[3]):
            phases[PHASES[number]] = effective(config, None, Overrides(), number, plugins)
    used: dict[str, list[PhaseName]] = {}
    for name, settings in phases.items():
        if isinstance(settings, Effective):
            used.setdefault(settings.settings.runner, []).append(name)
    names = {control.id: _program_name(control.id, None if config is None else config.agent) for control in BUILT_IN}
    names |= {id_: plugin.bin for id_, plugin in plugins.items()}
    programs = {id_: find_program(name, root, caller, environ) for id_, name in names.items()}
    node = find_program(_NODE, root, caller, environ)
    built_in = {control.id: control.display_name for control in BUILT_IN}
    asked = [programs[id_].path for id_ in built_in] + [node.path]
    said = ask_versions([path for path in asked if path is not None], environ, seconds) if seconds is not None else {}
    agents = tuple(
        Agent(
            id_,
            built_in.get(id_, id_),
            program,
            said.get(program.path or "", NotAsked()),
            tuple(used.get(id_, ())),
            find_sdk(root, program.path, environ) if id_ == "cursor" else None,
        )
        for id_, program in programs.items()
        if id_ in built_in or id_ in used
    )
    return phases, agents, said.get(node.path or "", NotAsked())


def _program_name(id_: str, agent: AgentConfig | None) -> str:
    """As the configuration names it; its own name while there is none to be used."""
    if agent is None:
        return _OWN_NAMES.get(id_, id_)
    return str(getattr(agent, _BIN.get(id_, f"{id_}_bin")))


def _open_files() -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 1 << 30 if hard == resource.RLIM_INFINITY else hard
