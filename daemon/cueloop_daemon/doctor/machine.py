"""The machine around the repository: git, home, clock, limits, and which `cueloop` is called."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from datetime import timedelta

import cueloop_daemon.answers
from cueloop_daemon.core.request import run_request
from cueloop_daemon.core.runs.beginning import Chosen, Wish, begin
from cueloop_daemon.core.stamps import SKEW, format_stamp
from cueloop_daemon.doctor.kinds import found
from cueloop_daemon.doctor.reading import beginning
from cueloop_daemon.doctor.sight import Sight
from cueloop_daemon.store.git import Tree
from cueloop_protocol.documents.doctor import Finding
from cueloop_protocol.place import FOLDER
from cueloop_protocol.roots import shown

LEAST_FILES = 256
"""Open files below which a daemon cannot serve: its own are some 128."""
_HEAD = 4096
_COMPILED = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""How compiled programs begin: Linux, macOS for one and for several processors."""


def git(sight: Sight) -> Iterator[Finding]:
    """Whether there is git, a work tree, and one that a run accepts."""
    if not sight.has_git:
        yield found("git-missing", "There is no git on PATH.")
    elif sight.tree is Tree.UNKNOWN:
        yield found("not-a-work-tree", f"{sight.seen()} is not in a git work tree, or git does not answer.")
    elif sight.is_dirty and wants_clean_tree(sight):
        yield found("tree-dirty", "The work tree has changes that are not committed, and the next run would begin a task.")


def wants_clean_tree(sight: Sight) -> bool:
    """Whether the next `run one` would begin a task rather than go on with one."""
    chosen = begin(sight.facts, Wish(run_request("one", resume=True), True), sight.now)
    return sight.facts.active_run is None and isinstance(chosen, Chosen) and chosen.session is None


def home(sight: Sight) -> Iterator[Finding]:
    """The home folder, on which configuration, plugins and the agents' logins depend."""
    named = sight.environ.get("HOME", "")
    if not os.path.isabs(named):
        what = f"HOME is {named!r}" if named else "HOME is not set"
        yield found("home-ignored", f"{what}; {shown(sight.caller.home)} is used.")
    if not os.path.isdir(sight.caller.home) or not os.access(sight.caller.home, os.X_OK):
        yield found(
            "home-missing", f"The home folder {shown(sight.caller.home)} cannot be entered.", path=shown(sight.caller.home)
        )


def clock(sight: Sight) -> Iterator[Finding]:
    """A change time that lies ahead: nobody can give a file one, so the clocks differ."""
    for name in (".cueloop", ".cueloop/cache", FOLDER, f"{FOLDER}/events.db", ".cueloop/queue.jsonc"):
        try:
            changed = os.lstat(sight.root.join(name)).st_ctime
        except OSError:
            continue
        ahead = timedelta(seconds=round(changed - sight.now.timestamp()))
        if ahead > SKEW:
            message = f"{sight.seen(name)} was changed {ahead} after now, {format_stamp(sight.now)}."
            yield found("clock-behind", message, path=sight.seen(name))
            return


def limits(sight: Sight) -> Iterator[Finding]:
    """How many files a process may open; the daemon raises its soft limit by itself, so the hard one counts."""
    if (most := sight.open_files()) < LEAST_FILES:
        yield found("few-open-files", f"A process may open {most} files; {LEAST_FILES} are needed.")


def python(sight: Sight) -> Iterator[Finding]:
    """Whether Python's compiled files are there, without which each command takes longer to start."""
    if sys.implementation.cache_tag is None:  # this Python keeps none
        return
    source = cueloop_daemon.answers.__file__
    compiled = importlib.util.cache_from_source(source)
    is_written = not sight.environ.get("PYTHONDONTWRITEBYTECODE") and os.access(os.path.dirname(source), os.W_OK)
    if not os.path.exists(compiled) and not is_written:
        yield found("no-compiled-files", f"{shown(compiled)} is not there.", path=shown(compiled))


def commands(sight: Sight) -> Iterator[Finding]:
    """Which `cueloop` is meant by whoever types the word."""
    program = sight.asked.program
    if not program:
        return
    places = list(_on_path(sight))
    if places and _is_another(places[0], program):
        yield found("cueloop-shadowed", f"The first cueloop on PATH is {shown(places[0])}, not this one ({shown(program)}).")
    if len(places) > 1:
        yield found("several-cueloops", f"On PATH are {', '.join(map(shown, places))}, in this order.")
    if sight.asked.rust_tool is None:
        yield found("rust-tool-missing", "The Rust tool `cueloop` is not here.")


def _on_path(sight: Sight) -> Iterator[str]:
    """The programs named `cueloop` on PATH, each file once."""
    met: set[tuple[int, int]] = set()
    for folder in sight.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, "cueloop")
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            continue
        if os.path.isabs(folder) and os.access(path, os.X_OK) and (status.st_dev, status.st_ino) not in met:
            met.add((status.st_dev, status.st_ino))
            yield path


def _is_another(path: str, program: str) -> bool:
    """Whether that is certainly another tool: a compiled program, or a script of another installation.

    A wrapper (of pyenv and its kin) may lead to us; nobody is alarmed by one.
    """
    try:
        if os.path.samefile(path, program):
            return False
    except OSError:
        return False
    head = beginning(path, _HEAD)
    if head.startswith(_COMPILED):
        return True
    return b"cueloop_client" in head and os.fsencode(sys.prefix) not in head
