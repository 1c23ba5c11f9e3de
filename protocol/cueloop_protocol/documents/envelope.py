"""Run events, version 3: one model per kind, so that no event can lack what CueLoopMac needs to show it (contract section 7).

The app drops an event whose payload has a null for `config`, `text` or `paths`, and one that it cannot decode takes the stream
with it. So what a kind does not carry is not a field of its model, and the kinds are closed: `run_finished`, which the app also
knows, is not sent.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError, to_json

from cueloop_protocol.base import Exactly, Maybe, Wire
from cueloop_protocol.documents.blocking import BlockingState
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.resolve import DocumentPaths, ResolveDocument

MAX_EVENT_CHARACTERS = 1_000_000
"""An event's JSON text stays under this; the app refuses longer lines."""

RunMode = Literal["one", "loop"]
Phase = Literal["plan", "implement", "review"]
EventKind = Literal[
    "run_started",
    "resume_decision",
    "task_selected",
    "phase_entered",
    "phase_completed",
    "runner_output",
    "blocked_state_changed",
    "blocked_state_cleared",
    "queue_snapshot",
    "config_resolved",
    "warning",
]
"""The closed list, in the order in which a run may bring them first."""

Version = Exactly[Literal[3]]


class ConfigPayload(Wire):
    """Carries the config-resolve document."""

    config: ResolveDocument


class TextPayload(Wire):
    """Carries what an agent wrote; bytes that are not UTF-8 have become U+FFFD."""

    text: str


class PathsPayload(Wire):
    """Carries the paths to read again."""

    paths: DocumentPaths


class RunStarted(Wire):
    """The first event of a run; `task_id` when one was asked for. The document has the preview that the run was started under."""

    version: Version = 3
    kind: Literal["run_started"] = "run_started"
    timestamp: str
    run_mode: Maybe[RunMode] = None
    task_id: Maybe[str] = None
    payload: ConfigPayload


class ResumeDecision(Wire):
    """What a run does about an interrupted session, or about an agent's conversation. Repeats its payload's task and message."""

    version: Version = 3
    kind: Literal["resume_decision"] = "resume_decision"
    timestamp: str
    run_mode: Maybe[RunMode] = None
    task_id: Maybe[str] = None
    message: str
    payload: Decision

    @model_validator(mode="after")
    def _repeats_payload(self) -> ResumeDecision:
        if (self.task_id, self.message) != (self.payload.task_id, self.payload.message):
            raise PydanticCustomError("event_repeats", "task_id and message repeat the payload's")
        return self


class TaskSelected(Wire):
    """A task begins; `message` is its title."""

    version: Version = 3
    kind: Literal["task_selected"] = "task_selected"
    timestamp: str
    run_mode: Maybe[RunMode] = None
    task_id: str
    message: str


class PhaseEntered(Wire):
    """A phase begins."""

    version: Version = 3
    kind: Literal["phase_entered"] = "phase_entered"
    timestamp: str
    run_mode: Maybe[RunMode] = None
    task_id: Maybe[str] = None
    phase: Phase


class PhaseCompleted(Wire):
    """A phase succeeded; a failed one is not completed."""

    version: Version = 3
    kind: Literal["phase_completed"] = "phase_completed"
    timestamp: str
    run_mode: Maybe[RunMode] = None
    task_id: Maybe[str] = None
    phase: Phase


class RunnerOutput(Wire):
    """A piece of what the agent wrote, both of its streams together."""

    version: Version = 3
    kind: Literal["runner_output"] = "runner_output"
    timestamp: str
    run_mode: Maybe[RunMode] = None
    task_id: Maybe[str] = None
    phase: Maybe[Phase] = None
    stream: Literal["combined"] = "combined"
    payload: TextPayload


class BlockedStateChanged(Wire):
    """The run waits, is blocked or stalled."""

    version: Version = 3
    kind: Literal["blocked_state_changed"] = "blocked_state_changed"
    timestamp: str
    run_mode: Maybe[RunMode] = None
    task_id: Maybe[str] = None
    exit_code: Maybe[int] = None
    message: str
    payload: BlockingState


class BlockedStateCleared(Wire):
    """What was said by `blocked_state_changed` is over."""

    version: Version = 3
    kind: Literal["blocked_state_cleared"] = "blocked_state_cleared"
    timestamp: str
    run_mode: Maybe[RunMode] = None
    task_id: Maybe[str] = None


class QueueSnapshot(Wire):
    """The queue or done file changed."""

    version: Version = 3
    kind: Literal["queue_snapshot"] = "queue_snapshot"
    timestamp: str
    run_mode: Maybe[RunMode] = None
    payload: PathsPayload


class ConfigResolved(Wire):
    """The document that `config.resolve` gives with default params has changed."""

    version: Version = 3
    kind: Literal["config_resolved"] = "config_resolved"
    timestamp: str
    run_mode: Maybe[RunMode] = None
    payload: ConfigPayload


class Warned(Wire):
    """Something a person should know; `exit_code` where a program's end is the reason."""

    version: Version = 3
    kind: Literal["warning"] = "warning"
    timestamp: str
    run_mode: Maybe[RunMode] = None
    task_id: Maybe[str] = None
    phase: Maybe[Phase] = None
    exit_code: Maybe[int] = None
    message: str


Event = (
    RunStarted
    | ResumeDecision
    | TaskSelected
    | PhaseEntered
    | PhaseCompleted
    | RunnerOutput
    | BlockedStateChanged
    | BlockedStateCleared
    | QueueSnapshot
    | ConfigResolved
    | Warned
)
AnyEvent = Annotated[Event, Field(discriminator="kind")]
"""As a field: the kind decides which model reads it."""

EVENT: TypeAdapter[Event] = TypeAdapter(AnyEvent, config=ConfigDict(defer_build=True))
"""Reads any event: `EVENT.validate_python(…)`."""


class EventTooLong(ValueError):
    """The event would reach `MAX_EVENT_CHARACTERS`; whoever made it must shorten it and say so in its text."""


def event_bytes(event: Event) -> bytes:
    """The event as one line of UTF-8 JSON without the line feed. EventTooLong if the app would refuse it."""
    data = to_json(event)
    if len(data) >= MAX_EVENT_CHARACTERS and len(data.decode()) >= MAX_EVENT_CHARACTERS:
        raise EventTooLong(f"a {event.kind} event of {len(data)} bytes is too long to send")
    return data
