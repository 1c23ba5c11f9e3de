"""The log's disk fails in every way there is: events go on, nothing is lost without a gap, the status says what is wrong."""

from __future__ import annotations

import os
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from cueloop_daemon.events import Announced, Filter, Hub
from cueloop_daemon.events.journal import MEMORY_BYTES, PAUSES, RETURN_AFTER
from cueloop_daemon.events.sqlite import VERSION
from cueloop_daemon.store.sqlite import connect
from cueloop_protocol.cursor import Cursor
from events.hubs import FakeSink, World, contents, listening, running, warning

FULL = sqlite3.SQLITE_FULL


@dataclass
class Faulty:
    """Opens databases whose writes fail while `failures` are left, with SQLite's own error."""

    failures: float = 0
    code: int = FULL
    attempts: int = 0
    statement: str = "COMMIT"
    """What fails begins so."""
    stays_open: bool = False
    """Closing does nothing: the write-ahead log stays, as it does on a disk that is too full to empty it."""
    opened: list[sqlite3.Connection] = field(default_factory=list)

    def meet(self, sql: str) -> None:
        if sql.startswith(self.statement) and self.failures > 0:
            self.failures -= 1
            self.attempts += 1
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = self.code
            raise error

    def connect(self, path: str, how: str) -> sqlite3.Connection:
        faults = self

        class Connection(sqlite3.Connection):
            def executemany(self, sql: str, rows: Any, /) -> sqlite3.Cursor:
                faults.meet(sql)
                return super().executemany(sql, rows)

            def execute(self, sql: str, *rest: object) -> sqlite3.Cursor:
                faults.meet(sql)
                return super().execute(sql, *rest)  # type: ignore[arg-type]

            def close(self) -> None:
                if not faults.stays_open:
                    super().close()

        plain = connect(path, how)
        plain.close()
        db = sqlite3.connect(
            f"file:{path}?{how}", uri=True, timeout=0, isolation_level=None, check_same_thread=False, factory=Connection
        )
        self.opened.append(db)
        return db

    def close(self) -> None:
        for db in self.opened:
            sqlite3.Connection.close(db)


def methods(sink: FakeSink) -> list[str]:
    return [message["method"] for message in sink.messages]


async def test_a_disk_that_is_full_for_a_moment_is_waited_for(world: World) -> None:
    """A04: nothing is lost and nothing is told before it is kept; no restart is needed."""
    faulty = Faulty()
    async with running(world.hub(connect=faulty.connect)) as hub:
        sink = FakeSink()
        await listening(hub, sink)
        faulty.failures = 3
        hub.publish(warning())
        await hub.flush()
        assert faulty.attempts == 3
        assert (sink.numbers, methods(sink)) == ([1], ["event"])
        assert hub.status.reason is None
    async with running(world.hub()) as hub:
        assert hub.cursor == Cursor("epoch1", 1)


async def test_a_disk_that_stays_full_costs_one_gap_and_events_go_on_in_memory(world: World) -> None:
    """A04: the status says that the disk is full; the old log is kept; when there is room again it is used again."""
    faulty = Faulty()
    async with running(world.hub(connect=faulty.connect)) as hub:
        sink = FakeSink()
        await listening(hub, sink, Filter(kinds=frozenset({"warning"})))
        hub.publish(warning("kept"))
        await hub.flush()
        faulty.failures = float("inf")
        assert hub.publish(warning("while full")) == 2
        await hub.flush()
        await sink.until_taken(2)
        assert faulty.attempts == len(PAUSES) + 1
        assert methods(sink) == ["event", "gap"]
        assert (sink.params[1]["from"], sink.params[1]["to"]) == ("epoch1:1", "epoch2:2")
        assert hub.status.reason is not None
        assert "disk is full" in hub.status.reason

        hub.publish(warning("in memory"))
        await hub.flush()
        assert (sink.numbers, hub.cursor) == ([1, 2, 3], Cursor("epoch2", 3))
        replayed = FakeSink()
        await listening(hub, replayed, cursor=Cursor("epoch2", 2))
        await replayed.until_taken(1)
        assert replayed.numbers == [3]

        faulty.failures = 0
        hub.publish(warning("too early to try the disk"))
        await hub.flush()
        assert hub.cursor.epoch == "epoch2"
        world.clock.now += RETURN_AFTER
        hub.publish(warning("on disk again"))
        await hub.flush()
        await sink.until_taken(5)
        assert methods(sink) == ["event", "gap", "event", "event", "gap"]
        assert hub.cursor == Cursor("epoch3", 5)
        status = hub.status
        assert (status.reason, status.notice) == (None, "the event log is in use again, in a new epoch")
    async with running(world.hub()) as hub:
        assert hub.cursor == Cursor("epoch3", 5)


