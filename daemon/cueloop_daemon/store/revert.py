"""Returns a work tree to a commit that kept it, never further: `python -m cueloop_daemon.store.revert COMMIT [PATH apart …]`.

Run by a run's shim in the root. First the present tree is kept as a commit of its own, which the last line printed names; then each
path that differs is put back, but only while it still is what was kept: what somebody writes meanwhile stays, and is said.
Branch, commits and the person's index are not moved.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import uuid

GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
IDENTITY = {
    "GIT_AUTHOR_NAME": "cueloopd",
    "GIT_AUTHOR_EMAIL": "cueloopd@localhost",
    "GIT_COMMITTER_NAME": "cueloopd",
    "GIT_COMMITTER_EMAIL": "cueloopd@localhost",
}


def git(*arguments: str, env: dict[str, str] | None = None, data: bytes | None = None) -> bytes:
    """What git prints. Raises CalledProcessError."""
    return subprocess.run(
        [*GIT, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        input=data if data is not None else b"",
        env={**os.environ, **(env or {})},
    ).stdout


def main(argv: list[str]) -> int:
    """0: the tree is as `argv[0]` has it, but for what is named on the way."""
    base, apart = argv[0], argv[1:]
    paths = [".", ":(exclude).cueloop", *(f":(exclude){path}" for path in apart)]
    now = present_tree(paths)
    head = git("rev-parse", "--verify", "HEAD").decode().strip()
    kept = git("commit-tree", now, "-p", head, "-m", "What a revert undid", env=IDENTITY).decode().strip()
    ref = f"refs/cueloop/reverted/{uuid.uuid4().hex[:12]}"
    git("update-ref", ref, kept)
    for path in git("diff", "--name-only", "--no-renames", "-z", f"{base}^{{tree}}", now, "--", *paths).split(b"\0"):
        if path and not put_back(path, base, now):
            print(f"{os.fsdecode(path)} was changed meanwhile and stays as it is")
    print(f"{ref} ({kept})")
    return 0


def present_tree(paths: list[str]) -> str:
    """The id of a tree object of the work tree as it stands."""
    index = git("rev-parse", "--git-path", "index").decode().strip()
    with tempfile.TemporaryDirectory(prefix="cueloopd-index-") as folder:
        own = {"GIT_INDEX_FILE": f"{folder}/index"}
        if os.path.exists(index):
            with open(index, "rb") as there, open(own["GIT_INDEX_FILE"], "wb") as copy:
                copy.write(there.read())
        git("add", "-A", "--", *paths, env=own)
        return git("write-tree", env=own).decode().strip()


def put_back(path: bytes, base: str, now: str) -> bool:
    """Put one path back; False if it is not what `now` has any more."""
    name = os.fsdecode(path)
    if entry(base, name) is None:
        if present(name) != entry(now, name):
            return False
        os.unlink(name)
        return True
    if present(name) != entry(now, name):
        return False
    git("restore", f"--source={base}", "--worktree", "--", f":(literal){name}")
    return True


def entry(tree: str, name: str) -> str | None:
    """The blob id of a path in a tree."""
    line = git("ls-tree", tree, "--", f":(literal){name}").decode("utf-8", "surrogateescape")
    return line.split()[2] if line.strip() else None


def present(name: str) -> str | None:
    """The blob id of a path as it stands; None if nothing does."""
    if os.path.islink(name):
        return git("hash-object", "--stdin", data=os.fsencode(os.readlink(name))).decode().strip()
    if not os.path.isfile(name):
        return None
    return git("hash-object", f"--path={name}", "--", name).decode().strip()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.CalledProcessError as error:
        print(f"git {error.cmd[len(GIT)]} failed with exit code {error.returncode}", file=sys.stderr)
        sys.exit(1)
