"""What outlives a run: accepted work, agents' own sessions, the session last written, and the stop marker as a program sees it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from cueloop_daemon.runs.batches import forget_left, keep_conversation
from cueloop_daemon.runs.kept import ConversationBook, LastSession, OwedRows, StopMarkerFile
from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.own_writes import CountedFiles, OwnWrites
from cueloop_daemon.runs.records import Batch, Conversation
from cueloop_daemon.runs.types import OwedRow
from cueloop_daemon.store.system import System
from cueloop_protocol.roots import Root
from runs.fakes import NOW, RUN, MemoryStore
from runs.records import DiskRecord


def row(task_id: str, run_id: str = RUN) -> OwedRow:
    return OwedRow(
        task_id=task_id, title="t", run_id=run_id, accepted_at=NOW, left="doing", session_etag="e", head=None, publish="off"
    )


async def test_accepted_work_is_kept_in_order_and_once(lane: DbLane) -> None:
    seen: list[list[str]] = []

    async def changed(rows: tuple[OwedRow, ...]) -> None:
        seen.append([one.task_id for one in rows])

    owed = OwedRows(lane, changed)
    await owed.accept(row("B"))
    await owed.accept(row("A"))
    await owed.accept(row("B", "another-run"))
    assert [(one.task_id, one.run_id) for one in owed.rows()] == [("B", RUN), ("A", RUN)]
    await owed.settled("B")
    await owed.settled("B")
    assert owed.rows() == (row("A"),)
    assert seen == [["B"], ["B", "A"], ["B", "A"], ["A"], ["A"]]


async def test_a10_a_conversation_that_is_gone_is_never_used_again(lane: DbLane) -> None:
    record = await DiskRecord.begun(lane)
    journal = await record.journal()
    book = ConversationBook(lane, journal)
    place = ("T", "session", 1, 2, "claude")
    assert book.find(*place) is None
    book.keep(*place, '{"id": "one"}', "chosen")
    assert book.find(*place) == '{"id": "one"}'
    await journal.flush()
    book = ConversationBook(lane, await record.journal())  # the next life
    assert book.find(*place) == '{"id": "one"}'
    assert book.find("T", "another session", 1, 2, "claude") is None
    journal = await record.journal()
    book = ConversationBook(lane, journal)
    book.keep(*place, '{"id": "one"}', "gone")
    assert book.find(*place) is None
    await journal.flush()
    book.keep(*place, '{"id": "two"}', "reported")
    await journal.flush()
    assert ConversationBook(lane, await record.journal()).find(*place) == '{"id": "two"}'
    former = await lane.read(lambda db: db.execute("SELECT former FROM conversations").fetchall())
    assert former == [('{"id": "one"}\n',)]


def remembered(db: sqlite3.Connection) -> set[tuple[str, str]]:
    """Task and session of each conversation on record."""
    return set(db.execute("SELECT task_id, session_id FROM conversations"))


def remember(db: sqlite3.Connection, *rows: tuple[str, str, int, str]) -> None:
    """Conversations by task, session, phase and run."""
    for task_id, session_id, phase, run_id in rows:
        keep_conversation(db, run_id, Conversation(task_id, session_id, 1, phase, "pi", "{}", "reported"))


async def test_conversations_go_with_the_session_whose_work_is_settled_and_with_no_other(lane: DbLane) -> None:
    """The session may have gone through several runs; another session of the same task may have begun since."""

    async def changed(rows: tuple[OwedRow, ...]) -> None: ...

    begun, accepted, later = ("T", "s", 1, "r-0"), ("T", "s", 2, RUN), ("T", "later", 1, "r-2")
    await lane.write(lambda db: remember(db, begun, accepted, later, ("U", "s", 1, RUN)))
    owed = OwedRows(lane, changed)
    await owed.accept(row("T"))
    assert len(await lane.read(remembered)) == 3
    await owed.settled("T")
    assert await lane.read(remembered) == {("T", "later"), ("U", "s")}


async def test_conversations_of_runs_that_are_not_kept_go_unless_their_task_is_in_the_session(lane: DbLane) -> None:
    await DiskRecord.begun(lane)
    await lane.write(lambda db: remember(db, ("T", "a", 1, "old"), ("U", "b", 1, "old"), ("V", "c", 1, RUN)))
    await lane.write(lambda db: forget_left(db, "T"))
    assert await lane.read(remembered) == {("T", "a"), ("V", "c")}
    await lane.write(lambda db: forget_left(db, None))
    assert await lane.read(remembered) == {("V", "c")}


async def test_the_same_word_twice_is_one_row() -> None:
    store = MemoryStore()
    journal = store.journal()
    book = ConversationBook(lane=None, journal=journal)  # type: ignore[arg-type]  # nothing is looked up
    for _ in range(3):
        book.keep("T", "s", 1, 1, "pi", "{}", "reported")
    await journal.flush()
    assert len(store.conversations) == 1
    assert not Batch()


async def test_the_last_two_etags_of_a_run_are_known_in_its_next_life(lane: DbLane) -> None:
    last = LastSession(lane, RUN)
    assert last.etags() == ()
    for etag in ("a", "b", "c"):
        last.remember(etag)
    assert LastSession(lane, RUN).etags() == ("b", "c")
    assert LastSession(lane, "another").etags() == ()
    LastSession(lane, "another").remember("x")
    assert last.etags() == ()
    last.remember(None)
    assert last.etags() == ()


def test_a_stop_marker_is_removed_only_if_it_is_the_one_that_was_seen(tmp_path: Path) -> None:
    marker = StopMarkerFile(Root(str(tmp_path), str(tmp_path)), System())
    path = tmp_path / ".cueloop" / "cache" / "stop_requested"
    path.parent.mkdir(parents=True)
    assert marker.seen() is None
    path.touch()
    first = marker.seen()
    assert first is not None
    path.rename(tmp_path / "old")  # its inode is not given to the next one
    path.touch()
    marker.remove(first)
    assert path.exists()
    second = marker.seen()
    assert second is not None
    marker.remove(second)
    assert not path.exists()
    marker.remove(second)


def test_own_writes_are_counted_and_are_under_way_meanwhile() -> None:
    writes, during = OwnWrites(), list[int]()

    class Files:
        def __getattr__(self, name: str) -> object:
            def call(*arguments: object) -> str:
                during.append(writes.under_way)
                if name == "remove_from_queue":
                    raise OSError("full")
                return name

            return call

    files = CountedFiles(Files(), writes, ("/queue", "/done"))  # type: ignore[arg-type]  # every method there is
    files.begin("T", NOW)
    files.add_done("T", NOW)
    files.status("T")
    files.task("T")
    files.settled()
    files.completed_twice()
    files.archive_settled(NOW)
    try:
        files.remove_from_queue("T")
    except OSError:
        during.append(-1)
    assert during == [1, 1, 0, 0, 0, 0, 1, 1, -1]
    assert (writes.under_way, writes.finished) == (0, 4)