async def test_one_who_subscribes_while_the_disk_is_given_up_misses_nothing_and_has_no_gap(world: World) -> None:
    faulty = Faulty()
    async with running(world.hub(connect=faulty.connect)) as hub:
        faulty.failures = float("inf")
        hub.publish(warning("in the snapshot"))
        sink = FakeSink()
        subscribed = await hub.subscribe(sink, Filter())  # waits for the commit, which changes the epoch
        assert subscribed.cursor == Cursor("epoch2", 1)
        hub.start(subscribed.subscription)
        hub.publish(warning())
        await hub.flush()
        assert (sink.numbers, methods(sink)) == ([2], ["event"])


async def test_under_pressure_a_full_disk_is_not_waited_for(world: World) -> None:
    faulty = Faulty()
    async with running(world.hub(connect=faulty.connect)) as hub:
        faulty.failures = float("inf")
        for _ in range(18):
            hub.publish(warning("x" * 1_000_000))
        await hub.flush()
        assert faulty.attempts == 1
        assert hub.cursor.epoch == "epoch2"


async def test_memory_is_bounded_and_what_fell_out_of_it_is_a_gap(world: World) -> None:
    async with running(world.hub(make_folder=refuse)) as hub:
        for _ in range(30):
            hub.publish(warning("x" * 400_000))
            await hub.flush()
        assert hub.status.bytes <= MEMORY_BYTES
        sink = FakeSink()
        await listening(hub, sink, cursor=Cursor("epoch1", 1))
        await sink.until_taken(1)
        assert methods(sink) == ["gap"]
        recent = FakeSink()
        await listening(hub, recent, cursor=Cursor("epoch1", 28))
        await recent.until_taken(2)
        assert recent.numbers == [29, 30]


async def test_a_cursor_of_the_old_log_is_a_gap_after_events_went_on_without_it(world: World) -> None:
    """The disk fills, the daemon is killed, the disk is freed: whoever was away must not miss the events in between unsaid."""
    faulty = Faulty()
    async with running(world.hub(connect=faulty.connect)) as hub:
        hub.publish(warning("kept"))
        await hub.flush()
        away = hub.cursor
        faulty.failures, faulty.stays_open = float("inf"), True
        hub.publish(warning("never written"))
        await hub.flush()
        killed = world.as_after_a_kill("killed")
        assert (killed.folder / "events.db-wal").stat().st_size > 0
    faulty.close()
    for successor in (killed, world):
        async with running(successor.hub()) as hub:
            sink = FakeSink()
            await listening(hub, sink, cursor=away)
            await sink.until_taken(1)
            assert methods(sink) == ["gap"]


async def test_the_same_when_not_even_an_empty_file_can_be_made(world: World) -> None:
    faulty = Faulty()
    async with running(world.hub(connect=faulty.connect)) as hub:
        hub.publish(warning("kept"))
        await hub.flush()
        away = hub.cursor
        faulty.failures, faulty.stays_open = float("inf"), True
        (world.folder / "events.db-over").mkdir()  # takes the name, and is no file
        hub.publish(warning("never written"))
        await hub.flush()
        (world.folder / "events.db-over").rmdir()
        killed = world.as_after_a_kill("killed")
    faulty.close()
    async with running(killed.hub()) as hub:
        assert hub.cursor.epoch != away.epoch


