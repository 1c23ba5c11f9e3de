"""`session.jsonc` (contract section 2): the state of an interrupted run, shared with other tools that read it strictly."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from cueloop_protocol.base import Exactly, Maybe, OpenWire, Wire, to_json_bytes

SESSION_VERSION: Final = 1
RUNNERS: Final = ("claude", "codex", "opencode", "gemini", "cursor", "kimi", "pi")
"""The built-in runners; any other word is the id of a plugin."""

Effort = Literal["low", "medium", "high", "xhigh"]


def runner_name(text: str) -> str:
    """The one spelling of a runner: trimmed, built-in names in lower case, a plugin's id otherwise as it is."""
    trimmed = text.strip()
    lower = trimmed.lower()
    return lower if lower in RUNNERS else trimmed


NonBlank = Annotated[str, StringConstraints(pattern=r"\S")]
RunnerName = Annotated[NonBlank, AfterValidator(runner_name)]
Byte = Annotated[int, Field(ge=0, le=255)]
Word = Annotated[int, Field(ge=0, le=2**32 - 1)]


class PhaseSettings(OpenWire):
    """What a phase ran with, for display only. Keys that are not known here are read over, and not kept."""

    runner: RunnerName
    model: str
    reasoning_effort: Maybe[Effort] = None


class Session(Wire):
    """A saved session of the one version we know. Strict: `true` is not 1, `2.0` is not 2, an unknown key is an error.

    The time stamps are kept as they were written; whether one can be read is a matter of the session's age, not of its
    form (contract section 9, row 2). `task_id` is kept as written and compared trimmed.
    """

    version: Exactly[Literal[1]]
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
    git_head_commit: Maybe[str] = None
    phase1_settings: Maybe[PhaseSettings] = None
    phase2_settings: Maybe[PhaseSettings] = None
    phase3_settings: Maybe[PhaseSettings] = None


def session_json(session: Session) -> bytes:
    """The bytes of a session file: strict JSON, two-space indent, the contract's order of keys, no nulls, a final newline."""
    return to_json_bytes(session, indent=2) + b"\n"
