"""Questions in the middle of a run: stored before they are shown, answered once by whoever is first, whatever dies meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Literal, Protocol, TypeVar

import anyio
from pydantic_core import to_json

from cueloop_daemon.core.stamps import parse_stamp
from cueloop_daemon.runs.batches import resolved, say
from cueloop_daemon.runs.records import Out
from cueloop_protocol.base import to_json_bytes
from cueloop_protocol.shapes import Question
from cueloop_protocol.values import dataclass

T = TypeVar("T")
By = Literal["answer", "timeout", "run_over"]


@dataclass(frozen=True, slots=True)
class Answered:
    """What counts. `first` is false if somebody else had settled it already."""

    run_id: str
    question_id: str
    choice: str
    text: str | None
    by: By
    first: bool


class Lane(Protocol):
    """The way to the record: one change at a time."""

    async def write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """One transaction, on the medium when it returns. Tried again while the medium takes nothing."""
        ...


class QuestionDesk:
    """The questions of the active run. `told` is called when there is something new in the outbox."""

    def __init__(self, lane: Lane, now: Callable[[], str], told: Callable[[], None]) -> None:
        """`now` gives the wall clock's time, RFC 3339."""
        self._lane = lane
        self._now = now
        self._told = told
        self._settled: dict[str, anyio.Event] = {}

    async def ask(
        self, run_id: str, question: Question, sleep_until: Callable[[datetime], Awaitable[None]]
    ) -> tuple[str, str | None]:
        """Store it if it is not stored yet, show it, and wait for what settles it: (choice, text).

        Asked again in a later life, it is the same question: what was answered meanwhile counts at once.
        """
        settled = self._settled.setdefault(question.question_id, anyio.Event())
        known = await self._lane.write(lambda db: store(db, run_id, question))
        self._told()
        if known is None:
            known = await self._wait(question, settled, sleep_until)
        return known.choice, known.text

    async def answer(self, run_id: str, question_id: str, choice: str, text: str | None) -> Answered | None:
        """Settle a question by a person's choice; on the medium when it returns. None: there is no such question."""
        found = await self._lane.write(lambda db: settle(db, run_id, question_id, choice, text, "answer", self._now()))
        self._told()
        if (event := self._settled.get(question_id)) is not None:
            event.set()
        return found

    async def _wait(
        self, question: Question, settled: anyio.Event, sleep_until: Callable[[datetime], Awaitable[None]]
    ) -> Answered:
        expires = parse_stamp(question.expires_at)
        async with anyio.create_task_group() as waiting:
            if expires is not None:
                waiting.start_soon(self._set_at, settled, expires, sleep_until)
            await settled.wait()
            waiting.cancel_scope.cancel()
        found = await self._lane.write(
            lambda db: settle(db, question.run_id, question.question_id, question.default, None, "timeout", self._now())
        )
        self._told()
        assert found is not None  # it was stored before, and a run's questions live as long as the run
        return found

    async def _set_at(self, settled: anyio.Event, moment: datetime, sleep_until: Callable[[datetime], Awaitable[None]]) -> None:
        await sleep_until(moment)
        settled.set()


def store(db: sqlite3.Connection, run_id: str, question: Question) -> Answered | None:
    """Store a question and its announcement together, unless it is there; what settled it, if anything did."""
    body = to_json_bytes(question)
    made = db.execute(
        "INSERT INTO questions (question_id, run_id, body, expires_at, fallback) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (question.question_id, run_id, body, question.expires_at, question.default),
    )
    if made.rowcount:
        say(db, run_id, [Out("question", None, b'{"run_id":%b,"question":%b}' % (to_json(run_id), body))])
        return None
    return read(db, question.question_id, first=False)


def settle(
    db: sqlite3.Connection, run_id: str, question_id: str, choice: str, text: str | None, by: By, at: str
) -> Answered | None:
    """Settle a question unless it is: of all who try, in whichever life, one is first. None: there is no such question."""
    changed = db.execute(
        "UPDATE questions SET choice = ?, text = ?, by = ?, answered_at = ?"
        " WHERE question_id = ? AND run_id = ? AND answered_at IS NULL",
        (choice, text, by, at, question_id, run_id),
    )
    if changed.rowcount:
        say(db, run_id, [resolved(run_id, question_id, choice, by)])
    found = read(db, question_id, first=bool(changed.rowcount))
    return found if found is not None and found.run_id == run_id else None


def read(db: sqlite3.Connection, question_id: str, *, first: bool) -> Answered | None:
    """What settled a question; None if nothing has, or it is not there."""
    found = db.execute(
        "SELECT run_id, choice, text, by FROM questions WHERE question_id = ? AND answered_at IS NOT NULL", (question_id,)
    ).fetchone()
    if found is None:
        return None
    run_id, choice, text, by = found
    return Answered(run_id, question_id, choice, text, by, first)
