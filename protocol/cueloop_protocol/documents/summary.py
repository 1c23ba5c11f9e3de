"""The run summary, version 2: the last thing of every run (contract section 7)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cueloop_protocol.base import Exactly, Maybe, Wire
from cueloop_protocol.documents.blocking import BlockingState

Outcome = Literal["ran", "completed", "no_candidates", "blocked", "stalled", "stopped", "failed"]
"""`ran` is said by `run one` alone, `completed` by `run loop` alone."""


class Summary(Wire):
    """How a run ended. `task_id` is always printed: the task's when the outcome is `ran`, else null."""

    version: Exactly[Literal[2]] = 2
    task_id: str | None
    exit_code: Annotated[int, Field(ge=0, le=255)]
    outcome: Outcome
    blocking: Maybe[BlockingState] = None

    @model_validator(mode="after")
    def _task_only_when_ran(self) -> Summary:
        if (self.task_id is not None) != (self.outcome == "ran"):
            raise PydanticCustomError("summary_task", "task_id is given exactly when the outcome is ran")
        return self