async def test_what_was_announced_and_the_revision_survive_the_time_in_memory(world: World) -> None:
    faulty = Faulty()
    async with running(world.hub(connect=faulty.connect)) as hub:
        hub.publish_all([], Announced("home", b"on disk"))
        await hub.flush()
        faulty.failures = float("inf")
        hub.publish_all([warning()], Announced("home", b"in memory"))
        told = [hub.next_revision() for _ in range(20_000)]
        await hub.flush()
        assert hub.announced("home") == b"in memory"
        faulty.failures = 0
        world.clock.now += RETURN_AFTER
        hub.publish(warning())
        await hub.flush()
    async with running(world.hub()) as hub:
        assert hub.announced("home") == b"in memory"
        assert hub.next_revision() > told[-1]


def truncated(world: World) -> None:
    os.truncate(world.path, 5000)


def emptied(world: World) -> None:
    os.truncate(world.path, 0)


def wal_emptied(world: World) -> None:
    os.truncate(world.folder / "events.db-wal", 0)


def deleted(world: World) -> None:
    world.path.unlink()


def wal_deleted(world: World) -> None:
    (world.folder / "events.db-wal").unlink()


def folder_deleted(world: World) -> None:
    shutil.rmtree(world.folder)


def replaced_by_another(world: World) -> None:
    (world.folder / "new").write_bytes(b"somebody else's")
    os.replace(world.folder / "new", world.path)


def replaced_by_a_folder(world: World) -> None:
    world.path.unlink()
    world.path.mkdir()


REMOVALS = [deleted, wal_deleted, folder_deleted, replaced_by_another, replaced_by_a_folder]


@pytest.mark.parametrize("harm", REMOVALS, ids=lambda harm: harm.__name__)
async def test_a_log_that_is_taken_away_under_us_is_begun_anew_at_once(world: World, harm: Callable[[World], None]) -> None:
    async with running(world.hub()) as hub:
        sink = FakeSink()
        await listening(hub, sink)
        hub.publish_all([warning("1"), warning("2")])
        await hub.flush()
        harm(world)
        hub.publish(warning("3"))
        await hub.flush()
        await sink.until_taken(3)
        assert methods(sink) == ["event", "event", "gap"]
        assert sink.params[2]["to"] == "epoch2:3"
        assert hub.status.reason is None
        assert hub.status.notice is not None
        assert "while it was in use" in hub.status.notice
        killed = world.as_after_a_kill("killed")
    async with running(killed.hub()) as hub:
        assert hub.cursor == Cursor("epoch2", 3)


@pytest.mark.parametrize("harm", [truncated, emptied, wal_emptied], ids=lambda harm: harm.__name__)
async def test_a_log_that_is_overwritten_under_us_never_tells_an_event_twice_or_not_at_all(
    world: World, harm: Callable[[World], None]
) -> None:
    """SQLite may notice now, later, or when it is opened again: at each moment the stream is whole, or has a gap."""
    async with running(world.hub()) as hub:
        sink = FakeSink()
        await listening(hub, sink)
        for _ in range(50):
            hub.publish(warning("x" * 1000))
        await hub.flush()
        harm(world)
        for _ in range(50):
            hub.publish(warning("x" * 1000))
            await hub.flush()
        await sink.until(lambda: sink.numbers[-1] == 100)
        at_once = FakeSink()
        await listening(hub, at_once, cursor=Cursor("epoch1", 10))
        await at_once.until(lambda: bool(at_once.frames) and at_once.numbers[-1] == 100)
        end = hub.cursor
    for seen, first in ((sink, 1), (at_once, 11)):
        check(seen, first, 100)
    async with running(world.hub()) as hub:
        later = FakeSink()
        await listening(hub, later, cursor=end)
        hub.publish(warning("one more"))
        await later.until_taken(1)
        last = hub.cursor
        assert later.params[-1]["cursor"] == str(last)
        assert methods(later) == ["event"] or (methods(later)[0] == "gap" and last.epoch != end.epoch)


