"""What agents write, told once in all lives; and a run's output as one text with offsets that never shift."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.runs import queries
from cueloop_daemon.runs.children import NotingLink, children
from cueloop_daemon.runs.history import History, Stretch, total_of, whole_characters
from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.output import BURST, PER_SECOND, OutputTeller, position, read_in_step, told_upto
from cueloop_daemon.runs.queries import RunRow
from cueloop_daemon.runs.types import Exited, Order
from cueloop_protocol.documents.envelope import RunnerOutput, TextPayload
from events.hubs import FakeSink, World, listening, running
from runs.fakes import NOW, RUN, FakeCarriers, FakeLink, FakeShim, Script
from runs.records import new_run


def output(text: str) -> RunnerOutput:
    return RunnerOutput(timestamp=NOW, run_mode="one", task_id="T", phase="implement", payload=TextPayload(text=text))


def texts(sink: FakeSink) -> list[str]:
    return [params["event"]["payload"]["text"] for params in sink.params]


@pytest.fixture
def world(tmp_path: Path) -> World:
    folder = tmp_path / "log"
    folder.mkdir()
    return World(folder)


async def test_a_later_life_tells_what_follows_and_no_more(world: World) -> None:
    async with running(world.hub()) as hub:
        sink = FakeSink()
        await listening(hub, sink)
        teller = OutputTeller(RUN, hub, lambda: 0.0, lambda: 1)
        teller.tell(3, "out", 100, output("a"))
        teller.tell(3, "out", 100, output("b"))  # what one piece of bytes says may be told in several events
        teller.tell(3, "err", 50, output("c"))
        await hub.flush()
        assert texts(sink) == ["a", "b", "c"]
        killed = world.as_after_a_kill("killed")
    async with running(killed.hub()) as hub:
        sink = FakeSink()
        await listening(hub, sink)
        teller = OutputTeller(RUN, hub, lambda: 0.0, lambda: 1)
        assert (teller.told(3, "out"), teller.told(3, "err"), teller.told(4, "out")) == (100, 50, 0)
        assert teller.told(2, "out") > 10**9  # a child before it was told whole
        for upto, text in ((60, "old"), (100, "a"), (100, "b"), (160, "new")):
            teller.tell(3, "out", upto, output(text))
        teller.tell(2, "out", 10**6, output("of an older child"))
        teller.tell(5, "out", 1, output("of the next"))
        await hub.flush()
        assert texts(sink) == ["new", "of the next"]


async def test_a_flood_is_left_out_and_said_to_be(world: World) -> None:
    now = 0.0
    async with running(world.hub()) as hub:
        sink = FakeSink()
        await listening(hub, sink)
        teller = OutputTeller(RUN, hub, lambda: now, lambda: 1)
        chunk = "x" * (BURST // 4)
        for number in range(1, 10):
            teller.tell(1, "out", number * 1000, output(chunk))
        await hub.flush()
        assert [text == chunk for text in texts(sink)] == [True] * 4 + [False] * 5
        assert texts(sink)[-1] == f"[{len(chunk)} characters left out here; `run.output` has them]\n"
        now = len(chunk) / PER_SECOND
        teller.tell(1, "out", 20_000, output(chunk))
        await hub.flush()
        assert texts(sink)[-1] == chunk


async def test_nothing_is_told_to_a_hub_that_has_ended(world: World) -> None:
    async with running(world.hub()) as hub:
        pass
    OutputTeller(RUN, hub, lambda: 0.0, lambda: 1).tell(1, "out", 1, output("x"))


@given(
    st.tuples(st.integers(1, 2**20), st.integers(0, 2**36), st.integers(0, 70)),
    st.tuples(st.integers(1, 2**20), st.integers(0, 2**36), st.integers(0, 70)),
)
def test_places_are_in_order_and_fit_into_the_log(one: tuple[int, int, int], two: tuple[int, int, int]) -> None:
    assert 0 <= position(*one) < 2**63
    capped = [(number, min(offset, 2**35 - 1), min(piece, 63)) for number, offset, piece in (one, two)]
    assert (position(*one) < position(*two)) == (capped[0] < capped[1])
    assert told_upto(position(*one), one[0]) == min(one[1], 2**35 - 1)


@given(st.integers(0, 300), st.lists(st.integers(1, 120), min_size=1, max_size=20))
def test_reading_in_step_never_crosses_what_was_told(told: int, limits: list[int]) -> None:
    data = bytes(range(256)) + b"z" * 44

    class Folder:
        def read(self, number: int, stream: Literal["out", "err"], offset: int, limit: int) -> tuple[int, bytes]:
            return offset, data[offset : offset + limit]

    offset, seen = 0, b""
    for limit in limits:
        begin, piece = read_in_step(Folder(), told, 1, "out", offset, limit)
        assert begin == offset
        assert not (offset < told < offset + len(piece))
        seen += piece
        offset += len(piece)
    assert seen == data[:offset]


# --- run.output ----------------------------------------------------------------------------------------------------------------------


class Kept(FakeCarriers):
    """Streams in memory, of which a stretch may be missing."""

    def __init__(self, streams: dict[tuple[int, str], bytes], missing: range = range(0)) -> None:
        super().__init__()
        self.streams = streams
        self.missing = missing

    def output(self, run_id: str, number: int, stream: Literal["out", "err"], offset: int, limit: int) -> tuple[int, bytes]:
        data = self.streams[number, stream]
        if offset in self.missing:
            offset = self.missing.stop
        if offset < self.missing.start:
            limit = min(limit, self.missing.start - offset)
        return offset, data[offset : offset + limit]

    def sizes(self, run_id: str, number: int) -> tuple[int, int]:
        return len(self.streams.get((number, "out"), b"")), len(self.streams.get((number, "err"), b""))


async def begun(lane: DbLane) -> RunRow:
    return await lane.once(lambda db: queries.insert(db, new_run()))


def order(number: int) -> Order:
    return Order(number, "t", "agent", ("/bin/agent",), {}, None, None, None, 5)


async def read_all(history: History, row: RunRow, limit: int) -> str:
    layout = await history.layout(row)
    offset, text = 0, ""
    while offset < total_of(layout):
        piece = await history.output(row, layout, offset, limit)
        assert piece.next_offset > offset
        offset, text = piece.next_offset, text + piece.text
    return text


async def test_children_are_noted_as_they_come_and_go(lane: DbLane) -> None:
    row = await begun(lane)
    told: list[str] = []

    async def flushed() -> None:
        told.append("flushed")

    shim = FakeShim(play=lambda order: Script(out=b"o" * order.number, err=b"e"))
    link = NotingLink(FakeLink(shim), lane, RUN, flushed)
    for number in (2, 5):
        await link.start(order(number))
        assert told.pop() == "flushed"  # nothing of it is told before what was said before it
        assert [child.out for child in await lane.read(lambda db: children(db, RUN))][-1] is None
        async for news in link.follow(number):
            last = news
        assert isinstance(last, Exited)
    await link.start(order(5))  # once more, in a later life
    assert [(child.number, child.out, child.err) for child in await lane.read(lambda db: children(db, RUN))] == [
        (2, 2, 1),
        (5, 5, 1),
    ]
    await link.signal(5, 1)
    await link.limits(5, leave_within=1)
    await link.acknowledge(5)
    await link.end_child(1)
    await link.lock(6, "run one", "c", NOW)
    await link.unlock(7)
    del row


async def test_output_is_out_and_err_of_each_child_and_an_offset_never_shifts(lane: DbLane) -> None:
    row = await begun(lane)
    kept = Kept({(1, "out"): b"out one\n", (1, "err"): b"err one\n", (2, "out"): b"out"})
    history = History(lane, kept)
    await lane.once(lambda db: db.execute("INSERT INTO children (run_id, number, kind) VALUES (?, 1, 'agent')", (RUN,)))
    assert await history.layout(row) == (Stretch(0, 8, 1, "out", False),)
    assert await read_all(history, row, 5) == "out one\n"  # its err has no place yet
    await lane.once(lambda db: db.execute("UPDATE children SET out = 8, err = 8"))
    await lane.once(lambda db: db.execute("INSERT INTO children (run_id, number, kind) VALUES (?, 2, 'ci')", (RUN,)))
    assert await read_all(history, row, 4) == "out one\nerr one\nout"
    kept.streams[2, "err"] = b"!"
    over = replace(row, is_open=False)  # a run that ended without a word about its last child
    assert await read_all(history, over, 1000) == "out one\nerr one\nout!"
    record = await history.record(row, None, ())
    assert (record.output_bytes, record.state) == (19, "adopting")


async def test_what_was_not_kept_is_one_line(lane: DbLane) -> None:
    row = replace(await begun(lane), is_open=False)
    history = History(lane, Kept({(1, "out"): b"0123456789" * 10}, missing=range(20, 70)))
    await lane.once(lambda db: db.execute("INSERT INTO children VALUES (?, 1, 'agent', 100, 0, 0, NULL, 'self')", (RUN,)))
    text = await read_all(history, row, 1000)
    assert text == "0123456789" * 2 + "[50 bytes were not kept]\n" + "0123456789" * 3


async def test_a_folder_that_is_gone_is_a_line_too(lane: DbLane) -> None:
    class Gone(Kept):
        def output(self, *_: Any) -> tuple[int, bytes]:
            raise FileNotFoundError

    row = replace(await begun(lane), is_open=False)
    await lane.once(lambda db: db.execute("INSERT INTO children VALUES (?, 1, 'agent', 100, 0, 0, NULL, 'self')", (RUN,)))
    assert await read_all(History(lane, Gone({})), row, 1000) == "[100 bytes were not kept]\n"


SAMPLES = ["plain", "zwölf Boxkämpfer", "日本語のテキスト", "🙂🙃🙂", "a\x00b", ""]


@pytest.mark.parametrize("text", SAMPLES)
@pytest.mark.parametrize("limit", [4, 5, 7])
async def test_a_piece_never_ends_within_a_character(lane: DbLane, text: str, limit: int) -> None:
    data = text.encode()
    row = replace(await begun(lane), is_open=False)
    history = History(lane, Kept({(1, "out"): data}))
    await lane.once(lambda db: db.execute("INSERT INTO children VALUES (?, 1, 'agent', ?, 0, 0, NULL, 'self')", (RUN, len(data))))
    assert await read_all(history, row, limit) == text


@given(st.text(max_size=30), st.integers(4, 9))
def test_cutting_loses_nothing(text: str, limit: int) -> None:
    data, got = text.encode(), ""
    while data:
        piece = whole_characters(data[:limit], is_end=len(data) <= limit)
        assert piece
        got += piece.decode()
        data = data[len(piece) :]
    assert got == text


@given(st.binary(max_size=40), st.integers(4, 9))
def test_bytes_that_are_no_text_come_to_an_end(data: bytes, limit: int) -> None:
    while data:
        piece = whole_characters(data[:limit], is_end=len(data) <= limit)
        assert len(piece) >= 1
        data = data[len(piece) :]
