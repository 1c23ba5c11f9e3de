"""What git says, what it says nothing about, and that it always comes to an end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest

from cueloop_daemon.store.git import Git, Tree, git_environment
from cueloop_protocol.roots import Caller, Root

ENVIRON = {"PATH": os.environ["PATH"]}
NAMED = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    environment = {**ENVIRON, "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *NAMED, *arguments], cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One commit, nothing to commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "file").write_text("one\n")
    git(folder, "add", "file")
    git(folder, "commit", "-qm", "one")
    return folder


def root_of(folder: Path) -> Root:
    return Root(str(folder), str(folder))


def caller_of(folder: Path) -> Caller:
    return Caller(str(folder.parent), None)


async def tree(folder: Path, tool: Git | None = None) -> Tree:
    """Both ways of asking, which must agree."""
    tool = tool or Git(ENVIRON)
    root, caller = root_of(folder), caller_of(folder)
    answer = await tool.tree(root, caller)
    assert tool.tree_sync(root, caller) is answer
    assert await tool.is_dirty(root, caller) is tool.is_dirty_sync(root, caller) is (answer is Tree.DIRTY)
    return answer


async def head(folder: Path, tool: Git | None = None) -> str | None:
    tool = tool or Git(ENVIRON)
    answer = await tool.head_commit(root_of(folder), caller_of(folder))
    assert tool.head_commit_sync(root_of(folder), caller_of(folder)) == answer
    return answer


def stale_lock(folder: Path) -> None:
    (folder / ".git" / "index.lock").touch()


def detached(folder: Path) -> None:
    git(folder, "checkout", "-q", "--detach")


def rebasing(folder: Path) -> None:
    git(folder, "checkout", "-qb", "other", "HEAD")
    for number, branch in enumerate(("other", "main")):
        git(folder, "checkout", "-q", branch)
        (folder / "file").write_text(f"{number}\n")
        git(folder, "commit", "-qam", branch)
    with pytest.raises(subprocess.CalledProcessError):
        git(folder, "rebase", "other")
    git(folder, "checkout", "-q", "--ours", "file")
    git(folder, "add", "file")


@pytest.mark.parametrize("state", [stale_lock, detached, rebasing])
async def test_f08_states_of_a_repository(repository: Path, state: Callable[[Path], None]) -> None:
    """F08: a stale lock, a detached HEAD, a rebase: the answers are right and git's files stay."""
    state(repository)
    before = {path: path.stat().st_mtime_ns for path in (repository / ".git").rglob("*")}
    assert await tree(repository) is Tree.CLEAN
    assert await head(repository) == git(repository, "rev-parse", "HEAD")
    (repository / "new").touch()
    assert await tree(repository) is Tree.DIRTY
    assert {path: path.stat().st_mtime_ns for path in (repository / ".git").rglob("*")} == before


