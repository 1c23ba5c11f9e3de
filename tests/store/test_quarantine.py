"""Names and moves of the quarantine."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from cueloop_daemon.store.not_writable import FolderRefused
from cueloop_daemon.store.quarantine import move_to_quarantine, quarantine_name
from cueloop_daemon.store.system import System
from faults.world import START, World


@pytest.mark.parametrize(
    ("when", "name"),
    [
        (datetime(2026, 2, 7, 10, 0, tzinfo=UTC), "2026-02-07T10-00-00-000000000Z"),
        (datetime(2026, 2, 7, 10, 0, 5, 123456, UTC), "2026-02-07T10-00-05-123456000Z"),
        (datetime(2026, 2, 7, 1, 0, tzinfo=timezone(timedelta(hours=8))), "2026-02-06T17-00-00-000000000Z"),
        (datetime(2026, 2, 7, 1, 0, tzinfo=timezone(timedelta(hours=-3, minutes=-30))), "2026-02-07T04-30-00-000000000Z"),
    ],
)
def test_name(when: datetime, name: str) -> None:
    assert quarantine_name(when) == f"session.jsonc.corrupt.{name}"


def move(world: World, data: bytes) -> str:
    world.put(data)
    return move_to_quarantine(System(), world.root, os.getuid(), str(world.file), START)


def test_byte_for_byte_and_the_same_inode(tmp_path: Path) -> None:
    world = World(tmp_path)
    data = b"\x00" * 642
    world.put(data)
    inode = world.file.stat().st_ino
    path = move_to_quarantine(System(), world.root, os.getuid(), str(world.file), START)
    assert path == f"{world.cache}/session-quarantine/session.jsonc.corrupt.2026-02-07T10-00-00-000000000Z"
    assert Path(path).read_bytes() == data
    assert Path(path).stat().st_ino == inode
    assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    assert not world.file.exists()


def test_a_second_one_in_the_same_instant_replaces_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    paths = [move(world, data) for data in (b"a", b"b", b"c")]
    assert [Path(path).read_bytes() for path in paths] == [b"a", b"b", b"c"]
    assert paths[2].endswith("T10-00-00-000002000Z")


def test_a_quarantine_without_a_free_name(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(b"data")

    class Crowded(System):
        def rename_new(self, source: str, target: str) -> None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)

    with pytest.raises(FileExistsError):
        move_to_quarantine(Crowded(), world.root, os.getuid(), str(world.file), START)
    assert world.file.read_bytes() == b"data"


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_quarantine_that_is_no_folder_is_refused(tmp_path: Path, kind: str) -> None:
    world = World(tmp_path)
    place = world.cache / "session-quarantine"
    place.symlink_to(tmp_path) if kind == "link" else place.write_bytes(b"")
    with pytest.raises(FolderRefused):
        move(world, b"data")
    assert world.file.read_bytes() == b"data"
