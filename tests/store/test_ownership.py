"""Exactly one owner: whatever was left behind, removed, replaced or faked, and whoever was killed."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cueloop_daemon.store import lockfile
from cueloop_daemon.store.lockfile import HeldBy, take_lock
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.ownership import LOCK, AlreadyOwned, Ownership
from cueloop_protocol.identity import process_start_time
from cueloop_protocol.place import FOLDER, PlaceError, local_lock_path
from cueloop_protocol.roots import Root, open_root

UID = os.getuid()
OTHER = """
import os, sys
from cueloop_daemon.store.ownership import Ownership
from cueloop_protocol.roots import open_root
import fcntl
unlocked = sys.argv[2] == "always"
owned = Ownership.acquire(open_root(sys.argv[1]), os.getuid(), flock=(lambda fd, how: None) if unlocked else fcntl.flock)
print("owned" if isinstance(owned, Ownership) else f"held {owned.pid}", flush=True)
for line in sys.stdin:
    print(owned.still_ours(), flush=True)
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    (tmp_path / "repo" / ".cueloop").mkdir(parents=True)
    root = open_root(str(tmp_path / "repo"))
    yield root
    Path(local_lock_path(root, UID)).unlink(missing_ok=True)


def inner(root: Root) -> str:
    return root.join(FOLDER, LOCK)


def own(root: Root, **options: object) -> Ownership:
    owned = Ownership.acquire(root, UID, **options)  # type: ignore[arg-type]
    assert isinstance(owned, Ownership), owned
    return owned


class Other:
    """Another daemon, as a process of its own."""

    def __init__(self, root: Root, flock: str = "real") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OTHER, root.path, flock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.said = self.hear()

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def still_ours(self) -> bool:
        assert self.process.stdin is not None
        self.process.stdin.write("?\n")
        self.process.stdin.flush()
        return self.hear() == "True"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def other(root: Root, flock: str = "real") -> Iterator[Other]:
    one = Other(root, flock)
    try:
        yield one
    finally:
        one.kill()


def test_d02_the_second_daemon_learns_the_first_one_s_pid(root: Root) -> None:
    with other(root) as first:
        assert first.said == "owned"
        assert Ownership.acquire(root, UID) == AlreadyOwned(first.process.pid, local_lock_path(root, UID))
        assert first.still_ours()


