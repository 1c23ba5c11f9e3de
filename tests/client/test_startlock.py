"""The start lock."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from cueloop_client.failures import Silent, StartFailed
from cueloop_client.startlock import start_lock
from cueloop_client.world import Deadline


def soon(seconds: float) -> Deadline:
    return Deadline(time.monotonic, time.monotonic() + seconds, seconds)


def test_one_holds_it_and_the_other_gets_it_when_it_is_free(tmp_path: Path) -> None:
    path, order = str(tmp_path / "lock"), []
    held, asked = threading.Event(), threading.Event()

    def second() -> None:
        held.wait(10)
        asked.set()
        with start_lock(path, soon(10)):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with start_lock(path, soon(10)):
        held.set()
        asked.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_waiting_has_an_end_and_leaves_no_lock_behind(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with start_lock(path, soon(10)), pytest.raises(Silent, match=r"for 0.1 s"), start_lock(path, soon(0.1)):
        pytest.fail("two hold the lock")
    with start_lock(path, soon(10)):  # the one who gave up had it for a moment, at most, and let it go
        pass


def test_a_folder_that_is_missing_or_a_link_in_its_place_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="cannot be opened"), start_lock(str(tmp_path / "missing/lock"), soon(1)):
        pass
    os.symlink(tmp_path / "elsewhere", tmp_path / "link")
    with pytest.raises(StartFailed), start_lock(str(tmp_path / "link"), soon(1)):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_without_locks_in_the_file_system_the_start_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(fd: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with start_lock(str(tmp_path / "lock"), soon(1)):
        pass
