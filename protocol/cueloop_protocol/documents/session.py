"""`session.jsonc` (contract section 2): the state of an interrupted run, shared with other tools that read it strictly."""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

SESSION_VERSION: Final = 1
RUNNERS: Final = ("claude", "codex", "opencode", "gemini", "cursor", "kimi", "pi")
"""The built-in runners; any other word is the id of a plugin."""

Effort = Literal["low", "medium", "high", "xhigh"]


def runner_name(text: str) -> str:
    """The one spelling of a runner: trimmed, built-in names in lower case, a plugin's id otherwise as it is."""
    trimmed = text.strip()
    lower = trimmed.lower()
    return lower if lower in RUNNERS else trimmed


RunnerName = Annotated[str, AfterValidator(runner_name), StringConstraints(pattern=r"\S")]
NonBlank = Annotated[str, StringConstraints(pattern=r"\S")]
Byte = Annotated[int, Field(ge=0, le=255)]
Word = Annotated[int, Field(ge=0, le=2**32 - 1)]


class PhaseSettings(BaseModel):
    """What a phase ran with, for display only. Keys that are not known here are read over, and not kept."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    runner: RunnerName
    model: str
    reasoning_effort: Effort | None = None


class Session(BaseModel):
    """A saved session of the one version we know. Strict: `true` is not 1, `2.0` is not 2, an unknown key is an error.

    The time stamps are kept as they were written; whether one can be read is a matter of the session's age, not of its
    form (contract section 9, row 2). `task_id` is kept as written and compared trimmed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Literal[1]
    session_id: NonBlank
    task_id: NonBlank
    run_started_at: str
    last_updated_at: str
    iterations_planned: Byte
    iterations_completed: Byte
    current_phase: Annotated[int, Field(ge=1, le=3)]
    runner: RunnerName
    model: str
    tasks_completed_in_loop: Word
    max_tasks: Word
    git_head_commit: str | None = None
    phase1_settings: PhaseSettings | None = None
    phase2_settings: PhaseSettings | None = None
    phase3_settings: PhaseSettings | None = None


def session_json(session: Session) -> bytes:
    """The bytes of a session file: strict JSON, two-space indent, the contract's order of keys, no nulls, a final newline."""
    fields = session.model_dump(mode="json", exclude_none=True)
    return (json.dumps(fields, indent=2, ensure_ascii=False) + "\n").encode()
