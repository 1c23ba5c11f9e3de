"""Our own folder: made in the right order, with the right mode, and only where it may be."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cueloop_daemon.store.folder import ensure_cache, ensure_folder
from cueloop_daemon.store.not_writable import FolderMissing, FolderRefused, NotWritable
from cueloop_daemon.store.system import System
from cueloop_protocol.roots import Root
from faults.systems import Hooked, failing_where
from faults.world import this_process


def root_of(path: Path) -> Root:
    return Root(str(path), str(path))


def ensure(path: Path, system: System | None = None, uid: int | None = None) -> str:
    return ensure_folder(root_of(path), os.getuid() if uid is None else uid, this_process(), system)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / ".cueloop").mkdir()
    return tmp_path


def test_the_first_thing_in_it_is_the_gitignore(repository: Path) -> None:
    system = Hooked()
    path = ensure(repository, system)
    assert path == f"{repository}/.cueloop/cache/cueloopd"
    created = [
        call.path
        for call in system.calls
        if call.name in ("mkdir", "open") and (call.name == "mkdir" or call.args[1] & os.O_CREAT)
    ]
    assert created == [f"{repository}/.cueloop/cache", path, f"{path}/.gitignore"]
    assert Path(path, ".gitignore").read_bytes() == b"*\n"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700


def test_git_sees_nothing_of_it(repository: Path) -> None:
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    path = ensure(repository)
    Path(path, "events.db").write_bytes(b"x")
    status = subprocess.run(["git", "status", "--porcelain", "-uall"], cwd=repository, check=True, capture_output=True)
    assert status.stdout == b""


def test_making_it_again_changes_nothing(repository: Path) -> None:
    path = ensure(repository)
    before = os.stat(f"{path}/.gitignore")
    system = Hooked()
    ensure(repository, system)
    assert os.stat(f"{path}/.gitignore") == before
    assert not {"write", "replace", "fchmod", "fsync"} & set(system.names)


@pytest.mark.parametrize("content", [b"", b"!*\n", b"**/x\n"])
def test_a_gitignore_that_does_not_ignore_is_mended(repository: Path, content: bytes) -> None:
    """As after a crash between its creation and its content."""
    path = Path(ensure(repository), ".gitignore")
    path.write_bytes(content)
    ensure(repository)
    assert path.read_bytes() == b"*\n"
    path.write_bytes(b"# all of it\n*\n")
    ensure(repository)
    assert path.read_bytes() == b"# all of it\n*\n"


def test_a_gitignore_that_is_a_link_is_replaced_not_followed(repository: Path) -> None:
    path = Path(ensure(repository), ".gitignore")
    (repository / "precious").write_bytes(b"precious")
    path.unlink()
    path.symlink_to(repository / "precious")
    ensure(repository)
    assert (repository / "precious").read_bytes() == b"precious"
    assert not path.is_symlink()


def test_modes_that_are_too_wide_are_tightened(repository: Path) -> None:
    path = ensure(repository)
    os.chmod(path, 0o777)
    ensure(repository)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700


def test_without_a_cueloop_folder_nothing_is_created(tmp_path: Path) -> None:
    with pytest.raises(FolderMissing) as caught:
        ensure(tmp_path)
    assert caught.value.message == f"There is no folder {tmp_path}/.cueloop."
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_folder_that_cannot_be_made(repository: Path, code: int) -> None:
    with pytest.raises(NotWritable) as caught:
        ensure(repository, failing_where(lambda call: call.name == "mkdir", code))
    assert caught.value.errno == code
    assert caught.value.code == ("unknown" if code == errno.ENOSPC else "permission_denied")
    assert caught.value.path == f"{repository}/.cueloop/cache"
    assert os.listdir(repository / ".cueloop") == []


POWERLESS = """
import os, sys
from cueloop_daemon.store.atomic import Author
from cueloop_daemon.store.folder import ensure_folder
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_protocol.roots import Root
if os.getuid() == 0:
    os.setuid(65534)