async def test_f08_no_commit_yet(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    git(folder, "init", "-q")
    assert await head(folder) is None
    assert await tree(folder) is Tree.CLEAN


async def test_no_repository(tmp_path: Path) -> None:
    assert await tree(tmp_path) is Tree.UNKNOWN
    assert await head(tmp_path) is None


async def test_no_folder(tmp_path: Path) -> None:
    assert await tree(tmp_path / "gone") is Tree.UNKNOWN
    assert await head(tmp_path / "gone") is None


async def test_what_makes_a_tree_dirty(repository: Path) -> None:
    (repository / "file").write_text("two\n")
    assert await tree(repository) is Tree.DIRTY
    git(repository, "add", "file")
    assert await tree(repository) is Tree.DIRTY
    git(repository, "reset", "-q", "--hard")
    assert await tree(repository) is Tree.CLEAN
    (repository / ".git" / "info" / "exclude").write_text("ignored\n")
    (repository / "ignored").touch()
    assert await tree(repository) is Tree.CLEAN
    (repository / "untracked").touch()
    assert await tree(repository) is Tree.DIRTY


async def test_untracked_files_count_whatever_the_configuration_says(repository: Path) -> None:
    git(repository, "config", "status.showUntrackedFiles", "no")
    (repository / "untracked").touch()
    assert await tree(repository) is Tree.DIRTY


async def test_more_than_is_read(repository: Path) -> None:
    for number in range(300):
        (repository / f"untracked file with a long name, number {number}").touch()
    assert await tree(repository) is Tree.DIRTY


async def test_a_look_never_writes_the_index(repository: Path) -> None:
    os.utime(repository / "file", (1, 1))
    before = (repository / ".git" / "index").read_bytes()
    assert await tree(repository) is Tree.CLEAN
    assert (repository / ".git" / "index").read_bytes() == before


async def test_a_linked_worktree(repository: Path) -> None:
    worktree = repository.parent / "worktree"
    git(repository, "worktree", "add", "-q", "-b", "side", str(worktree))
    assert await tree(worktree) is Tree.CLEAN
    assert await head(worktree) == await head(repository)
    (worktree / "new").touch()
    assert (await tree(worktree), await tree(repository)) == (Tree.DIRTY, Tree.CLEAN)


async def test_a_folder_that_is_only_a_descriptor(repository: Path) -> None:
    fd = os.open(repository, os.O_RDONLY | os.O_DIRECTORY)
    root = Root(str(repository), f"/proc/self/fd/{fd}")
    try:
        assert await Git(ENVIRON).tree(root, caller_of(repository)) is Tree.CLEAN
        assert Git(ENVIRON).tree_sync(root, caller_of(repository)) is Tree.CLEAN
    finally:
        os.close(fd)


async def test_the_callers_own_settings_count(repository: Path, tmp_path: Path) -> None:
    """Each caller's excludes file is found through its home or its configuration folder."""
    (repository / "mine.tmp").touch()
    home, config = tmp_path / "home", tmp_path / "config"
    (home / ".config" / "git").mkdir(parents=True)
    (config / "git").mkdir(parents=True)
    (home / ".config" / "git" / "ignore").write_text("*.tmp\n")
    answers = [
        await Git(ENVIRON).tree(root_of(repository), caller)
        for caller in (Caller(str(home), None), Caller(str(home), str(config)), Caller(str(tmp_path), None))
    ]
    assert answers == [Tree.CLEAN, Tree.DIRTY, Tree.DIRTY]


def test_environment() -> None:
    environ = {
        "PATH": "/bin",
        "GIT_DIR": "/elsewhere",
        "GIT_WORK_TREE": "/",
        "XDG_CONFIG_HOME": "/daemon",
        "HOME": "/daemon",
        "TZ": "UTC",
    }
    expected = {"PATH": "/bin", "TZ": "UTC", "HOME": "/home/a", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    assert git_environment(environ, Caller("/home/a", None)) == expected
    assert git_environment(environ, Caller("/home/a", "/c")) == {**expected, "XDG_CONFIG_HOME": "/c"}


async def test_variables_that_point_elsewhere_do_not_leak(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    (other / "untracked").touch()
    tool = Git({**ENVIRON, "GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other)})
    assert await tree(repository, tool) is Tree.CLEAN


class Fake:
    """A `git` of our own on the PATH. It tells its pid, and that of a child of its own, through a FIFO."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def script(self, text: str) -> Git:
        path = self.folder / "git"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return Git({"PATH": f"{self.folder}:{ENVIRON['PATH']}"}, limit=0.5)

    def pids(self) -> list[int]:
        return [int(text) for text in (self.folder / "pids").read_text().split()]


HANGING = 'sleep 600 & echo $$ $! > "${0%/*}/pids.new"; mv "${0%/*}/pids.new" "${0%/*}/pids"; wait'


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path / "bin")


def is_gone(pid: int) -> bool:
    """Also a zombie is gone: it only waits to be counted by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not condition():
            await anyio.sleep(0.005)


async def test_f08_a_git_that_hangs_is_ended_with_all_its_children(repository: Path, fake: Fake) -> None:
    tool = fake.script(HANGING)
    assert await tool.tree(root_of(repository), caller_of(repository)) is Tree.UNKNOWN
    await until(lambda: all(map(is_gone, fake.pids())))
    (fake.folder / "pids").unlink()
    assert tool.head_commit_sync(root_of(repository), caller_of(repository)) is None
    await until(lambda: all(map(is_gone, fake.pids())))


async def test_a_cancelled_call_leaves_no_process(repository: Path, fake: Fake) -> None:
    fake.script(HANGING)
    tool = Git({"PATH": f"{fake.folder}:{ENVIRON['PATH']}"}, limit=600)
    async with anyio.create_task_group() as group:
        group.start_soon(tool.tree, root_of(repository), caller_of(repository))
        await until((fake.folder / "pids").exists)
        group.cancel_scope.cancel()
    await until(lambda: all(map(is_gone, fake.pids())))


async def test_a_child_that_keeps_the_pipe_open(repository: Path, fake: Fake) -> None:
    """Git is gone, something it started is not: the call still ends, and so does that."""
    tool = fake.script(HANGING.replace("wait", "exit 0"))
    assert await tree(repository, tool) is Tree.UNKNOWN
    await until(lambda: all(map(is_gone, fake.pids())))


async def test_endless_output_ends(repository: Path, fake: Fake) -> None:
    assert await tree(repository, fake.script("exec yes")) is Tree.DIRTY
    assert await head(repository, fake.script("exec yes")) is None


async def test_a_closed_output_is_no_end(repository: Path, fake: Fake) -> None:
    assert await tree(repository, fake.script("exec >&-; exec sleep 600")) is Tree.UNKNOWN


@pytest.mark.parametrize("text", ["echo error; exit 128", "kill -9 $$", "exit 1"])
async def test_a_git_that_fails(repository: Path, fake: Fake, text: str) -> None:
    tool = fake.script(text)
    assert await tree(repository, tool) is Tree.UNKNOWN
    assert await head(repository, tool) is None


@pytest.mark.parametrize("text", ["echo nonsense", "echo 0123", "true", "printf '%040d\\n%040d\\n' 0 0"])
async def test_a_commit_that_is_none(repository: Path, fake: Fake, text: str) -> None:
    assert await head(repository, fake.script(text)) is None


async def test_a_commit_of_either_length(repository: Path, fake: Fake) -> None:
    assert await head(repository, fake.script("printf '%040d\\n' 7")) == "7".zfill(40)
    assert await head(repository, fake.script("printf '%064d\\n' 7")) == "7".zfill(64)


@pytest.mark.parametrize("kind", ["missing", "not executable", "no interpreter", "folder"])
async def test_f08_no_git(repository: Path, fake: Fake, kind: str) -> None:
    path = fake.folder / "git"
    if kind == "not executable":
        path.write_text("#!/bin/sh\n")
    elif kind == "no interpreter":
        path.write_text("#!/no/such/interpreter\n")
        path.chmod(0o755)
    elif kind == "folder":
        path.mkdir()
    tool = Git({"PATH": str(fake.folder)})
    assert await tree(repository, tool) is Tree.UNKNOWN
    assert await head(repository, tool) is None


async def test_no_descriptor_is_left_open(repository: Path, fake: Fake) -> None:
    await tree(repository)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await tree(repository)
        await tree(repository, fake.script("exit 1"))
        await tree(repository, Git({"PATH": "/nowhere"}))
    assert len(os.listdir("/proc/self/fd")) == before


async def test_no_descriptors_for_it(repository: Path) -> None:
    """The limit of open files is reached: unknown, not an error."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 1, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        answer = Git(ENVIRON).tree_sync(root_of(repository), caller_of(repository))
    assert answer is Tree.UNKNOWN
