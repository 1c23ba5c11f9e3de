"""The log: what is appended is there and in order, the file is bounded, and what is not ours is noticed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cueloop_daemon.events.log import CHUNK_BYTES, CHUNK_ROWS, EventLog
from cueloop_daemon.events.model import Announced, Filter, Group, Row
from cueloop_daemon.events.opening import open_log
from cueloop_daemon.store.sqlite import WRITING, DbDamaged, connect
from events.hubs import EVERYTHING, World

KIB = 1024


def row(seq: int, size: int = 20, kind: str | None = "warning") -> Row:
    return Row(seq, "event", kind, None, None, b'{"x":"%s"}' % (b"x" * (size - 8)))


def group(first: int, last: int, size: int = 20) -> Group:
    return Group(tuple(row(seq, size) for seq in range(first, last + 1)))


@pytest.fixture
def log(world: World) -> Iterator[EventLog]:
    opened = open_log(world.place)
    yield opened
    opened.abandon()


def everything_after(log: EventLog, seq: int) -> list[Row]:
    found: list[Row] = []
    while seq < log.last_seq:
        chunk = log.read(seq, log.last_seq, EVERYTHING)
        assert chunk is not None
        found.extend(chunk.rows)
        seq = chunk.reached
    return found


def test_rows_come_back_as_they_went_in(log: EventLog) -> None:
    rows = (
        Row(1, "event", "warning", None, None, b"{}"),
        Row(2, "run.finished", None, "run-1", None, '{"t":"ü\u2028"}'.encode()),
        Row(3, "question", None, "run-1", "home:/a", b'{"q":1}'),
    )
    log.append(Group(rows))
    assert everything_after(log, 0) == list(rows)
    assert everything_after(log, 2) == [rows[2]]


def test_a_group_is_kept_whole_or_not_at_all(log: EventLog) -> None:
    log.append(group(1, 2))
    broken = Row(4, "event", None, None, None, None)  # type: ignore[arg-type]  # the database refuses it
    with pytest.raises(DbDamaged):
        log.append(Group((row(3), broken), (Announced("a", b"state"),), 99))
    assert log.last_seq == 2
    assert everything_after(log, 0) == [row(1), row(2)]


def test_a_chunk_ends_at_its_rows_at_its_bytes_and_at_what_was_asked(log: EventLog) -> None:
    log.append(group(1, CHUNK_ROWS + 5))
    first = log.read(0, log.last_seq, EVERYTHING)
    assert first is not None
    assert (len(first.rows), first.reached) == (CHUNK_ROWS, CHUNK_ROWS)
    bounded = log.read(0, 3, EVERYTHING)
    assert bounded is not None
    assert bounded.reached == 3

    start = log.last_seq
    log.append(group(start + 1, start + 3, CHUNK_BYTES // 2 + 1))
    big = log.read(start, log.last_seq, EVERYTHING)
    assert big is not None
    assert big.reached == start + 1


def test_a_row_larger_than_a_chunk_is_read_alone(log: EventLog) -> None:
    log.append(group(1, 2, CHUNK_BYTES * 3))
    assert everything_after(log, 0) == [row(1, CHUNK_BYTES * 3), row(2, CHUNK_BYTES * 3)]


def test_a_filter_passes_over_rows_and_still_says_how_far_it_came(log: EventLog) -> None:
    log.append(Group((row(1), row(2, kind="queue_snapshot"), row(3))))
    chunk = log.read(0, 3, Filter(kinds=frozenset({"queue_snapshot"})))
    assert chunk is not None
    assert ([found.seq for found in chunk.rows], chunk.reached) == ([2], 3)


def test_a_row_that_somebody_removed_is_a_hole_and_not_passed_over(log: EventLog, world: World) -> None:
    log.append(group(1, 5))
    log.abandon()
    with sqlite3.connect(world.path) as outsider:
        outsider.execute("DELETE FROM events WHERE seq = 3")
    outsider.close()
    again = open_log(world.place)
    try:
        chunk = again.read(0, 5, EVERYTHING)
        assert chunk is not None
        assert chunk.reached == 2
        assert again.read(2, 5, EVERYTHING) is None
    finally:
        again.abandon()


@pytest.mark.parametrize(
    "change",
    [
        "method = 'daemon.closing'",
        "body = 'text'",
        "body = x'5B5D'",
        "body = x''",
        "kind = x'00'",
        "run_id = CAST(x'FF' AS TEXT)",
    ],
)
def test_a_row_that_somebody_else_wrote_is_never_sent(log: EventLog, world: World, change: str) -> None:
    log.append(group(1, 1))
    log.abandon()
    with sqlite3.connect(world.path) as outsider:
        outsider.execute(f"UPDATE events SET {change}")
    outsider.close()
    again = open_log(world.place)
    try:
        with pytest.raises(DbDamaged):
            again.read(0, 1, EVERYTHING)
        with pytest.raises(DbDamaged):
            again.append(group(2, 2))
    finally:
        again.abandon()


def file_size(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in folder.iterdir() if entry.name == "events.db")


def test_the_file_is_bounded_the_oldest_go_and_the_newest_stay(world: World) -> None:
    limit = 512 * KIB
    log = open_log(replace(world.place, limit=limit))
    try:
        for first in range(1, 4001, 10):
            log.append(group(first, first + 9, 1000))  # 4 MB in all
            assert log.bytes <= limit
        assert 1 < log.oldest <= 4000 - limit // 2000
        assert log.read(log.oldest - 2, 4000, EVERYTHING) is None
        assert [found.seq for found in everything_after(log, log.oldest - 1)] == list(range(log.oldest, 4001))
        log.close(0)
        assert file_size(world.folder) < limit * 2
    finally:
        log.abandon()


def test_one_event_larger_than_the_limit_stays_until_the_next_one(world: World) -> None:
    log = open_log(replace(world.place, limit=64 * KIB))
    try:
        log.append(group(1, 1, 300 * KIB))
        assert log.oldest == 1
        log.append(group(2, 2))
        assert log.oldest == 2
    finally:
        log.abandon()


def test_a_lowered_limit_shrinks_the_file(world: World) -> None:
    log = open_log(world.place)
    try:
        log.append(group(1, 4000, 1000))
        log.limit = 256 * KIB
        for seq in range(4001, 4041):
            log.append(group(seq, seq))
        assert log.bytes <= 256 * KIB
        log.close(0)
        assert file_size(world.folder) < 1500 * KIB
    finally:
        log.abandon()


def test_the_announced_and_the_revision_are_kept_and_forgotten(world: World) -> None:
    log = open_log(world.place)
    log.append(Group(announced=(Announced("a", b"one"), Announced("b", b"two")), revision=7))
    log.append(Group(announced=(Announced("a", b"three"), Announced("b", None))))
    log.abandon()
    again = open_log(world.place)
    assert again.opened.announced == {"a": b"three"}
    assert again.opened.revision == 7
    again.abandon()


def test_no_other_process_can_write_into_an_open_log(log: EventLog, world: World) -> None:
    log.append(group(1, 1))
    outsider = connect(str(world.path), WRITING)
    try:
        # Locks of one process do not exclude each other; SQLite's own table of open files does.
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            outsider.execute("DELETE FROM events")
    finally:
        outsider.close()
    assert everything_after(log, 0) == [row(1)]
