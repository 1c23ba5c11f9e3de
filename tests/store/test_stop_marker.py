"""The stop marker: any file at its path."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from cueloop_daemon.store.not_writable import FolderMissing, NotWritable
from cueloop_daemon.store.stop_marker import StopMarker, clear_stop, is_stop_requested, request_stop
from cueloop_daemon.store.system import System
from cueloop_protocol.roots import Root
from faults.systems import Hooked, failing_where


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / ".cueloop").mkdir()
    return Root(str(tmp_path), str(tmp_path))


def marker(root: Root) -> Path:
    return Path(root.path, ".cueloop", "cache", "stop_requested")


def test_request_twice_and_clear_twice(root: Root) -> None:
    path = str(marker(root))
    assert not is_stop_requested(root, System())
    assert request_stop(root, System()) == StopMarker("created", path, existed_before=False, exists_after=True)
    assert is_stop_requested(root, System())
    assert request_stop(root, System()) == StopMarker("already_present", path, existed_before=True, exists_after=True)
    assert clear_stop(root, System())
    assert not clear_stop(root, System())
    assert not is_stop_requested(root, System())


def test_a_dry_run_makes_nothing(root: Root) -> None:
    assert request_stop(root, System(), dry_run=True) == StopMarker("would_create", str(marker(root)), False, False)
    assert os.listdir(f"{root.path}/.cueloop") == []
    request_stop(root, System())
    assert request_stop(root, System(), dry_run=True).action == "already_present"


def test_what_others_put_there_counts_and_stays(root: Root) -> None:
    marker(root).parent.mkdir()
    marker(root).write_text("please stop")
    assert request_stop(root, System()).action == "already_present"
    assert marker(root).read_text() == "please stop"


def test_a_dangling_link_is_not_written_through(root: Root) -> None:
    marker(root).parent.mkdir()
    marker(root).symlink_to(f"{root.path}/victim")
    assert request_stop(root, System()).action == "already_present"
    assert not Path(root.path, "victim").exists()


def test_another_caller_is_faster(root: Root) -> None:
    def first(name: str) -> None:
        if name == "open":
            marker(root).write_text("theirs")

    assert request_stop(root, Hooked(lambda call: first(call.name))).action == "already_present"
    assert marker(root).read_text() == "theirs"


def test_creation_is_durable(root: Root) -> None:
    system = Hooked()
    request_stop(root, system)
    assert system.names[-1] == "fsync_folder"
    assert system.calls[-1].path == str(marker(root).parent)


def test_failures(root: Root) -> None:
    with pytest.raises(NotWritable, match="the disk is full") as caught:
        request_stop(root, failing_where(lambda call: call.name == "open", errno.ENOSPC))
    assert caught.value.path == str(marker(root))
    marker(root).mkdir()
    assert is_stop_requested(root, System())
    with pytest.raises(NotWritable):
        clear_stop(root, System())
    with pytest.raises(NotWritable, match="access is denied"):
        is_stop_requested(root, failing_where(lambda call: call.name == "lstat", errno.EACCES))


def test_without_a_cueloop_folder_nothing_is_created(tmp_path: Path) -> None:
    root = Root(str(tmp_path), str(tmp_path))
    assert not clear_stop(root, System())
    with pytest.raises(FolderMissing):
        request_stop(root, System())
    assert os.listdir(tmp_path) == []
