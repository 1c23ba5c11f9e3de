"""Handing a command to the Rust tool: finding it, never ourselves, and becoming it. Standard library only."""

from __future__ import annotations

import os
import stat

from cueloop_client.failures import Usage
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.roots import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

VARIABLE = "CUELOOP_RUST_BIN"
GUARD = "CUELOOP_PASSED_ON"
"""Who passed on already: `depth:pid:dev-inode,dev-inode…`.

Exec keeps the pid, so within one pid a program that is met again is a circle."""
DEEPEST = 16
"""How often a command may be passed on by commands that it started: an agent below the Rust tool calls us again, rightly."""


class Trail(Frozen):
    """How the present command came here: through how many hand-overs, and which programs this very process has been."""

    depth: int
    met: frozenset[str]


def pass_on(name: str, argv: Sequence[str], environ: Mapping[str, str], program: str, pid: int) -> NoReturn:
    """Become the Rust tool with exactly these arguments. Raises Usage if there is none, or only a way in circles.

    Not while CUELOOP_HOST names another machine, unless `rust` says what is meant: it would work on what is here.
    """
    if environ.get("CUELOOP_HOST") and name != "rust":
        raise Usage(
            f"`{name}` is passed on to the Rust tool, which works here and not where CUELOOP_HOST says: unset that, or use `rust`."
        )
    trail, met = _met(environ, program, pid)
    target = find_tool(name, environ, met, trail.depth)
    found = identity(target)
    known = met | ({found} if found is not None else frozenset())
    guard = f"{trail.depth + 1}:{pid}:{','.join(sorted(known))}"
    _become(name, target, argv, {**environ, GUARD: guard})


def may_pass_on(name: str, environ: Mapping[str, str], program: str, pid: int) -> bool:
    """Whether `pass_on` would find the tool."""
    return tool_path(environ, program, pid) is not None


def tool_path(environ: Mapping[str, str], program: str, pid: int) -> str | None:
    """The tool that `pass_on` would become; None if there is none."""
    trail, met = _met(environ, program, pid)
    try:
        return find_tool("rust", environ, met, trail.depth)
    except Usage:
        return None


def _met(environ: Mapping[str, str], program: str, pid: int) -> tuple[Trail, frozenset[str]]:
    """The trail, and the programs that may not be passed on to."""
    trail = read_trail(environ.get(GUARD, ""), pid)
    ourselves = identity(program)
    return trail, trail.met | ({ourselves} if ourselves is not None else frozenset())


def find_tool(name: str, environ: Mapping[str, str], met: frozenset[str], depth: int) -> str:
    """The path of the Rust tool: `$CUELOOP_RUST_BIN`, else the next `cueloop` on PATH that is none of `met`. Raises Usage."""
    if depth >= DEEPEST:
        raise Usage(f"`{name}` was passed on {depth} times in a row: set {VARIABLE} to the Rust tool itself.")
    named = environ.get(VARIABLE)
    if named:
        if not _is_program(named):
            raise Usage(f"`{name}` is a command of the Rust tool, and {VARIABLE} names {shown(named)}, which is no program.")
        if identity(named) in met:
            raise Usage(
                f"`{name}` is a command of the Rust tool, and {VARIABLE} leads back to this tool: set it to the Rust one."
            )
        return named
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, "cueloop")
        # What stands relative on PATH is a different program in each folder; nothing of a repository is ever run by its name.
        if os.path.isabs(folder) and _is_program(path) and identity(path) not in met:
            return path
    by_hand = (
        '\nWithout it: mkdir .cueloop, and write the tasks to .cueloop/queue.jsonc; an empty list is {"version": 1, "tasks": []}.'
    )
    raise Usage(
        f"`{name}` is a command of the Rust tool cueloop, which is not here: install it on PATH, or set {VARIABLE} to its path."
        + (by_hand if name == "init" else "")
    )


def read_trail(text: str, pid: int) -> Trail:
    """The trail in the guard variable; what is malformed counts as none."""
    depth, _, rest = text.partition(":")
    who, _, met = rest.partition(":")
    if not (depth.isascii() and depth.isdigit() and len(depth) < 6):
        return Trail(0, frozenset())
    return Trail(int(depth), frozenset(filter(None, met.split(","))) if who == str(pid) else frozenset())


def identity(path: str) -> str | None:
    """Device and inode of the file that `path` leads to; None if there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return f"{status.st_dev}-{status.st_ino}"


def _is_program(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def _become(name: str, target: str, argv: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    import signal

    # Python ignores these two, and what is ignored stays so over exec: the tool's own children would not notice a closed pipe.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(target, [target, *argv], environ)
    except OSError as exc:
        raise Usage(f"`{name}` is a command of the Rust tool, and {shown(target)} cannot be started: {exc.strerror}.") from exc
