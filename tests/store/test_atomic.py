"""Writing a file whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.store.atomic import Author, parse_temp, sweep, temp_paths, write_all, write_file, write_temp
from cueloop_daemon.store.system import System
from faults.systems import Hooked, failing, failing_where

STEPS = 7
ME = Author(4711, "123456")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a35_order_of_a_replacement(tmp_path: Path) -> None:
    """A35: write, fsync of the file, rename, fsync of the folder; the temporary file is beside its target."""
    system = Hooked()
    write_file(system, str(tmp_path / "f"), b"new", ME)
    order = [call for call in system.calls if call.name in ("write", "fsync", "replace", "fsync_folder")]
    assert [call.name for call in order] == ["write", "fsync", "replace", "fsync_folder"]
    written, synced = order[0].args[0], order[1].args[0]
    assert written == synced
    assert os.path.dirname(order[2].args[0]) == str(tmp_path)
    assert order[3].args == (str(tmp_path),)
    assert (tmp_path / "f").read_bytes() == b"new"


def test_what_nobody_believes_after_a_power_cut_waits_for_no_medium(tmp_path: Path) -> None:
    system = Hooked()
    write_file(system, str(tmp_path / "f"), b"new", ME, durable=False)
    assert not {"fsync", "fsync_folder"} & set(system.names)
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("step", range(STEPS))
def test_a04_nothing_is_left_of_a_failed_write(tmp_path: Path, step: int) -> None:
    """A04: whichever call fails, the old file is whole and alone, or the new one is."""
    target = tmp_path / "f"
    target.write_bytes(b"old")
    system = failing(step, errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        write_file(system, str(target), b"new and longer", ME)
    assert os.listdir(tmp_path) == ["f"]
    assert target.read_bytes() == (b"new and longer" if system.names[-1] == "fsync_folder" else b"old")


def test_the_steps_above_are_all_there_are(tmp_path: Path) -> None:
    system = Hooked()
    write_file(system, str(tmp_path / "f"), b"new", ME)
    assert len(system.calls) == STEPS


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
@pytest.mark.parametrize("wanted", [0o600, 0o400, 0o644])
def test_b15_the_mode_is_exact_under_any_umask(tmp_path: Path, umask: int, wanted: int) -> None:
    before = os.umask(umask)
    try:
        write_file(System(), str(tmp_path / "f"), b"x", ME, wanted)
    finally:
        os.umask(before)
    assert mode(tmp_path / "f") == wanted


def test_a_name_that_is_taken_is_passed_over_even_a_link(tmp_path: Path) -> None:
    names = temp_paths(str(tmp_path / "f"), ME, ".tmp")
    first, second = next(names), next(names)
    os.symlink(tmp_path / "victim", first)
    Path(second).write_bytes(b"taken")
    os.chmod(second, 0)
    third = write_temp(System(), str(tmp_path / "f"), b"x", ME)
    assert third == next(names)
    assert not (tmp_path / "victim").exists()


def test_no_name_is_free(tmp_path: Path) -> None:
    class Crowded(System):
        def open(self, path: str, flags: int, mode: int = 0o600) -> int:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    with pytest.raises(FileExistsError):
        write_temp(Crowded(), str(tmp_path / "f"), b"x", ME)


def test_short_writes_are_continued(tmp_path: Path) -> None:
    class Stingy(System):
        def write(self, fd: int, data: memoryview) -> int:
            return super().write(fd, data[:3])

    data = bytes(range(100))
    write_file(Stingy(), str(tmp_path / "f"), data, ME)
    assert (tmp_path / "f").read_bytes() == data


def test_a_write_that_takes_nothing_is_an_error(tmp_path: Path) -> None:
    class Full(System):
        def write(self, fd: int, data: memoryview) -> int:
            return 0

    with pytest.raises(OSError, match="took no bytes"):
        write_all(Full(), 1, b"x")
    write_all(Full(), 1, b"")


@given(
    st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=40),
    st.integers(0, 2**31 - 1),
    st.text(min_size=1, max_size=30),
)
def test_a_name_says_what_was_put_into_it(target: str, pid: int, start_time: str) -> None:
    author = Author(pid, start_time)
    for ending, inode in ((".tmp", None), ("-99.swap", 99)):
        name = os.path.basename(next(temp_paths(f"/folder/{target}", author, ending)))
        found = parse_temp(name)
        if "\n" in target:
            continue
        assert found is not None
        assert (found.target, found.pid, found.inode) == (target, pid, inode)
        assert found.is_alive(lambda number: start_time if number == pid else None)
        assert not found.is_alive(lambda number: None)


@pytest.mark.parametrize(
    "name",
    [
        "session.jsonc",
        "session.jsonc.tmp",
        ".session.jsonc.swp",
        "4913",
        ".session.jsonc.cueloopd-1-2-3",
        ".session.jsonc.cueloopd-x-2-3.tmp",
        ".session.jsonc.cueloopd-1-2-3-x.swap",
        ".session.jsonc.cueloopd-1-2-3.tmp~",
        "session.jsonc.cueloopd-1-2-3.tmp",
        ".session.jsonc.cueloopd-١-2-3.tmp",
    ],
)
def test_a07_other_programs_names_are_not_ours(name: str) -> None:
    assert parse_temp(name) is None


def test_sweeping_removes_only_our_own_dead(tmp_path: Path) -> None:
    """A07: by process, start time and, for what may have been exchanged, inode."""
    alive, dead, reused = Author(10, "1"), Author(11, "1"), Author(10, "0")
    for author in (alive, dead, reused):
        Path(next(temp_paths(str(tmp_path / "f"), author, ".tmp"))).write_bytes(b"x")
    came_out = Path(next(temp_paths(str(tmp_path / "f"), dead, "-1.swap")))
    came_out.write_bytes(b"somebody's")
    unpublished = write_temp(System(), str(tmp_path / "g"), b"x", dead)
    inode = os.stat(unpublished).st_ino
    os.rename(unpublished, next(temp_paths(str(tmp_path / "g"), dead, f"-{inode}.swap")))
    os.mkdir(next(temp_paths(str(tmp_path / "folder"), dead, ".tmp")))
    removed = sweep(System(), str(tmp_path), lambda pid: "1" if pid == 10 else None)
    assert len(removed) == 3
    assert {parse_temp(name).start_time for name in os.listdir(tmp_path)} == {"1"}  # type: ignore[union-attr]
    assert came_out.read_bytes() == b"somebody's"
    assert len(os.listdir(tmp_path)) == 3


def test_sweeping_what_cannot_be_swept_is_no_error(tmp_path: Path) -> None:
    assert sweep(System(), str(tmp_path / "missing"), lambda pid: None) == ()
    Path(next(temp_paths(str(tmp_path / "f"), ME, ".tmp"))).write_bytes(b"x")
    assert sweep(failing_where(lambda call: call.name == "unlink", errno.EACCES), str(tmp_path), lambda pid: None) == ()
    assert sweep(failing_where(lambda call: call.name == "lstat", errno.EIO), str(tmp_path), lambda pid: None) == ()