def test_d02_of_many_that_start_at_once_one_wins(root: Root) -> None:
    code = (
        "import os, sys; from cueloop_daemon.store.ownership import Ownership; from cueloop_protocol.roots import open_root\n"
        "root = open_root(sys.argv[1]); print('ready', flush=True); sys.stdin.readline()\n"
        "print(type(Ownership.acquire(root, os.getuid())).__name__, flush=True); sys.stdin.readline()"
    )
    starters = [
        subprocess.Popen([sys.executable, "-c", code, root.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(12)
    ]
    try:
        for word in ("ready", None):
            said = [starter.stdout.readline().strip() for starter in starters if starter.stdout]
            assert said == [word] * 12 if word else sorted(said) == ["AlreadyOwned"] * 11 + ["Ownership"]
            for starter in starters if word else ():
                assert starter.stdin is not None
                starter.stdin.write("go\n")
                starter.stdin.flush()
    finally:
        for starter in starters:
            starter.kill()
            starter.communicate()


def test_f02_the_locks_are_free_when_the_owner_is_killed(root: Root) -> None:
    for _ in range(3):
        with other(root) as first:
            assert first.said == "owned"
    owned = own(root)
    assert owned.still_ours()
    owned.release()


def test_release_frees_and_leaves_nothing_in_tmp(root: Root) -> None:
    for _ in range(2):
        owned = own(root)
        assert os.path.exists(local_lock_path(root, UID))
        owned.release()
        owned.release()
        assert not owned.still_ours()
        assert not os.path.exists(local_lock_path(root, UID))


def test_release_leaves_a_lock_file_that_another_put_there(root: Root) -> None:
    owned = own(root)
    os.unlink(local_lock_path(root, UID))
    theirs = take_lock(local_lock_path(root, UID), fcntl.flock, 1.0)
    assert isinstance(theirs, lockfile.LockFile)
    owned.release()
    assert theirs.is_in_place()
    theirs.close()


def test_our_folder_is_made_first_and_ignores_itself(root: Root) -> None:
    owned = own(root)
    folder = root.join(FOLDER)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(inner(root)).st_mode) == 0o600
    with open(f"{folder}/.gitignore") as file:
        assert file.read() == "*\n"
    owned.release()


def test_without_a_cueloop_folder_nothing_is_created(root: Root) -> None:
    os.rmdir(root.join(".cueloop"))
    with pytest.raises(NotWritable):
        Ownership.acquire(root, UID)
    assert os.listdir(root.path) == []
    os.mkdir(root.join(".cueloop"))
    own(root).release()  # the failure has let the local lock go


@pytest.mark.parametrize("which", ["inner", "local", "both"])
def test_d08_removed_lock_files_are_noticed_and_make_no_second_owner(root: Root, which: str) -> None:
    with other(root) as first:
        if which != "local":
            os.unlink(inner(root))
        if which != "inner":
            os.unlink(local_lock_path(root, UID))
        second = Ownership.acquire(root, UID)
        assert not first.still_ours()
        if which == "both":
            assert isinstance(second, Ownership)
            assert second.still_ours()
            second.release()
        else:
            assert isinstance(second, AlreadyOwned)
            assert second.pid == first.process.pid
            first.kill()
            own(root).release()


def test_d08_a_cache_folder_made_anew_has_no_second_owner(root: Root) -> None:
    with other(root) as first:
        shutil.rmtree(root.join(".cueloop", "cache"))
        assert isinstance(Ownership.acquire(root, UID), AlreadyOwned)
        assert not os.path.exists(root.join(".cueloop", "cache"))
        assert not first.still_ours()


def test_d11_a_root_that_went_is_noticed(root: Root) -> None:
    owned = own(root)
    moved = f"{root.path}-moved"
    os.rename(root.path, moved)
    assert not owned.still_ours()
    os.mkdir(root.path)
    assert not owned.still_ours()
    owned.release()


def test_d11_a_long_root_that_went_is_noticed_though_its_descriptor_still_works(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    fd, path = os.open(top, os.O_RDONLY), str(top)
    for _ in range(25):
        os.mkdir("n" * 200, dir_fd=fd)
        below = os.open("n" * 200, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd, path = below, f"{path}/{'n' * 200}"
    os.mkdir(".cueloop", dir_fd=fd)
    os.close(fd)
    root = open_root(path)
    assert root.base != root.path
    owned = own(root)
    assert owned.still_ours()
    top.rename(tmp_path / "away")
    assert os.path.exists(inner(root))
    assert not owned.still_ours()
    owned.release()
    shutil.rmtree(tmp_path / "away")


def test_the_file_that_was_locked_is_the_file_at_the_path(root: Root) -> None:
    """Somebody replaces the file between our opening and our locking it, twenty times or for ever."""
    path = local_lock_path(root, UID)
    left = 3

    def flock(fd: int, how: int) -> None:
        nonlocal left
        fcntl.flock(fd, how)
        if left and os.path.samestat(os.fstat(fd), os.stat(path)):
            left -= 1
            os.rename(path, f"{path}.old")
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))

    owned = own(root, flock=flock)
    assert left == 0
    assert owned.still_ours()
    owned.release()
    os.unlink(f"{path}.old")
    left = 10**6
    with pytest.raises(PlaceError, match="again and again"):
        Ownership.acquire(root, UID, flock=flock)
    os.unlink(f"{path}.old")


UNSUPPORTED = [errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL]


def unable_at(path: str, number: int) -> object:
    """A flock that fails for one file."""

    def flock(fd: int, how: int) -> None:
        if os.path.samestat(os.fstat(fd), os.stat(path)):
            raise OSError(number, os.strerror(number))
        fcntl.flock(fd, how)

    return flock


@pytest.mark.parametrize("number", UNSUPPORTED, ids=lambda number: errno.errorcode[number])
def test_f06_where_the_repository_cannot_be_locked_the_local_lock_decides(root: Root, number: int) -> None:
    own(root).release()
    owned = own(root, flock=unable_at(inner(root), number))
    assert owned.degraded is not None
    assert inner(root) in owned.degraded
    assert isinstance(Ownership.acquire(root, UID, flock=unable_at(inner(root), number)), AlreadyOwned)  # type: ignore[arg-type]
    owned.release()


def test_a_lock_file_that_cannot_be_read_names_nobody(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(fd: int, size: int, at: int) -> bytes:
        raise OSError(errno.EIO, "broken disk")

    with other(root) as first:
        assert first.said == "owned"
        monkeypatch.setattr(lockfile.os, "pread", unreadable)
        assert Ownership.acquire(root, UID) == AlreadyOwned(None, local_lock_path(root, UID))


def test_a_second_lock_that_is_held_frees_the_first(root: Root) -> None:
    """The same folder by another path has another local lock; the one in the repository decides."""
    own(root).release()
    held = take_lock(inner(root), fcntl.flock, 1.0)
    assert isinstance(held, lockfile.LockFile)
    assert Ownership.acquire(root, UID) == AlreadyOwned(None, inner(root))
    held.close()
    own(root).release()


def test_f06_nothing_that_can_be_locked_is_an_error(root: Root) -> None:
    def flock(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    with pytest.raises(PlaceError) as caught:
        Ownership.acquire(root, UID, flock=flock)
    assert caught.value.number == errno.ENOLCK
    assert caught.value.remedy


def test_f06_another_failure_is_told(root: Root) -> None:
    def flock(fd: int, how: int) -> None:
        raise OSError(errno.EIO, "broken disk")

    with pytest.raises(PlaceError, match="broken disk") as caught:
        Ownership.acquire(root, UID, flock=flock)
    assert caught.value.number == errno.EIO


def test_f06_a_lock_call_that_hangs_has_a_deadline(root: Root) -> None:
    own(root).release()
    end = threading.Event()

    def flock(fd: int, how: int) -> None:
        if os.path.samestat(os.fstat(fd), os.stat(inner(root))):
            end.wait()
        else:
            fcntl.flock(fd, how)

    owned = own(root, flock=flock, deadline=0.05)
    assert owned.degraded is not None
    end.set()
    owned.release()


def test_f06_where_locking_succeeds_for_everybody_the_owner_is_found_by_its_record(root: Root) -> None:
    with other(root, "always") as first, other(root, "always") as second:
        assert first.said == "owned"
        assert second.said == f"held {first.process.pid}"
    with other(root, "always") as third:
        assert third.said == "owned"


@pytest.mark.parametrize("flock", ["real", "always"])
def test_f06_a_copy_of_a_repository_is_free_while_the_original_is_owned(root: Root, tmp_path: Path, flock: str) -> None:
    with other(root, flock) as first:
        assert first.said == "owned"
        copy = tmp_path / "copy"
        shutil.copytree(root.path, copy, symlinks=True)
        copied = open_root(str(copy))
        try:
            assert Path(inner(copied)).read_text().startswith(f"pid: {first.process.pid}\n")
            with other(copied, flock) as second:
                assert second.said == "owned"
                assert second.still_ours()
            assert first.still_ours()
        finally:
            Path(local_lock_path(copied, UID)).unlink(missing_ok=True)


def test_f06_a_lock_file_that_may_only_be_read_is_locked_all_the_same(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def read_only(path: str, flags: int, mode: int = 0o777, **rest: int) -> int:
        if str(path).endswith(f"/{LOCK}") and flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "no")
        return real(path, flags, mode, **rest)

    own(root).release()
    monkeypatch.setattr(lockfile.os, "open", read_only)
    owned = own(root)
    assert owned.still_ours()
    assert owned.degraded is None
    assert isinstance(take_lock(inner(root), fcntl.flock, 1.0), HeldBy)
    owned.release()


START = process_start_time(os.getpid())
RECORDS = {
    "our own pid": f"pid: {os.getpid()}\nstart: {START}\n",
    "pid 1": "pid: 1\nstart: 1\n",
    "pid 0": "pid: 0\nstart: 1\n",
    "negative": "pid: -1\nstart: 1\n",
    "text": "pid: abc\nstart: 1\n",
    "huge": "pid: 99999999999\nstart: 1\n",
    "other digits": "pid: ²\nstart: 1\n",
    "empty": "",
    "binary": "\x00\xff\n" * 5000,
}


@pytest.mark.parametrize("record", RECORDS)
def test_f01_what_is_written_in_a_lock_file_blocks_nobody(root: Root, record: str) -> None:
    own(root).release()
    host = f"host: {os.uname().nodename}\n"
    for path in (inner(root), local_lock_path(root, UID)):
        Path(path).write_text(RECORDS[record] + host)
    owned = own(root)
    assert Path(inner(root)).read_text().startswith(f"pid: {os.getpid()}\n")
    owned.release()
    assert Path(inner(root)).read_bytes() == b""


def test_f01_a_live_process_with_another_start_is_not_the_owner(root: Root) -> None:
    own(root).release()
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as sleeper:
        Path(inner(root)).write_text(f"pid: {sleeper.pid}\nstart: 1\nhost: {os.uname().nodename}\n")
        own(root).release()
        assert sleeper.poll() is None
        sleeper.kill()


@pytest.mark.parametrize("record", RECORDS)
def test_f01_a_holder_whose_record_is_no_pid_is_reported_without_one(root: Root, record: str) -> None:
    with other(root) as first:
        assert first.said == "owned"
        Path(local_lock_path(root, UID)).write_text(RECORDS[record])
        owner = Ownership.acquire(root, UID)
        assert isinstance(owner, AlreadyOwned)
        assert owner.pid == (os.getpid() if record == "our own pid" else None)


def test_f03_a_forked_child_holds_nothing(root: Root) -> None:
    """The owner forks a child that outlives it; with the owner killed, both locks are free."""
    ready, told = os.pipe()
    owner = os.fork()
    if owner == 0:
        own(root)
        child = os.fork()
        if child == 0:
            os.write(told, b"%d\n" % os.getpid())
        signal.pause()
        os._exit(0)
    child = int(os.read(ready, 32))
    assert isinstance(Ownership.acquire(root, UID), AlreadyOwned)
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    try:
        own(root).release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(ready)
        os.close(told)


def test_f03_a_started_program_holds_nothing(root: Root) -> None:
    owned = own(root)
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, close_fds=False
    ) as agent:
        owned.release()
        with other(root) as next_one:
            assert next_one.said == "owned"
        agent.kill()


@pytest.mark.parametrize("kind", ["folder", "fifo", "link"])
def test_what_is_no_plain_file_is_refused(root: Root, kind: str) -> None:
    own(root).release()
    os.unlink(inner(root))
    {"folder": os.mkdir, "fifo": os.mkfifo, "link": lambda path: os.symlink("/dev/null", path)}[kind](inner(root))
    with pytest.raises(PlaceError) as caught:
        Ownership.acquire(root, UID)
    assert caught.value.remedy
    os.rmdir(inner(root)) if kind == "folder" else os.unlink(inner(root))
    own(root).release()


def test_release_leaves_nothing_of_ours_in_the_user_s_folder(root: Root, tmp_path: Path) -> None:
    base = local_lock_path(root, UID).removesuffix(".lock")
    owned = own(root)
    for ending in (".start", ".stderr", ".failed"):
        Path(base + ending).write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "used").mkdir()
    (tmp_path / "used/d.sock").write_text("")
    try:
        owned.release(str(tmp_path / "empty"), str(tmp_path / "used"), str(tmp_path / "none"))
        assert [path for path in Path(base).parent.iterdir() if path.name.startswith(Path(base).name)] == [Path(base + ".failed")]
    finally:
        Path(base + ".failed").unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["repo", "used"]


def test_release_leaves_alone_what_a_successor_has_made(root: Root, tmp_path: Path) -> None:
    path = local_lock_path(root, UID)
    owned = own(root)
    os.unlink(path)  # somebody cleans up, and another daemon comes
    others = [Path(path), Path(path.removesuffix(".lock") + ".start")]
    for other_s in others:
        other_s.write_text("")
    (tmp_path / "empty").mkdir()
    owned.release(str(tmp_path / "empty"))
    assert (tmp_path / "empty").is_dir()
    for other_s in others:
        other_s.unlink()


def test_freshen_makes_the_local_lock_young_again(root: Root) -> None:
    owned = own(root)
    path = local_lock_path(root, UID)
    os.utime(path, (1, 1))
    owned.freshen()
    assert os.stat(path).st_mtime > 1
    os.unlink(path)
    owned.freshen()
    assert not os.path.exists(path)
    owned.release()


def test_the_lock_is_taken_without_heavy_imports() -> None:
    code = (
        "import sys; import cueloop_daemon.store.ownership, cueloop_daemon.store.folder; "
        "print([m for m in ('pydantic', 'anyio', 'asyncio', 'subprocess', 'logging', 'typing_extensions') if m in sys.modules])"
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=True)
    assert done.stdout == "[]\n"
