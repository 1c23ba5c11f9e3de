"""Git, as far as runs need it: the tree as it stands, kept for a revert, and the commands that the shim runs to change anything."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping

import anyio.to_thread

from cueloop_daemon.runs.types import Baseline, TreeStanding
from cueloop_daemon.store.git import git_environment
from cueloop_protocol.roots import Caller, Root
from cueloop_protocol.values import dataclass

LIMIT = 120.0
"""Seconds for one call; adding a large tree to an index takes its time."""

IDENTITY = {
    "GIT_AUTHOR_NAME": "cueloopd",
    "GIT_AUTHOR_EMAIL": "cueloopd@localhost",
    "GIT_COMMITTER_NAME": "cueloopd",
    "GIT_COMMITTER_EMAIL": "cueloopd@localhost",
}
"""Of the objects that keep a tree; people's commits carry their own."""

LONGEST_TITLE = 200
"""Characters of a task's title in a commit's first line."""

_OPTIONS = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_STATUS = ("status", "--porcelain=v2", "--branch", "--no-ahead-behind", "--untracked-files=normal")
_COMMIT_LINE = "# branch.oid "
_TRAILER = "%(trailers:key={},valueonly,separator=%x2C)"

_COMMIT = """
git -c add.ignoreErrors=false add -A -- . ':(exclude).cueloop/cache' ':(exclude).cueloop/lock'
code=$?
[ $code -le 1 ] || exit $code
git diff --cached --quiet || git commit -qm "$1"
"""
"""What runs keep for themselves is never committed, ignored or not. Where the agent has committed everything there is nothing to do.

git adds everything and then exits with 1 where what is excluded is ignored as well; what it cannot add is 128.
"""