def check(sink: FakeSink, first: int, last: int) -> None:
    """Every number from first to last once, but for gaps that say what is missing."""
    expected = first
    for message in sink.messages:
        number = Cursor.parse(message["params"]["cursor"]).seq
        assert number >= expected if message["method"] == "gap" else number == expected
        expected = number + 1
    assert expected == last + 1


async def test_damage_that_is_met_when_reading_is_a_gap_for_the_reader_and_a_new_log_for_all(world: World) -> None:
    async with running(world.hub()) as hub:
        for _ in range(400):
            hub.publish(warning("x" * 2000))
            await hub.flush()
    with world.path.open("r+b") as file:  # pages of rows in the middle; what is looked at when it is opened stays whole
        file.seek(100 * 4096)
        file.write(b"\xff" * 20 * 4096)
    async with running(world.hub()) as hub:
        sink, other = FakeSink(), FakeSink()
        await listening(hub, other)
        await listening(hub, sink, cursor=Cursor("epoch1", 1))
        await sink.until(lambda: bool(sink.frames) and methods(sink)[-1] == "gap")
        check(sink, 2, 400)
        assert (len(sink.frames) > 1, hub.cursor.epoch) == (True, "epoch1")
        hub.publish(warning("new log"))
        await hub.flush()
        await other.until_taken(1)
        assert hub.cursor.epoch == "epoch2"
        assert hub.status.notice is not None
        assert "damaged-1" in hub.status.notice


def refuse() -> None:
    raise PermissionError(13, "Permission denied")


def newer(world: World) -> None:
    db = sqlite3.connect(world.path)
    db.execute(f"PRAGMA user_version={VERSION + 1}")
    db.commit()
    db.close()


async def test_a_newer_versions_log_is_left_alone_and_events_go_on_in_memory(world: World) -> None:
    async with running(world.hub()) as hub:
        hub.publish(warning())
        away = hub.cursor
    newer(world)
    before = world.path.read_bytes()
    async with running(world.hub()) as hub:
        sink = FakeSink()
        await listening(hub, sink)
        hub.publish(warning())
        await sink.until_taken(1)
        assert hub.cursor.epoch != away.epoch
        assert hub.status.reason is not None
        assert "newer version" in hub.status.reason
    assert world.path.read_bytes() == before


async def serve_in_memory(hub: Hub, reason: str) -> None:
    async with running(hub):
        sink = FakeSink()
        await listening(hub, sink)
        hub.publish(warning())
        await hub.flush()
        assert sink.numbers == [1]
        assert hub.status.reason is not None
        assert reason in hub.status.reason


async def test_a_folder_that_cannot_be_made_does_not_stop_events(world: World) -> None:
    await serve_in_memory(world.hub(make_folder=refuse), "Permission denied")


async def test_a_folder_that_is_missing_does_not_stop_events(world: World) -> None:
    world.folder.rmdir()
    await serve_in_memory(world.hub(make_folder=lambda: None), "No such file")


async def test_a_log_that_somebody_else_holds_does_not_stop_events(world: World) -> None:
    async with running(world.hub()):
        await serve_in_memory(world.hub(), "locked")


async def test_a_long_path_does_not_stop_events(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["d" * 100] * 5)
    folder.mkdir(parents=True)
    await serve_in_memory(World(folder).hub(), "too long")


def as_nobody(folder: Path) -> None:
    """In a child: give up all rights, serve in a folder that may be read only, leave with 0 if that worked."""
    os.setgid(65534)
    os.setuid(65534)
    anyio.run(serve_in_memory, World(folder).hub(), "")


