"""What a shim answers to lock and unlock, and what it has on record of it, without a process around it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cueloop_daemon.shim.launch import Place
from cueloop_daemon.shim.locking import Locking
from cueloop_daemon.shim.record import Record
from cueloop_daemon.shim.spec import RECORD_FILE, RunSpec
from cueloop_daemon.shim.wire import Lock

WISH = Lock(7, "run one", "cueloopd run r", "then")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "repo/.cueloop").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    root, folder = (os.open(tmp_path / name, os.O_RDONLY | os.O_DIRECTORY) for name in ("repo", "run"))
    yield Place(RunSpec("r", 1, str(tmp_path / "repo"), "/s", (), {}, 0, 1.0), root, folder, -1, 0o022)
    os.close(root)
    os.close(folder)


@pytest.fixture
def locking(place: Place) -> Locking:
    return Locking(place, Record(place.folder))


def told(message: bytes) -> tuple[str, dict[str, object]]:
    ((word, fields),) = json.loads(message).items()
    return word, fields


def on_record(tmp_path: Path) -> list[bytes]:
    return (tmp_path / "run" / RECORD_FILE).read_bytes().partition(b"\0")[0].splitlines(keepends=True)


def test_a_record_that_begins_anew_says_of_a_lock_what_the_old_one_said(locking: Locking, tmp_path: Path) -> None:
    """By this a dead shim's lock is known for its own."""
    assert locking.records() == []
    assert told(locking.lock(WISH, False))[0] == "made"
    assert locking.records() == on_record(tmp_path)
    assert told(on_record(tmp_path)[0])[1]["n"] == 7
    assert told(locking.unlock(8)) == ("unlocked", {"to": "unlock", "n": 8, "left": []})
    assert locking.records() == []
    assert on_record(tmp_path)[1:] == [b'{"unlock":{"n":8}}\n']


def test_a_lock_that_cannot_be_made_is_told_with_the_systems_number(locking: Locking, tmp_path: Path) -> None:
    (tmp_path / "repo/.cueloop").rmdir()
    assert told(locking.lock(WISH, False)) == ("error", {"to": "lock", "n": 7, "errno": 2})
    assert told(locking.unlock(8)) == ("absent", {"to": "unlock", "n": 8})


def test_a_cancelled_run_takes_no_lock(locking: Locking, tmp_path: Path) -> None:
    assert told(locking.lock(WISH, True))[0] == "error"
    assert not (tmp_path / "repo/.cueloop/lock").exists()


def test_a_lock_that_was_taken_away_is_not_ours_any_more(locking: Locking, tmp_path: Path) -> None:
    """Whoever has it now keeps it, and nothing on record claims it."""
    lock = tmp_path / "repo/.cueloop/lock"
    assert told(locking.lock(WISH, False))[0] == "made"
    shutil.rmtree(lock)
    lock.mkdir()
    (lock / "owner").write_text("pid: 1\n")
    word, found = told(locking.lock(WISH, False))
    assert (word, found["owner"], found["names"]) == ("held", "pid: 1\n", ["owner"])
    assert locking.held is None
    assert told(on_record(tmp_path)[-1]) == ("unlock", {"n": 7})
    assert told(locking.unlock(8))[0] == "absent"
    assert (lock / "owner").read_text() == "pid: 1\n"


def test_a_lock_that_cannot_be_removed_stays_ours(locking: Locking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(locking.lock(WISH, False))[0] == "made"

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "no")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", refuse)
        assert told(locking.unlock(8)) == ("error", {"to": "unlock", "n": 8, "errno": 13})
    assert locking.held is not None
    assert len(on_record(tmp_path)) == 1
