"""The results of the methods `run.*`."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from cueloop_protocol.base import Items, Maybe, Wire
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.error import ErrorDocument
from cueloop_protocol.documents.summary import Summary
from cueloop_protocol.results import Observed
from cueloop_protocol.shapes import Count, CursorText, Mode, Question, RunState


class RunStartResult(Observed):
    """The run. `cursor` is the one before its first event; `repeated` if the idempotency key had started it before."""

    run_id: str
    cursor: CursorText
    repeated: bool


class RunAnswerResult(Observed):
    """The answer that counts; `first` is false if somebody else's came before this one."""

    run_id: str
    question_id: str
    choice: str
    first: bool


class RunStopResult(Observed):
    """The run ends after its current task."""

    run_id: str
    state: RunState


class RunCancelResult(Observed):
    """The run is over and no process of it is left."""

    run_id: str
    summary: Summary


class RunRecord(Wire):
    """One run, active or over; a run that is over has `finished_at` and `summary`."""

    run_id: str
    mode: Mode
    state: RunState | Literal["finished"]
    task_id: Maybe[str] = None
    phase: Maybe[Literal["plan", "implement", "review"]] = None
    started_at: str
    finished_at: Maybe[str] = None
    decision: Maybe[Decision] = None
    summary: Maybe[Summary] = None
    error: Maybe[ErrorDocument] = None
    output_bytes: Count
    questions: Items[Question]

    @model_validator(mode="after")
    def _finished_has_summary(self) -> RunRecord:
        if (self.state == "finished") != (self.finished_at is not None and self.summary is not None):
            raise PydanticCustomError("run_state", "finished_at and summary are given exactly when the state is finished")
        return self


class RunGetResult(Observed):
    """One run."""

    run: RunRecord


class RunListResult(Observed):
    """Runs, newest first; `more` if there are older ones."""

    runs: Items[RunRecord]
    more: bool


class RunOutputResult(Observed):
    """Output from `offset` to `next_offset` of `total` bytes; `complete` when the run is over and this is its end.

    Offsets count bytes. A piece never ends within a character; bytes that are not UTF-8 are shown as U+FFFD.
    """

    run_id: str
    offset: Count
    next_offset: Count
    total: Count
    text: str
    complete: bool
