"""All that the checks look at, as one value: what was read once, and how to look at the rest."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cueloop_daemon.core.model import Snapshot, Unusable
from cueloop_daemon.doctor.asked import Asked
from cueloop_daemon.doctor.cursor import Sdk
from cueloop_daemon.doctor.programs import Answer, Program
from cueloop_daemon.events.model import LONGEST_PATH
from cueloop_daemon.runners import Effective, Refused, UnknownRunner
from cueloop_daemon.store.git import Tree
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.doctor import Finding, PhaseName
from cueloop_protocol.place import FOLDER, root_hash
from cueloop_protocol.roots import Caller, Root, shown

PHASES: Mapping[int, PhaseName] = {1: "plan", 2: "implement", 3: "review"}
"""The phases by the number that a session has of them."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One of the built-in agents, or a plugin's. `used_for`: the phases that the configuration gives it.

    `sdk` is Cursor's, whose program is Node.js itself.
    """

    id: str
    name: str
    program: Program
    answer: Answer
    used_for: tuple[PhaseName, ...]
    sdk: Sdk | None = None


PhaseSettings = Effective | Refused | UnknownRunner


@dataclass(frozen=True, slots=True)
class Sight:
    """The repository as the doctor meets it. `passwd_home` is the user's home whatever the environment says."""

    root: Root
    caller: Caller
    uid: int
    environ: Mapping[str, str]
    passwd_home: str
    now: datetime
    asked: Asked
    facts: Snapshot
    tree: Tree
    """What git says of the whole tree; UNKNOWN where there is none."""
    is_dirty: bool
    """Changes that would keep a run from beginning a task: those outside `.cueloop`, queue and done file."""
    has_git: bool
    local: str
    """The folder of this user's locks in `/tmp`."""
    phases: Mapping[PhaseName, PhaseSettings]
    """What each phase would be run with; empty while the configuration cannot be used."""
    agents: tuple[Agent, ...]
    node: Answer
    """What the Node.js on PATH says of its version."""
    statvfs: Callable[[str], os.statvfs_result] = os.statvfs
    flock: Callable[[int, int], object] = fcntl.flock
    open_files: Callable[[], int] = field(default=lambda: 1 << 20)
    """How many files a process may open at most."""

    @property
    def config(self) -> Config | None:
        """The configuration, if it can be used."""
        return None if isinstance(self.facts.config, Unusable) else self.facts.config

    @property
    def is_open(self) -> bool:
        """Whether `.cueloop` is a folder that can be entered; where it is not, nothing can be said of what is in it."""
        folder = self.root.join(".cueloop")
        return os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK)

    @property
    def ours(self) -> str:
        """Our folder in the repository, for system calls."""
        return self.root.join(FOLDER)

    @property
    def has_daemon(self) -> bool:
        """Whether a daemon is there, however it answers: then its databases are its own."""
        return self.asked.state not in ("none", "not_asked") or self.owner is not None

    @property
    def owner(self) -> int | None:
        """The pid of the live daemon that signed the local lock."""
        from cueloop_protocol.owners import read_owner

        found = read_owner(self.local, root_hash(self.root), self.uid)
        return None if found is None else found.pid

    def seen(self, *parts: str) -> str:
        """A path below the root as people see it."""
        return shown("/".join((self.root.path, *parts)))

    def kept(self, name: str) -> str:
        """Where a database of ours is: SQLite takes no long paths, then it is in the user's state folder."""
        path = f"{self.ours}/{name}"
        try:
            is_short = len(os.fsencode(os.path.realpath(path))) <= LONGEST_PATH
        except OSError:
            is_short = False
        return path if is_short else f"{self.passwd_home}/.local/state/cueloopd/{root_hash(self.root)}/{name}"


Check = Callable[[Sight], Iterable[Finding]]