@dataclass(frozen=True, slots=True)
class GitTrees:
    """The work tree of a repository. `apart` are paths relative to the root that never count: queue and done file."""

    root: Root
    caller: Caller
    environ: Mapping[str, str]
    apart: tuple[str, ...]

    async def standing(self) -> TreeStanding:
        """Whether there are changes outside `.cueloop/`, queue and done file, and the commit. One process tells both."""
        told = await self._git(*_STATUS, "--", *self._paths())
        return _standing(told or "")

    async def now(self) -> str | None:
        """The id of a tree object of the work tree as it stands; None without git."""
        return await anyio.to_thread.run_sync(self._tree_now)

    async def head(self) -> str | None:
        """The commit that is checked out; None without one."""
        return await self._git("rev-parse", "--verify", "--quiet", "HEAD^{commit}") or None

    async def changed(self, before: str, after: str) -> tuple[str, ...]:
        """The paths that differ between two tree objects, sorted."""
        output = await self._git("diff", "--name-only", "--no-renames", "-z", before, after)
        return tuple(sorted(path for path in (output or "").split("\0") if path))

    async def keep(
        self, task_id: str, session_id: str, *, tree: str | None, head: str | None, dirty: bool, is_new: bool = False
    ) -> Baseline:
        """Keep the tree as it stands for a revert, as a commit that a ref of ours holds; see `types.Trees`."""
        kept = None if is_new else await self._kept(task_id, session_id)
        if kept is not None:
            return kept
        tree = tree or (await self.now() if head is None else f"{head}^{{tree}}")
        if tree is None:
            return Baseline(None, head, dirty)
        message = (
            f"The tree as task {task_id} found it\n\nCueLoop-Session: {session_id}\nCueLoop-Dirty: {'yes' if dirty else 'no'}\n"
        )
        parent = () if head is None else ("-p", head)
        commit = await self._git("commit-tree", tree, *parent, "-m", message, env=IDENTITY)
        if not commit or await self._git("update-ref", _ref(task_id), commit) is None:
            return Baseline(None, head, dirty)
        return Baseline(commit, head, dirty)

    async def forget(self, task_id: str) -> None:
        """The task is done: its tree is kept no longer."""
        await self._git("update-ref", "-d", _ref(task_id))

    def revert_argv(self, baseline: Baseline) -> tuple[str, ...]:
        """Returns the tree to the baseline, never further; prints the ref of the commit that keeps what it undid as its last line."""
        return (sys.executable, "-E", "-P", "-m", "cueloop_daemon.store.revert", str(baseline.commit), *self.apart)

    def commit_argv(self, task_id: str, title: str, run_id: str) -> tuple[str, ...]:
        """Commits all changes with trailers that name task and run; succeeds where there are none."""
        line = " ".join(title.split())[:LONGEST_TITLE]
        message = f"{task_id}: {line}\n\nCueLoop-Task: {task_id}\nCueLoop-Run: {run_id}\n"
        return ("sh", "-c", _COMMIT, "sh", message)

    def push_argv(self) -> tuple[str, ...]:
        """Pushes the current branch to where it is set to go."""
        return ("git", "push", "--quiet")

    async def has_commit(self, task_id: str, run_id: str, since: str | None) -> bool:
        """Whether a commit with these trailers exists after `since`."""
        span = "HEAD" if since is None else f"{since}..HEAD"
        form = f"{_TRAILER.format('CueLoop-Task')}|{_TRAILER.format('CueLoop-Run')}"
        output = await self._git("log", f"--format={form}", span)
        return f"{task_id}|{run_id}" in (output or "").splitlines()

    async def _kept(self, task_id: str, session_id: str) -> Baseline | None:
        """What is kept for this very session."""
        form = f"%H%n%P%n{_TRAILER.format('CueLoop-Session')}%n{_TRAILER.format('CueLoop-Dirty')}"
        output = await self._git("log", "-1", f"--format={form}", _ref(task_id), "--")
        commit, parent, session, dirty = ((output or "").split("\n") + [""] * 4)[:4]
        if not commit or session != session_id:
            return None
        return Baseline(commit, parent or None, dirty == "yes")

    def _paths(self) -> tuple[str, ...]:
        return (".", ":(exclude).cueloop", *(f":(exclude){path}" for path in self.apart))

    async def _git(self, *arguments: str, env: Mapping[str, str] | None = None) -> str | None:
        return await anyio.to_thread.run_sync(lambda: self._call(*arguments, env=env))

    def _call(self, *arguments: str, env: Mapping[str, str] | None = None) -> str | None:
        """What git prints, trimmed; None if it fails, is missing or does not end in time."""
        try:
            done = subprocess.run(
                ["git", *_OPTIONS, *arguments],
                cwd=self.root.base,
                env={**git_environment(self.environ, self.caller), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=LIMIT,
                check=False,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
        return done.stdout.decode("utf-8", "surrogateescape").strip() if done.returncode == 0 else None

    def _tree_now(self) -> str | None:
        """By an index of our own, so that the person's is never touched."""
        index = self._call("rev-parse", "--git-path", "index")
        if index is None:
            return None
        with tempfile.TemporaryDirectory(prefix="cueloopd-index-") as folder:
            own = {"GIT_INDEX_FILE": f"{folder}/index"}
            source = index if os.path.isabs(index) else self.root.join(index)
            try:
                with open(source, "rb") as there, open(own["GIT_INDEX_FILE"], "wb") as copy:
                    status = os.fstat(there.fileno())
                    copy.write(there.read())
                # git compares the contents of what is as young as the index: a copy must not look younger than it is.
                os.utime(own["GIT_INDEX_FILE"], ns=(status.st_atime_ns, status.st_mtime_ns))
            except FileNotFoundError:
                pass  # nothing was ever added here
            except OSError:
                return None
            if self._call("add", "-A", "--", *self._paths(), env=own) is None:
                return None
            return self._call("write-tree", env=own)


def _standing(told: str) -> TreeStanding:
    """What the second form of git's status says: lines with `#` are about the branch, every other one is a change."""
    lines = told.splitlines()
    commits = [line.removeprefix(_COMMIT_LINE) for line in lines if line.startswith(_COMMIT_LINE)]
    head = commits[0] if commits and commits[0] != "(initial)" else None
    return TreeStanding(any(not line.startswith("#") for line in lines), head)


def _ref(task_id: str) -> str:
    """Where a task's tree is kept. Letters and digits are kept, so that people recognise it; every other byte is spelt out."""
    name = "".join(char if (char.isascii() and char.isalnum()) or char == "-" else f"_{ord(char):x}_" for char in task_id.strip())
    return f"refs/cueloop/base/{name or '_'}"
