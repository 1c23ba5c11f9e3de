"""Git, as far as runs need it: the tree as it stands, kept for a revert, and the commands that the shim runs to change anything."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

import anyio.to_thread
from cueloop_protocol.roots import Caller, Root

from cueloop_daemon.runs.types import Baseline
from cueloop_daemon.store.git import git_environment

LIMIT = 120.0
"""Seconds for one call; adding a large tree to an index takes its time."""

IDENTITY = {
    "GIT_AUTHOR_NAME": "cueloopd",
    "GIT_AUTHOR_EMAIL": "cueloopd@localhost",
    "GIT_COMMITTER_NAME": "cueloopd",
    "GIT_COMMITTER_EMAIL": "cueloopd@localhost",
}
"""Of the objects that keep a tree; people's commits carry their own."""


@dataclass(frozen=True, slots=True)
class GitTrees:
    """The work tree of a repository. `apart` are paths relative to the root that never count: queue and done file."""

    root: Root
    caller: Caller
    environ: Mapping[str, str]
    apart: tuple[str, ...]

    async def is_dirty(self) -> bool:
        """Whether there are changes outside `.cueloop/`, queue and done file; without git there are none."""
        output = await self._git("status", "--porcelain", "--untracked-files=normal", "--", *self._paths())
        return bool(output)

    async def now(self) -> str | None:
        """The id of a tree object of the work tree as it stands; None without git."""
        return await anyio.to_thread.run_sync(self._tree_now)

    async def head(self) -> str | None:
        """The commit that is checked out; None without one."""
        return await self._git("rev-parse", "--verify", "--quiet", "HEAD^{commit}") or None

    async def keep(self, task_id: str) -> Baseline:
        """Keep the tree as it stands for a revert, as a commit that a ref of ours holds."""
        tree, head, dirty = await self.now(), await self.head(), await self.is_dirty()
        if tree is None:
            return Baseline(None, head, dirty)
        parent = () if head is None else ("-p", head)
        commit = await self._git("commit-tree", tree, *parent, "-m", f"The tree as task {task_id} found it", env=IDENTITY)
        if not commit:
            return Baseline(None, head, dirty)
        await self._git("update-ref", f"refs/cueloop/base/{_ref_part(task_id)}", commit)
        return Baseline(commit, head, dirty)

    def revert_argv(self, baseline: Baseline) -> tuple[str, ...]:
        """Returns the tree to the baseline, never further; prints the ref of the commit that keeps what it undid as its last line."""
        return (sys.executable, "-P", "-m", "cueloop_daemon.store.revert", str(baseline.commit), *self.apart)

    def commit_argv(self, task_id: str, title: str, run_id: str) -> tuple[str, ...]:
        """Commits all changes with trailers that name task and run."""
        message = f"{task_id}: {title}\n\nCueLoop-Task: {task_id}\nCueLoop-Run: {run_id}\n"
        return ("sh", "-c", 'git add -A -- . && git commit --quiet --message "$1"', "sh", message)

    def push_argv(self) -> tuple[str, ...]:
        """Pushes the current branch to where it is set to go."""
        return ("git", "push", "--quiet")

    async def has_commit(self, task_id: str, run_id: str, since: str | None) -> bool:
        """Whether a commit with these trailers exists after `since`."""
        span = "HEAD" if since is None else f"{since}..HEAD"
        form = "%(trailers:key=CueLoop-Task,valueonly,separator=%x2C)|%(trailers:key=CueLoop-Run,valueonly,separator=%x2C)"
        output = await self._git("log", f"--format={form}", span)
        return f"{task_id}|{run_id}" in (output or "").splitlines()

    def _paths(self) -> tuple[str, ...]:
        return (".", ":(exclude).cueloop", *(f":(exclude){path}" for path in self.apart))

    async def _git(self, *arguments: str, env: Mapping[str, str] | None = None) -> str | None:
        return await anyio.to_thread.run_sync(lambda: self._call(*arguments, env=env))

    def _call(self, *arguments: str, env: Mapping[str, str] | None = None) -> str | None:
        """What git prints, trimmed; None if it fails, is missing or does not end in time."""
        options = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
        try:
            done = subprocess.run(
                ["git", *options, *arguments],
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
                    copy.write(there.read())
            except OSError:
                pass  # nothing was ever added here
            if self._call("add", "-A", "--", *self._paths(), env=own) is None:
                return None
            return self._call("write-tree", env=own)


def _ref_part(task_id: str) -> str:
    """A task id as a part of a ref's name."""
    return "".join(char if char.isalnum() or char in "-_" else "-" for char in task_id) or "task"
