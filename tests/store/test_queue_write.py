"""Queue and done file under a run's changes and everybody else's."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cueloop_daemon.runs.types import TaskConflict
from cueloop_daemon.store.atomic import Author
from cueloop_daemon.store.outcomes import OwnershipLost
from cueloop_daemon.store.queue_write import QueueFiles
from cueloop_daemon.store.system import System

NOW = "2026-02-07T10:00:00.000000000Z"
LATER = "2026-02-07T11:00:00.000000000Z"


def task(name: str, **more: object) -> dict[str, object]:
    return {"id": name, "title": f"Task {name}", "created_at": NOW, "updated_at": NOW, **more}


def write(path: Path, *tasks: dict[str, object]) -> None:
    path.write_text(json.dumps({"version": 1, "tasks": list(tasks)}))


def read(path: Path) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = json.loads(path.read_text())["tasks"]
    return tasks


def ids(path: Path) -> list[str]:
    return [one["id"] for one in read(path)] if path.exists() else []


class Place:
    def __init__(self, folder: Path, system: System | None = None, still_ours: Callable[[], bool] = lambda: True) -> None:
        self.queue, self.done = folder / "queue.jsonc", folder / "done.jsonc"
        self.files = QueueFiles(str(self.queue), str(self.done), system or System(), Author(os.getpid(), "1"), still_ours)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    write(made.queue, task("RQ-0001"), task("RQ-0002", status="todo"))
    return made


def test_begin_makes_a_task_doing_and_leaves_the_rest(place: Place) -> None:
    other = read(place.queue)[1]
    assert place.files.begin(" RQ-0001", LATER) == "changed"
    first, second = read(place.queue)
    assert (first["status"], first["started_at"], first["updated_at"]) == ("doing", LATER, LATER)
    assert list(first)[:2] == ["id", "status"]
    assert second == other
    assert place.files.begin("RQ-0001", LATER) == "already"


def test_a_start_that_is_noted_stays(place: Place) -> None:
    write(place.queue, task("RQ-0001", status="todo", started_at=NOW))
    place.files.begin("RQ-0001", LATER)
    assert read(place.queue)[0]["started_at"] == NOW


def test_completion_writes_the_done_file_first_and_repeats_itself(place: Place) -> None:
    assert place.files.add_done("RQ-0001", LATER) == "changed"
    assert ids(place.queue) == ["RQ-0001", "RQ-0002"]
    assert place.files.add_done("RQ-0001", LATER) == "already"
    assert place.files.remove_from_queue("RQ-0001") == "changed"
    assert place.files.remove_from_queue("RQ-0001") == "already"
    assert (ids(place.queue), ids(place.done)) == (["RQ-0002"], ["RQ-0001"])
    finished = read(place.done)[0]
    assert (finished["status"], finished["completed_at"]) == ("done", LATER)


def test_a_task_that_is_nowhere(place: Place) -> None:
    assert place.files.add_done("RQ-9999", LATER) == "missing"
    assert place.files.status("RQ-9999") == (None, None)
    assert place.files.task("RQ-9999") is None


def test_comments_and_single_quotes_are_read_and_values_stay(place: Place) -> None:
    place.queue.write_text("{version: 1, /* why */ tasks: [{id: 'RQ-0001', title: 'ü', custom_fields: {b: 1, a: true}}]}")
    place.files.begin("RQ-0001", LATER)
    first = read(place.queue)[0]
    assert (first["title"], list(first["custom_fields"].items())) == ("ü", [("b", 1), ("a", True)])


def test_mode_and_the_target_of_a_link_are_kept(place: Place, tmp_path: Path) -> None:
    real = tmp_path / "real.jsonc"
    place.queue.rename(real)
    real.chmod(0o640)
    place.queue.symlink_to(real)
    place.files.begin("RQ-0001", LATER)
    assert place.queue.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert read(real)[0]["status"] == "doing"


@pytest.mark.parametrize("text", ["{", "[]", '{"tasks": {}}', ""])
def test_what_is_no_queue_is_left_alone(place: Place, text: str) -> None:
    place.queue.write_text(text)
    with pytest.raises(TaskConflict, match=r"queue\.jsonc"):
        place.files.begin("RQ-0001", LATER)
    assert place.queue.read_text() == text


def test_nothing_is_written_without_ownership(tmp_path: Path) -> None:
    place = Place(tmp_path, still_ours=lambda: False)
    write(place.queue, task("RQ-0001"))
    with pytest.raises(OwnershipLost):
        place.files.begin("RQ-0001", LATER)
    assert "doing" not in place.queue.read_text()


class Interloper(System):
    """Adds a task of a person's at the n-th system call, by a rename as editors do."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__()
        self.path = path
        self.left = at
        self.added = False

    def _pass(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.added = True
            add_by_hand(self.path, "RQ-7777")

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        self._pass()
        return super().open(path, flags, mode)

    def exchange(self, one: str, other: str) -> None:
        self._pass()
        super().exchange(one, other)
        self._pass()

    def rename_new(self, source: str, target: str) -> None:
        self._pass()
        super().rename_new(source, target)
        self._pass()

    def fsync(self, fd: int) -> None:
        self._pass()
        super().fsync(fd)


def add_by_hand(path: Path, name: str) -> None:
    tasks = read(path) if path.exists() else []
    temporary = path.with_name("editor.tmp")
    temporary.write_text(json.dumps({"version": 1, "tasks": [*tasks, task(name)]}))
    temporary.rename(path)


def test_a_task_added_meanwhile_is_never_lost_at_any_moment(tmp_path: Path) -> None:
    """A person's task comes in at each call of each change, over and over: it is there afterwards, and so is our change."""
    rounds = added = 0
    rng = random.Random(7)
    while rounds < 1000:
        folder = tmp_path / str(rounds)
        folder.mkdir()
        target = rng.choice(["queue", "done"])
        system = Interloper(folder / f"{target}.jsonc", rng.randrange(1, 40))
        place = Place(folder, system)
        write(place.queue, task("RQ-0001"), task("RQ-0002"))
        place.files.begin("RQ-0001", LATER)
        place.files.add_done("RQ-0001", LATER)
        place.files.remove_from_queue("RQ-0001")
        if system.added:
            assert "RQ-7777" in ids(folder / f"{target}.jsonc")
        assert "RQ-0001" in ids(place.done)
        assert "RQ-0001" not in ids(place.queue)
        assert "RQ-0002" in ids(place.queue)
        assert [name for name in os.listdir(folder) if "tmp" in name] == []
        rounds += 1
        added += system.added
    assert added > 200


PERSON = """
import json, os, sys, time
path, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    tasks = json.load(open(path))["tasks"]
    before = os.stat(path)
    data = json.dumps({"version": 1, "tasks": tasks + [{"id": f"P-{number:04}", "title": "by hand"}]})
    open(path + ".p", "w").write(data)
    now = os.stat(path)
    # A careful person's tool looks once more; the moment that is left is its own affair.
    if (now.st_ino, now.st_mtime_ns) == (before.st_ino, before.st_mtime_ns):
        os.rename(path + ".p", path)
        print(f"P-{number:04}", flush=True)
    time.sleep(0.003)
"""


def test_against_a_real_second_process(tmp_path: Path) -> None:
    """Both change the queue at full speed. Everything that we were told is done stays done; the file is always whole."""
    place = Place(tmp_path)
    names = [f"RQ-{number:04}" for number in range(60)]
    write(place.queue, *(task(name) for name in names))
    with subprocess.Popen([sys.executable, "-c", PERSON, str(place.queue), "150"], stdout=subprocess.PIPE) as person:
        for name in names:
            assert place.files.add_done(name, LATER) in ("changed", "already")
            place.files.remove_from_queue(name)
        person.communicate(timeout=60)
    assert ids(place.done) == names
    assert all(isinstance(one, dict) for one in read(place.queue))