def test_a_folder_that_may_only_be_read_does_not_stop_events(world: World) -> None:
    async def fill() -> None:
        async with running(world.hub()) as hub:
            hub.publish(warning())

    anyio.run(fill)
    before = contents(world.folder)
    for parent in world.folder.parents:
        if parent == Path("/tmp"):
            break
        parent.chmod(0o755)
    world.path.chmod(0o444)
    world.folder.chmod(0o555)
    try:
        if os.geteuid() == 0:
            assert in_a_child(as_nobody, world.folder) == 0
        else:
            anyio.run(serve_in_memory, world.hub(), "")
    finally:
        world.folder.chmod(0o755)
    assert contents(world.folder) == before


def in_a_child(act: Callable[[Path], None], folder: Path) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # worker threads of earlier tests idle; the child needs none of them
        child = os.fork()
    if child == 0:
        try:
            act(folder)
        except BaseException as exc:
            os.write(2, f"{exc!r}\n".encode())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("code", [FULL, sqlite3.SQLITE_CORRUPT], ids=["full", "damaged"])
async def test_a_log_that_cannot_be_shortened_has_kept_the_event_all_the_same(world: World, code: int) -> None:
    """A full disk is met again by the next event; a damaged file is replaced by it."""
    faulty = Faulty(code=code, statement="DELETE FROM events")
    async with running(replace(world, limit=64 * 1024).hub(connect=faulty.connect)) as hub:
        sink = FakeSink()
        await listening(hub, sink)
        faulty.failures = 1
        hub.publish_all([warning("x" * 1000) for _ in range(100)])
        await hub.flush()
        assert faulty.attempts == 1
        assert sink.numbers == list(range(1, 101))
        hub.publish(warning())
        await hub.flush()
        await sink.until_taken(101)
        assert methods(sink)[100] == ("event" if code == FULL else "gap")
        assert hub.status.bytes <= 64 * 1024
        assert hub.status.reason is None


async def test_a_new_log_that_is_damaged_at_once_is_not_tried_for_ever(world: World) -> None:
    faulty = Faulty(code=sqlite3.SQLITE_CORRUPT, statement="INSERT")
    async with running(world.hub(connect=faulty.connect)) as hub:
        faulty.failures = 2
        hub.publish(warning())
        await hub.flush()
        assert (faulty.attempts, hub.cursor.seq) == (2, 1)
        assert hub.status.reason is not None
        hub.set_limit(128 * 1024)
        hub.publish(warning())
        await hub.flush()
        assert hub.cursor.seq == 2


async def test_a_log_that_is_damaged_whenever_it_is_made_does_not_stop_events(world: World) -> None:
    await serve_in_memory(world.hub(connect=Faulty(2, sqlite3.SQLITE_CORRUPT).connect), "cannot be used")


async def test_a_disk_that_is_still_full_is_tried_again_later_and_costs_no_gap(world: World) -> None:
    async with running(world.hub(make_folder=refuse)) as hub:
        sink = FakeSink()
        await listening(hub, sink)
        for seconds in (0, RETURN_AFTER, 0, RETURN_AFTER):
            world.clock.now += seconds
            hub.publish(warning())
            await hub.flush()
        assert (methods(sink), sink.numbers) == (["event"] * 4, [1, 2, 3, 4])
        assert hub.status.reason is not None


async def test_a_log_that_is_gone_at_the_end_is_no_clean_end(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async with running(world.hub()) as hub:
        hub.publish(warning())
        await hub.flush()
        deleted(world)
    assert "not closed cleanly" in caplog.text
    async with running(world.hub()) as hub:
        assert hub.cursor == Cursor("epoch2", 0)


async def test_a_limit_can_be_changed_while_it_runs_and_outlives_a_new_log(world: World) -> None:
    async with running(replace(world, limit=1 << 30).hub()) as hub:
        hub.set_limit(128 * 1024)
        for _ in range(30):
            hub.publish_all([warning("x" * 1000) for _ in range(10)])
            await hub.flush()
        assert hub.status.bytes <= 128 * 1024
        deleted(world)
        for _ in range(30):
            hub.publish_all([warning("x" * 1000) for _ in range(10)])
            await hub.flush()
        assert hub.status.bytes <= 128 * 1024
