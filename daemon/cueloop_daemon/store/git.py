"""What git says of the repository: whether the tree is dirty, and which commit is checked out.

Read only: `--no-optional-locks`, so that not even the index is refreshed, and no file system monitor, which git would start and
leave behind. Every call has an end; then, and on cancellation, git's whole process group is killed.
"""

from __future__ import annotations

import contextlib
import enum
import math
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping

import anyio

from cueloop_protocol.roots import Caller, Root
from cueloop_protocol.values import dataclass

LIMIT = 5.0
"""Seconds for one call; a preview must not hang on a repository on a lost network disk."""
_DEATH = 2.0
"""Seconds for a killed process to be gone; one that hangs in the kernel is left to it."""
_ANSWER_LIMIT = 4096
_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?\n?")
_OPTIONS = ("--no-optional-locks", "-c", "core.fsmonitor=")
_STATUS = ("status", "--porcelain", "--untracked-files=normal")
_HEAD = ("rev-parse", "--verify", "--quiet", "HEAD^{commit}")


class Tree(enum.Enum):
    """The working tree against its commit. Untracked files make it dirty, ignored ones do not."""

    CLEAN = "clean"
    DIRTY = "dirty"
    UNKNOWN = "unknown"
    """No repository, or git is missing, failed, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class _Answer:
    code: int
    output: bytes
    """Its beginning."""


@dataclass(frozen=True, slots=True)
class Git:
    """Git, as one process of this daemon runs it. `environ` gives `PATH` and the locale, never `GIT_*` or a home."""

    environ: Mapping[str, str]
    limit: float = LIMIT
    program: str = "git"
    monotonic: Callable[[], float] = time.monotonic

    async def tree(self, root: Root, caller: Caller) -> Tree:
        """Whether there is anything to commit. `Tree.UNKNOWN` rather than an error."""
        return _tree(await self._call(root, caller, _STATUS))

    async def is_dirty(self, root: Root, caller: Caller) -> bool:
        """`safety.dirty_repo`: what cannot be known counts as not dirty."""
        return await self.tree(root, caller) is Tree.DIRTY

    async def head_commit(self, root: Root, caller: Caller) -> str | None:
        """The full id of the commit that is checked out; None without one, or when git cannot say."""
        return _commit(await self._call(root, caller, _HEAD))

    def tree_sync(self, root: Root, caller: Caller) -> Tree:
        """As `tree`, for a caller without an event loop."""
        return _tree(self._call_sync(root, caller, _STATUS))

    def is_dirty_sync(self, root: Root, caller: Caller) -> bool:
        """As `is_dirty`, for a caller without an event loop."""
        return self.tree_sync(root, caller) is Tree.DIRTY

    def head_commit_sync(self, root: Root, caller: Caller) -> str | None:
        """As `head_commit`, for a caller without an event loop."""
        return _commit(self._call_sync(root, caller, _HEAD))

    async def _call(self, root: Root, caller: Caller, arguments: tuple[str, ...]) -> _Answer | None:
        # Our own pipe and waiting, not the event loop's: nobody else reaps the leader, so its number stays its own until `_end`.
        process = await anyio.to_thread.run_sync(self._start, root, caller, arguments)
        if process is None:
            return None
        answer = None
        try:
            with anyio.move_on_after(self.limit):
                output = await _beginning(process)
                code = 0 if len(output) >= _ANSWER_LIMIT else await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
                answer = _Answer(code, output)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_end, process)
        return answer

    def _call_sync(self, root: Root, caller: Caller, arguments: tuple[str, ...]) -> _Answer | None:
        process = self._start(root, caller, arguments)
        if process is None:
            return None
        try:
            output = self._beginning_sync(process)
            if output is None:
                return None
            return _Answer(0 if len(output) >= _ANSWER_LIMIT else process.wait(self.limit), output)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)

    def _start(self, root: Root, caller: Caller, arguments: tuple[str, ...]) -> subprocess.Popen[bytes] | None:
        """None if there is no such program or folder, or no room for another process."""
        try:
            return subprocess.Popen(
                [self.program, *_OPTIONS, *arguments],
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=root.base,
                env=git_environment(self.environ, caller),
                start_new_session=True,
            )
        except (OSError, ValueError):
            return None

    def _beginning_sync(self, process: subprocess.Popen[bytes]) -> bytes | None:
        """None if it takes too long."""
        assert process.stdout is not None
        deadline = self.monotonic() + self.limit
        fd = process.stdout.fileno()
        waiter = select.poll()
        waiter.register(fd, select.POLLIN)
        output = b""
        while len(output) < _ANSWER_LIMIT:
            rest = deadline - self.monotonic()
            if rest <= 0 or not waiter.poll(math.ceil(rest * 1000)):
                return None
            piece = os.read(fd, _ANSWER_LIMIT)
            if not piece:
                break
            output += piece
        return output


def git_environment(environ: Mapping[str, str], caller: Caller) -> dict[str, str]:
    """The environment git gets: the caller's home and configuration, and nothing that points it at another repository."""
    kept = {key: value for key, value in environ.items() if not key.startswith("GIT_") and key != "XDG_CONFIG_HOME"}
    if caller.config_home is not None:
        kept["XDG_CONFIG_HOME"] = caller.config_home
    return {**kept, "HOME": caller.home, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}


def _tree(answer: _Answer | None) -> Tree:
    if answer is None or answer.code != 0:
        return Tree.UNKNOWN
    return Tree.DIRTY if answer.output else Tree.CLEAN


def _commit(answer: _Answer | None) -> str | None:
    if answer is None or answer.code != 0 or not _COMMIT.fullmatch(answer.output):
        return None
    return answer.output.decode("ascii").strip()


async def _beginning(process: subprocess.Popen[bytes]) -> bytes:
    output = b""
    assert process.stdout is not None
    while len(output) < _ANSWER_LIMIT:
        await anyio.wait_readable(process.stdout)
        piece = os.read(process.stdout.fileno(), _ANSWER_LIMIT)
        if not piece:
            break
        output += piece
    return output


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the group unless its leader has been waited for: until then the number is nobody else's."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_DEATH)
    if process.stdout is not None:
        process.stdout.close()
