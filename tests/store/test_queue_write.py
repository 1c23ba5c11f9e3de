"""Queue and done file under a run's changes and everybody else's."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.runs.types import TaskConflict, TasksUnreadable
from cueloop_daemon.store.atomic import Author
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.outcomes import OwnershipLost
from cueloop_daemon.store.queue_write import QueueFiles
from cueloop_daemon.store.system import System
from cueloop_protocol.identity import process_start_time
from faults.systems import failing_where, without_exchange

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
    with pytest.raises(TasksUnreadable, match=r"queue\.jsonc") as raised:
        place.files.begin("RQ-0001", LATER)
    assert raised.value.code == "queue_corrupted"
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


def test_begin_says_when_the_task_is_gone(place: Place) -> None:
    assert place.files.begin("RQ-9999", LATER) == "missing"


@pytest.mark.parametrize("status", ["done", "rejected"])
def test_settled_tasks_move_as_they_stand(status: str, place: Place) -> None:
    finished = task("RQ-0003", status=status, completed_at=NOW)
    write(place.queue, task("RQ-0001"), finished, task("RQ-0002"), task("RQ-0004", status=status))
    assert place.files.settled() == ("RQ-0003", "RQ-0004")
    assert place.files.archive_settled(LATER) == "changed"
    assert place.files.archive_settled(LATER) == "already"
    assert (ids(place.queue), place.files.settled()) == (["RQ-0001", "RQ-0002"], ())
    moved, dateless = read(place.done)
    assert moved == finished
    assert dateless["completed_at"] == LATER


def test_what_was_opened_again_meanwhile_is_not_archived(tmp_path: Path) -> None:
    place = Place(tmp_path)
    write(place.queue, task("RQ-0001", status="done", completed_at=NOW))
    settled = place.files._settled()
    write(place.queue, task("RQ-0001", status="todo"))
    place.files._settled = lambda: settled  # type: ignore[method-assign]  # as it was seen
    assert place.files.archive_settled(LATER) == "already"
    assert ids(place.queue) == ["RQ-0001"]


@pytest.mark.parametrize(
    ("in_queue", "in_done", "found"),
    [
        ({"status": "doing"}, {"status": "done"}, ("RQ-0001",)),
        ({"status": "done"}, {"status": "done"}, ("RQ-0001",)),
        ({"status": "todo"}, {"status": "done"}, ()),
        ({"status": "rejected"}, {"status": "done"}, ()),
        ({}, {"status": "done"}, ()),
        ({"status": "doing", "title": "Another"}, {"status": "done"}, ()),
        ({"status": "doing", "created_at": LATER}, {"status": "done"}, ()),
        ({"status": "doing"}, None, ()),
    ],
)
def test_a_completion_that_was_broken_off(
    in_queue: dict[str, object], in_done: dict[str, object] | None, found: tuple[str, ...], place: Place
) -> None:
    """A task that a person opened again is not the one that was completed."""
    write(place.queue, {**task("RQ-0001"), "id": " RQ-0001 ", **in_queue}, task("RQ-0002", status="doing"))
    if in_done is not None:
        write(place.done, {**task("RQ-0001"), **in_done})
    assert place.files.completed_twice() == found


class Dying(System):
    """The process ends after the n-th call that changes a name, and before it after all others of a person's."""

    def __init__(self, at: int, before: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.left = at
        self.before = before


class Died(BaseException):
    """Nothing goes on."""


def _dying(name: str) -> Callable[..., Any]:
    real = getattr(System, name)

    def call(self: Dying, *args: Any) -> Any:
        if self.left <= 0:
            if name == "close":
                return real(self, *args)
            raise Died
        if name == "exchange":
            self.before()
        result = real(self, *args)
        self.left -= 1
        if self.left == 0:
            raise Died
        return result

    return call


for _name in [name for name in vars(System) if not name.startswith("_")]:
    setattr(Dying, _name, _dying(_name))


def of_the_dead(folder: Path, system: System) -> QueueFiles:
    """A daemon's files; it is not the process that the tests run in."""
    return QueueFiles(
        str(folder / "queue.jsonc"), str(folder / "done.jsonc"), system, Author(os.getpid(), "long ago"), lambda: True
    )


@pytest.mark.parametrize("with_person", [False, True])
def test_f02_a_daemon_that_dies_at_any_call_loses_nobodys_task(with_person: bool, tmp_path: Path) -> None:
    """At each system call of a completion, with and without a person who adds a task just before each exchange."""
    at, completed = 0, False
    while not completed:
        at += 1
        folder = tmp_path / f"{with_person}-{at}"
        folder.mkdir()
        write(folder / "queue.jsonc", task("RQ-0001"), task("RQ-0002"))
        write(folder / "done.jsonc", task("RQ-0000", status="done"))
        added: list[str] = []

        def person(folder: Path = folder, added: list[str] = added) -> None:
            if with_person and not added:
                added.append("RQ-7777")
                add_by_hand(folder / "queue.jsonc", "RQ-7777")

        try:
            complete(of_the_dead(folder, Dying(at, person)))
            completed = True
        except Died:
            complete(Place(folder).files)
        assert ids(folder / "done.jsonc") == ["RQ-0000", "RQ-0001"]
        assert sorted(ids(folder / "queue.jsonc")) == sorted(["RQ-0002", *added])
        assert [name for name in os.listdir(folder) if "cueloopd" in name] == []
    assert at > 30


def complete(files: QueueFiles) -> None:
    """Everything that a run does to the files, from the first to the last."""
    files.begin("RQ-0001", LATER)
    files.add_done("RQ-0001", LATER)
    files.remove_from_queue("RQ-0001")
    files.archive_settled(LATER)


def test_what_came_out_of_a_dead_daemons_exchange_goes_back(place: Place, tmp_path: Path) -> None:
    """Once; tasks that are in neither file. What is not a queue file stays where it is."""
    name = f".queue.jsonc.cueloopd-{os.getpid()}-long_ago-0-1.swap"
    write(tmp_path / name, task("RQ-0001"), task("RQ-0009"), task("RQ-0008"))
    torn = tmp_path / f".done.jsonc.cueloopd-{os.getpid()}-long_ago-0-1.swap"
    torn.write_text("{ torn")
    editors = tmp_path / ".queue.jsonc.swp"
    editors.write_text("vim's")
    write(place.done, task("RQ-0008", status="done"))
    place.files.begin("RQ-0001", LATER)
    assert ids(place.queue) == ["RQ-0001", "RQ-0002", "RQ-0009"]
    assert (torn.read_text(), editors.read_text(), (tmp_path / name).exists()) == ("{ torn", "vim's", False)


def test_what_a_living_daemon_has_under_way_is_left_alone(place: Place, tmp_path: Path) -> None:
    start = process_start_time(os.getpid())
    name = tmp_path / f".queue.jsonc.cueloopd-{os.getpid()}-{start}-9-1.swap"
    write(name, task("RQ-0009"))
    place.files.begin("RQ-0001", LATER)
    assert name.exists()
    assert "RQ-0009" not in ids(place.queue)


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_a33_what_is_no_file_is_not_waited_for(kind: str, place: Place) -> None:
    place.queue.unlink()
    place.queue.mkdir() if kind == "folder" else os.mkfifo(place.queue)
    with pytest.raises(NotWritable):
        place.files.begin("RQ-0001", LATER)
    with pytest.raises(NotWritable):
        place.files.status("RQ-0001")


def test_a_writer_that_never_stops_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    persons: list[dict[str, object]] = []

    class Restless(System):
        def exchange(self, one: str, other: str) -> None:
            persons.append(task(f"P-{len(persons):04}"))
            write(tmp_path / "editor.tmp", task("RQ-0001"), *persons)
            (tmp_path / "editor.tmp").rename(tmp_path / "queue.jsonc")
            super().exchange(one, other)

    monkeypatch.setattr("time.sleep", lambda seconds: None)
    place = Place(tmp_path, Restless())
    write(place.queue, task("RQ-0001"))
    with pytest.raises(TaskConflict, match="20 times in a row; nothing of theirs was lost") as raised:
        place.files.begin("RQ-0001", LATER)
    assert raised.value.code == "task_mutation_conflict"
    assert len(ids(place.queue)) > 20
    assert read(place.queue)[0].get("status", "todo") == "todo"


def test_where_files_cannot_be_exchanged(tmp_path: Path) -> None:
    place = Place(tmp_path, without_exchange())
    write(place.queue, task("RQ-0001"), task("RQ-0002"))
    complete(place.files)
    assert (ids(place.queue), ids(place.done)) == (["RQ-0002"], ["RQ-0001"])


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, failing_where(lambda call: call.name == "write", errno.ENOSPC))
    write(place.queue, task("RQ-0001"))
    before = place.queue.read_bytes()
    with pytest.raises(NotWritable, match="the disk is full"):
        place.files.begin("RQ-0001", LATER)
    assert (place.queue.read_bytes(), os.listdir(tmp_path)) == (before, ["queue.jsonc"])