try:
    print(ensure_folder(Root(sys.argv[1], sys.argv[2]), os.getuid(), Author(os.getpid(), "0")))
except NotWritable as exc:
    print(f"{exc.code}: {exc.message}")
"""


def test_b15_a_really_read_only_folder(repository: Path) -> None:
    """B15, as a user without special powers; by a descriptor, since the folders above it are closed to that user."""
    repository.chmod(0o755)
    (repository / ".cueloop").chmod(0o555)
    fd = os.open(repository, os.O_RDONLY | os.O_DIRECTORY)
    command = [sys.executable, "-c", POWERLESS, str(repository), f"/proc/self/fd/{fd}" if os.getuid() == 0 else str(repository)]
    said = subprocess.run(command, pass_fds=[fd], capture_output=True, text=True, check=True).stdout
    os.close(fd)
    assert said == f"permission_denied: Cannot make {repository}/.cueloop/cache: access is denied.\n"
    assert os.listdir(repository / ".cueloop") == []


def test_b11_a_link_out_of_the_repository_is_not_written_through(tmp_path: Path) -> None:
    """B11: policy for linked folders: inside the repository they are followed, out of it they are refused."""
    outside = tmp_path / "outside"
    inside = tmp_path / "repository"
    (inside / "config").mkdir(parents=True)
    outside.mkdir()
    (inside / ".cueloop").symlink_to(outside)
    with pytest.raises(FolderRefused, match="link out of the repository"):
        ensure(inside)
    assert os.listdir(outside) == []
    (inside / ".cueloop").unlink()
    (inside / ".cueloop").symlink_to("config")
    ensure(inside)
    assert (inside / "config" / "cache" / "cueloopd" / ".gitignore").exists()


@pytest.mark.parametrize("target", ["nowhere", "cache"])
def test_b11_a_dangling_or_circular_link_is_refused(repository: Path, target: str) -> None:
    (repository / ".cueloop" / "cache").symlink_to(target)
    with pytest.raises(FolderRefused):
        ensure_cache(root_of(repository), System())


@pytest.mark.parametrize("parts", [".cueloop", ".cueloop/cache", ".cueloop/cache/cueloopd"])
def test_a_file_in_its_place(tmp_path: Path, parts: str) -> None:
    (tmp_path / parts).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / parts).write_bytes(b"mine")
    with pytest.raises(FolderRefused) as caught:
        ensure(tmp_path)
    assert caught.value.path == str(tmp_path / parts)
    assert (tmp_path / parts).read_bytes() == b"mine"


def test_ours_may_not_be_a_link_at_all(repository: Path) -> None:
    (repository / ".cueloop" / "cache").mkdir()
    (repository / "elsewhere").mkdir()
    (repository / ".cueloop" / "cache" / "cueloopd").symlink_to(repository / "elsewhere")
    with pytest.raises(FolderRefused):
        ensure(repository)
    assert os.listdir(repository / "elsewhere") == []


def test_another_users_folder_is_refused(repository: Path) -> None:
    ensure(repository)
    with pytest.raises(FolderRefused, match=f"belongs to another user .uid {os.getuid()}") as caught:
        ensure(repository, uid=os.getuid() + 1)
    assert caught.value.code == "permission_denied"


def test_a_path_longer_than_the_system_takes(tmp_path: Path) -> None:
    """`base` is a descriptor's name then; the check of a linked folder needs no path either."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "config").mkdir()
    (tmp_path / ".cueloop").symlink_to("config")
    root = Root("/" + "deep/" * 1000, f"/proc/self/fd/{fd}")
    path = ensure_folder(root, os.getuid(), this_process())
    assert path == f"/proc/self/fd/{fd}/.cueloop/cache/cueloopd"
    assert (tmp_path / "config" / "cache" / "cueloopd" / ".gitignore").exists()
    os.close(fd)
