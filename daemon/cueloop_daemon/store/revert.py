"""Returns a work tree to a commit that kept it, never further: `python -m cueloop_daemon.store.revert COMMIT [PATH apart …]`.

Run by a run's shim in the root. First the present tree is kept as a commit of its own, which the last line printed names; then each
path that differs is put back, but only while it still is what was kept: what somebody writes meanwhile stays, and is named.
Branch and commits are not moved; the index forgets what was put back.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping
from functools import partial

GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
IDENTITY = {
    "GIT_AUTHOR_NAME": "cueloopd",
    "GIT_AUTHOR_EMAIL": "cueloopd@localhost",
    "GIT_COMMITTER_NAME": "cueloopd",
    "GIT_COMMITTER_EMAIL": "cueloopd@localhost",
}
AT_ONCE = 100
"""Paths that are looked at and put back together: few enough that hardly anybody writes in between."""

Files = Mapping[bytes, bytes]
"""Path → blob id."""


def git(*arguments: str, env: dict[str, str] | None = None, data: bytes = b"") -> bytes:
    """What git prints. Raises CalledProcessError."""
    return subprocess.run(
        [*GIT, *arguments], check=True, stdout=subprocess.PIPE, input=data, env={**os.environ, **(env or {})}
    ).stdout


def main(argv: list[str]) -> int:
    """0: the tree is as `argv[0]` has it, but for what is named on the way."""
    base, apart = argv[0], argv[1:]
    paths = [".", ":(exclude).cueloop", *(f":(exclude){path}" for path in apart)]
    now = present_tree(paths)
    ref, kept = keep(now)
    listed = git("diff", "--name-only", "--relative", "--no-renames", "-z", f"{base}^{{tree}}", now, "--", *paths)
    differing = [path for path in listed.split(b"\0") if path]
    before, after = files_of(base), files_of(now)
    # What is to go goes first: a file may have to become a folder again.
    put_back([path for path in differing if path not in before], after, remove)
    with tempfile.TemporaryDirectory(prefix="cueloopd-index-") as folder:
        index = f"{folder}/index"
        git("read-tree", base, env={"GIT_INDEX_FILE": index})
        put_back([path for path in differing if path in before], after, partial(restore, index))
    standing = present(differing)
    for path in differing:
        is_repository = path not in before and path not in after
        if is_repository or standing.get(path) != before.get(path):
            print(f"{os.fsdecode(path)} stays as it is")
    print(f"{ref} ({kept})")
    return 0


def keep(tree: str) -> tuple[str, str]:
    """(ref, id) of a new commit that holds the tree."""
    head = subprocess.run(
        [*GIT, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"], check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ).stdout.decode()
    parent = ("-p", head.strip()) if head.strip() else ()
    kept = git("commit-tree", tree, *parent, "-m", "What a revert undid", env=IDENTITY).decode().strip()
    ref = f"refs/cueloop/reverted/{uuid.uuid4().hex[:12]}"
    git("update-ref", ref, kept)
    return ref, kept


def present_tree(paths: list[str]) -> str:
    """The id of a tree object of the work tree as it stands."""
    index = git("rev-parse", "--git-path", "index").decode().strip()
    with tempfile.TemporaryDirectory(prefix="cueloopd-index-") as folder:
        own = {"GIT_INDEX_FILE": f"{folder}/index"}
        with contextlib.suppress(FileNotFoundError):
            with open(index, "rb") as there, open(own["GIT_INDEX_FILE"], "wb") as copy:
                status = os.fstat(there.fileno())
                copy.write(there.read())
            # git compares the contents of what is as young as the index: a copy must not look younger than it is.
            os.utime(own["GIT_INDEX_FILE"], ns=(status.st_atime_ns, status.st_mtime_ns))
        git("add", "-A", "--", *paths, env=own)
        return git("write-tree", env=own).decode().strip()


def files_of(tree: str) -> dict[bytes, bytes]:
    """Every file and link of a tree. Other repositories in it are no files."""
    found: dict[bytes, bytes] = {}
    for line in git("ls-tree", "-r", "-z", tree).split(b"\0"):
        facts, _, path = line.partition(b"\t")
        if facts:
            _, kind, name = facts.split()
            if kind == b"blob":
                found[path] = name
    return found


def put_back(paths: list[bytes], after: Files, act: Callable[[list[bytes]], None]) -> None:
    """`act` on each path, but only while it is what `after` has. A folder is never touched."""
    for start in range(0, len(paths), AT_ONCE):
        some = paths[start : start + AT_ONCE]
        standing = present(some)
        ready = [path for path in some if standing.get(path) == after.get(path) and (path in standing or not os.path.isdir(path))]
        act(ready)
        unstage(ready)


def restore(index: str, paths: list[bytes]) -> None:
    """The files as `index`, one of our own, has them: nobody's lock on the person's index is in the way."""
    if paths:
        with contextlib.suppress(subprocess.CalledProcessError):  # said at the end
            git("checkout-index", "--force", "-z", "--stdin", env={"GIT_INDEX_FILE": index}, data=b"\0".join(paths))


def remove(paths: list[bytes]) -> None:
    """Files that were not there, with the folders that they leave empty."""
    for path in paths:
        with contextlib.suppress(OSError):  # said at the end
            os.unlink(path)
        folder = os.path.dirname(path)
        with contextlib.suppress(OSError):  # not empty: others live there
            while folder:
                os.rmdir(folder)
                folder = os.path.dirname(folder)


def unstage(paths: list[bytes]) -> None:
    """The index says of these paths what HEAD says. A lock on the index, or no commit at all: it stays as it is."""
    if paths:
        listed = b"\0".join(b":(literal)" + path for path in paths)
        with contextlib.suppress(subprocess.CalledProcessError):
            git("reset", "--quiet", "--pathspec-from-file=-", "--pathspec-file-nul", data=listed)


def present(paths: list[bytes]) -> dict[bytes, bytes]:
    """The blob ids of those paths at which a file or a link stands."""
    links = [path for path in paths if os.path.islink(path)]
    found = {path: git("hash-object", "--stdin", data=os.readlink(path)).strip() for path in links}
    plain = [path for path in paths if path not in found and os.path.isfile(path)]
    listed = [path for path in plain if b"\n" not in path]
    top = git("rev-parse", "--show-prefix").rstrip(b"\n")  # unlike arguments, listed paths are looked for from the top
    ids = git("hash-object", "--stdin-paths", data=b"".join(top + path + b"\n" for path in listed)).split() if listed else []
    found |= zip(listed, ids, strict=True)
    for path in set(plain) - set(listed):
        found[path] = git("hash-object", f"--path={os.fsdecode(path)}", "--", os.fsdecode(path)).strip()
    return found


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.CalledProcessError as error:
        print(f"git {error.cmd[len(GIT)]} failed with exit code {error.returncode}", file=sys.stderr)
        sys.exit(1)
