"""The parts without a process: lines and words, files of the daemon's, output under a budget, the record, the clock."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cueloop_daemon.shim.loop import MOST_PER_TURN, Clock
from cueloop_daemon.shim.output import FEWEST, Budget, Stream
from cueloop_daemon.shim.record import ALLOCATED, Record
from cueloop_daemon.shim.spec import (
    OrderSpec,
    RunSpec,
    SpecError,
    file_bytes,
    parse_order,
    parse_run,
)
from cueloop_daemon.shim.wire import (
    FRAME_LIMIT,
    Clear,
    Hello,
    Lines,
    Lock,
    Signal,
    Start,
    Status,
    Unknown,
    WireError,
    encode,
    owner_bytes,
    owner_text,
    parse_wish,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
NAMES = st.text(st.characters(exclude_characters="=\0"), min_size=1)
TEXTS = st.text(st.characters(exclude_characters="\0"))
SPANS = st.none() | st.floats(0, 1e9)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@given(st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"\n", b""))), st.integers(1, 7))
def test_lines_however_they_arrive(lines: list[bytes], size: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    whole, pieces = Lines(), Lines()
    assert whole.feed(data) == lines
    assert [line for at in range(0, len(data), size) for line in pieces.feed(data[at : at + size])] == lines
    assert not pieces.is_partial


def test_a_line_on_the_limit_and_over_it() -> None:
    assert Lines().feed(b"x" * FRAME_LIMIT + b"\n") == [b"x" * FRAME_LIMIT]
    for data in (b"x" * (FRAME_LIMIT + 1), b"x" * (FRAME_LIMIT + 1) + b"\n"):
        with pytest.raises(WireError):
            Lines().feed(data)


@pytest.mark.parametrize(
    ("line", "wish"),
    [
        (encode("hello", generation=3, protocols=[1, 2], run_id="r", later=1), Hello(3, 1, 2, "r")),
        (encode("lock", n=1, label="l", command="c", started_at="s"), Lock(1, "l", "c", "s")),
        (
            encode("lock", n=1, label="l", command="c", started_at="s", clear={"dev": 1, "ino": 2, "owner": "\udcff"}),
            Lock(1, "l", "c", "s", Clear(1, 2, b"\xff")),
        ),
        (
            encode("lock", n=1, label="l", command="c", started_at="s", clear={"dev": 1, "ino": 2, "owner": None}),
            Lock(1, "l", "c", "s", Clear(1, 2, None)),
        ),
        (encode("start", n=2**53, token="t"), Start(2**53, "t")),
        (encode("signal", n=0, grace=1), Signal(0, 1.0)),
        (encode("status"), Status()),
        (encode("other", n=0), Unknown("other")),
    ],
)
def test_wishes(line: bytes, wish: object) -> None:
    assert parse_wish(line) == wish


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_line_is_anything_but_a_wish_or_an_error(line: bytes) -> None:
    with contextlib.suppress(WireError):
        parse_wish(line)


@settings(max_examples=50)
@given(
    st.sampled_from(["hello", "lock", "unlock", "start", "signal", "limits", "ack"]),
    st.dictionaries(
        st.sampled_from(["n", "upto", "token", "grace", "idle", "label", "command", "started_at", "clear", "run_id"]), JSON
    ),
)
def test_no_fields_are_anything_but_a_wish_or_an_error(word: str, fields: dict[str, object]) -> None:
    with contextlib.suppress(WireError):
        parse_wish(json.dumps({word: fields}).encode())


@given(st.binary())
def test_owner_files_travel_whole(data: bytes) -> None:
    assert owner_bytes(json.loads(json.dumps(owner_text(data)))) == data


@given(TEXTS, st.lists(TEXTS), st.dictionaries(NAMES, TEXTS), st.none() | TEXTS, SPANS, SPANS, SPANS)
def test_orders_travel_whole(
    token: str,
    argv: list[str],
    env: dict[str, str],
    stdin: str | None,
    idle: float | None,
    wall: float | None,
    grace: float | None,
) -> None:
    order = OrderSpec(token, "agent", ("/bin/x", *argv), env, stdin, idle, wall, grace)
    assert parse_order(file_bytes(order)) == order


@given(TEXTS, TEXTS, st.lists(TEXTS), st.dictionaries(NAMES, TEXTS), st.integers(0, 2**40))
def test_runs_travel_whole(run_id: str, root: str, argv: list[str], env: dict[str, str], budget: int) -> None:
    spec = RunSpec(run_id, 1, root, "/tmp/s", tuple(argv), env, budget, 5.0)
    assert parse_run(file_bytes(spec)) == spec


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_file_is_anything_but_a_spec_or_an_error(data: bytes) -> None:
    for parse in (parse_order, parse_run):
        with contextlib.suppress(SpecError):
            parse(data)


@pytest.mark.parametrize("argv", [[], ["sh"], ["./sh"], ["/bin/sh", "a\0b"], "/bin/sh", [1]])
def test_no_program_that_would_have_to_be_looked_for(argv: object) -> None:
    with pytest.raises(SpecError):
        parse_order(json.dumps({"token": "t", "kind": "ci", "argv": argv, "env": {}}).encode())


def test_less_than_48_mib_act_as_48(tmp_path: Path) -> None:
    """`run_output_limit_mib`: two streams being written and one whole segment in either half."""
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert [Budget(folder, mib << 20)._half << 1 for mib in (1, 47, 48, 64)] == [48 << 20, 48 << 20, 48 << 20, 64 << 20]
    finally:
        os.close(folder)


@given(
    st.lists(st.tuples(st.sampled_from(["out", "err"]), st.binary(min_size=1, max_size=40)), max_size=60),
    st.integers(0, 200),
)
def test_output_under_a_budget(tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, bytes]], limit: int) -> None:
    """Whatever is written: what is kept is the beginning and the end, each byte at its own offset, and the rest is counted."""
    path = tmp_path_factory.mktemp("output")
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    troubles: list[object] = []
    budget = Budget(folder, limit, segment=8)
    streams = {name: Stream(budget, f"1.{name}", lambda *told: troubles.append(told)) for name in ("out", "err")}
    whole = {"out": b"", "err": b""}
    for name, data in writes:
        streams[name].write(data)
        whole[name] += data
        assert sum(file.stat().st_size for file in path.iterdir()) <= max(limit, FEWEST * 8)
    for name, stream in streams.items():
        stream.close()
        kept = {int(file.suffix[1:]): file.read_bytes() for file in path.glob(f"1.{name}.*")}
        assert all(data == whole[name][8 * number : 8 * number + 8] for number, data in kept.items())
        assert stream.size == len(whole[name])
        assert stream.dropped == len(whole[name]) - sum(map(len, kept.values()))
        if whole[name]:
            assert 0 in kept or stream.dropped
            assert (len(whole[name]) - 1) // 8 in kept or name != writes[-1][0], "what came last is kept"
    os.close(folder)
    assert troubles == []


def test_many_small_outputs_are_counted_by_their_bytes(tmp_path: Path, folder: int) -> None:
    """A thousand children with a line each fill no budget."""
    budget = Budget(folder, 8 * 1024, segment=1024)
    for n in range(1000):
        stream = Stream(budget, f"{n}.out", lambda *_: None)
        stream.write(b"line\n")
        stream.close()
    assert len(list(tmp_path.iterdir())) == 1000


def test_output_that_the_disk_does_not_take(folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted, told, and the next line that is taken stands by itself."""
    told: list[tuple[str, int]] = []
    stream = Stream(Budget(folder, 0), "1.out", lambda what, number: told.append((what, number)))
    stream.write(b"one\ntw")
    with monkeypatch.context() as full:

        def fails(*_: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        full.setattr(os, "pwrite", fails)
        stream.write(b"o\nthr")
        stream.write(b"ee\n")
    stream.write(b"four\n")
    stream.write(b"five\n")
    stream.close()
    assert (tmp_path / "1.out.0").read_bytes() == b"one\ntw\nfour\nfive\n"
    assert (stream.size, stream.dropped, told) == (17, 8, [("output", errno.ENOSPC)] * 2)


def test_a_record_is_read_to_its_first_nul(folder: int, tmp_path: Path) -> None:
    record = Record(folder)
    assert record.add("up", pid=1) is None
    assert record.add("bye", why="end") is None
    data = (tmp_path / "shim.jsonl").read_bytes()
    assert data.rstrip(b"\0") == b'{"up":{"pid":1}}\n{"bye":{"why":"end"}}\n'
    assert len(data) == ALLOCATED


def test_a_record_that_cannot_be_written_comes_later_and_in_order(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record(folder)
    pwrite = os.pwrite
    with monkeypatch.context() as full:

        def fails(fd: int, data: bytes, offset: int) -> int:
            if offset == 0:
                return pwrite(fd, data[:3], offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        full.setattr(os, "pwrite", fails)
        for number in (1, 2):
            failure = record.add("bar", n=number)
            assert failure is not None
            assert failure.errno == errno.ENOSPC
    assert record.flush() is None
    assert (tmp_path / "shim.jsonl").read_bytes().rstrip(b"\0") == b'{"bar":{"n":1}}\n{"bar":{"n":2}}\n'


@pytest.mark.parametrize("before", [0, 1])
def test_what_is_withdrawn_is_never_written(folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    """The last record alone: those before it still come. Of one that was begun nothing stays behind the next."""
    record = Record(folder)
    record.add("up", pid=1)
    pwrite = os.pwrite
    with monkeypatch.context() as full:
        room = [5]

        def fails(fd: int, data: bytes, offset: int) -> int:
            if room:
                return pwrite(fd, data[: room.pop()], offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        full.setattr(os, "pwrite", fails)
        for number in range(before):
            assert record.add("bar", n=number) is not None
        assert record.add("child", n=1, pid=1234567, start="a long one, so that its end would show") is not None
    record.withdraw()
    record.add("bye", why="end")
    said = [b'{"up":{"pid":1}}', *[b'{"bar":{"n":0}}'] * before, b'{"bye":{"why":"end"}}', b""]
    assert (tmp_path / "shim.jsonl").read_bytes().rstrip(b"\0") == b"\n".join(said)


def test_a_record_that_is_long_is_written_anew(folder: int, tmp_path: Path) -> None:
    record = Record(folder)
    while not record.is_long:
        record.add("bar", n=1)
    record.rewrite([encode("up", pid=1)])
    assert not record.is_long
    record.add("bye", why="end")
    assert (tmp_path / "shim.jsonl").read_bytes().rstrip(b"\0") == b'{"up":{"pid":1}}\n{"bye":{"why":"end"}}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["shim.jsonl"]


def test_d29_a_gap_counts_little() -> None:
    """Each reading counts what has passed, and a gap (sleep, SIGSTOP, a clock gone backwards) never more than one turn's worth."""
    readings = iter([100.0, 101.0, 101.5, 30_000.0, 30_001.0, 5.0, 6.0])
    clock = Clock(lambda: next(readings))
    lived = []
    for _ in range(6):
        clock.tick()
        lived.append(clock.now)
    gap = MOST_PER_TURN
    assert lived == [1.0, 1.5, 1.5 + gap, 2.5 + gap, 2.5 + gap, 3.5 + gap]
