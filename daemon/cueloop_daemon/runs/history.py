"""Runs as they are told to who asks for one, for the history, or for the output: from the record and the run's folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import anyio.to_thread
from pydantic_core import from_json

from cueloop_daemon.core.model import ActiveRun
from cueloop_daemon.runs import queries
from cueloop_daemon.runs.active import view_from
from cueloop_daemon.runs.carrier import Carriers
from cueloop_daemon.runs.children import Child, children
from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.queries import RunRow
from cueloop_daemon.runs.types import Stream
from cueloop_protocol import codes
from cueloop_protocol.run_results import RunRecord
from cueloop_protocol.shapes import Question


class Stretch(NamedTuple):
    """Where one stream of one child stands in the output of its run. `is_whole`: it will not grow any more."""

    start: int
    size: int
    number: int
    stream: Stream
    is_whole: bool


class Piece(NamedTuple):
    """Output from an offset on: its text, and where it goes on."""

    text: str
    next_offset: int


class History:
    """The runs of a repository, active or over. Raises DbError."""

    def __init__(self, lane: DbLane, carriers: Carriers) -> None:
        self._lane = lane
        self._carriers = carriers

    async def record(self, row: RunRow, active: ActiveRun | None, questions: Sequence[Question]) -> RunRecord:
        """One run as it is told. `active` and `questions`: what the engine says of the run that is under way."""
        view = view_from(row.view)
        is_active = active is not None and active.run_id == row.run_id
        layout = await self.layout(row)
        shown = active if is_active and active is not None else None
        return RunRecord.model_validate(
            {
                "run_id": row.run_id,
                "mode": row.mode,
                "state": "finished" if not row.is_open else "adopting" if shown is None else shown.state,
                "task_id": view.task_id if shown is None else shown.task_id,
                "phase": None if not row.is_open else view.phase if shown is None else shown.phase,
                "started_at": row.started_at,
                "finished_at": row.finished_at,
                "decision": view.decision,
                "summary": None if row.summary is None else from_json(row.summary),
                "error": None if row.error is None else from_json(row.error),
                "output_bytes": total_of(layout),
                "questions": tuple(one for one in questions if one.run_id == row.run_id) if row.is_open else (),
            }
        )

    async def page(self, limit: int, before: str | None) -> tuple[list[RunRow], bool]:
        """Runs, newest first, and whether there are more. RpcError: `before` is no run that is kept."""
        try:
            return await self._lane.read(lambda db: queries.page(db, limit, before))
        except LookupError as exc:
            raise codes.no_such_run(str(exc.args[0])) from exc

    async def layout(self, row: RunRow) -> tuple[Stretch, ...]:
        """Where each stream of each child stands in the run's output."""
        known = await self._lane.read(lambda db: children(db, row.run_id))
        return await anyio.to_thread.run_sync(self._layout, row, known)

    async def output(self, row: RunRow, layout: Sequence[Stretch], offset: int, limit: int) -> Piece:
        """At most `limit` bytes of output from `offset` on."""
        return await anyio.to_thread.run_sync(self._output, row.run_id, layout, offset, limit)

    def _layout(self, row: RunRow, known: Sequence[Child]) -> tuple[Stretch, ...]:
        """Out before err of each child; while one runs its err has no place yet, so that no offset ever shifts."""
        stretches: list[Stretch] = []
        start = 0
        for child in known:
            runs = child.out is None and row.is_open and child is known[-1]
            sizes = (child.out, child.err)
            if child.out is None or child.err is None:
                sizes = self._carriers.sizes(row.run_id, child.number)
            for stream, size in zip(("out",) if runs else ("out", "err"), sizes, strict=False):
                stretches.append(Stretch(start, size or 0, child.number, "out" if stream == "out" else "err", not runs))
                start += size or 0
        return tuple(stretches)

    def _output(self, run_id: str, layout: Sequence[Stretch], offset: int, limit: int) -> Piece:
        text: list[str] = []
        for stretch in layout:
            inside = offset - stretch.start
            while limit > 0 and 0 <= inside < stretch.size:
                try:
                    begin, data = self._carriers.output(run_id, stretch.number, stretch.stream, inside, limit)
                except OSError:
                    begin, data = stretch.size, b""
                begin, data = min(begin, stretch.size), data[: max(stretch.size - begin, 0)]
                if begin > inside:
                    text.append(f"[{begin - inside} bytes were not kept]\n")
                elif not (data := whole_characters(data, is_end=stretch.is_whole and inside + len(data) == stretch.size)):
                    return Piece("".join(text), offset)
                text.append(data.decode("utf-8", "replace"))
                limit -= len(data)
                inside = begin + len(data)
                offset = stretch.start + inside
        return Piece("".join(text), offset)


def total_of(layout: Sequence[Stretch]) -> int:
    """Bytes of output that have a place."""
    return layout[-1].start + layout[-1].size if layout else 0


def whole_characters(data: bytes, *, is_end: bool) -> bytes:
    """The bytes without a character's beginning at their end, unless nothing follows."""
    if is_end:
        return data
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        return data[:-back] if needed > back else data
    return data
