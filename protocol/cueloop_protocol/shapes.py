"""Values that several params, results and notifications share (design sections 3 to 6)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cueloop_protocol.base import Items, Maybe, OpenWire, Wire
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.version import OLDEST_PROTOCOL_VERSION as OLDEST_PROTOCOL_VERSION
from cueloop_protocol.version import PROTOCOL_VERSION as PROTOCOL_VERSION

NonBlank = Annotated[str, Field(pattern=r"\S")]
"""Text with at least one character that is not white space."""

AbsolutePath = Annotated[str, Field(pattern=r"^/[^\x00]*$", description="A path from `/`; it need not exist.")]
CursorText = Annotated[
    str, Field(pattern=r"^[0-9A-Za-z_-]{1,64}:(0|[1-9][0-9]{0,18})$", description="A place in the event log, `epoch:seq`.")
]

Count = Annotated[int, Field(ge=0)]
Word = Annotated[int, Field(ge=0, le=2**32 - 1)]

Choice = Literal["resume", "fresh"]
Mode = Literal["one", "loop", "resume"]
RunState = Literal["starting", "running", "waiting", "asking", "stopping", "cancelling", "adopting"]
Origin = Literal["demand", "hand", "systemd", "launchd"]
ShutdownReason = Literal["idle", "stopped", "upgrade", "repository_gone", "replaced"]


class VersionRange(OpenWire):
    """The protocol versions a side speaks, both ends included."""

    min: Annotated[int, Field(ge=1)]
    max: Annotated[int, Field(ge=1)]


class CallerParams(Wire):
    """Whose configuration is meant: `~`, the global config, plugins and git's own settings depend on it.

    Without one the home of the passwd entry counts, not that of whoever happened to start the daemon.
    """

    home: AbsolutePath
    config_home: Maybe[AbsolutePath] = None


class Shim(Wire):
    """The process that carries a run; a pid means something only together with its start time and the boot."""

    pid: Annotated[int, Field(gt=1)]
    start_time: str
    boot_id: str


class ActiveRunState(Wire):
    """The run that is under way in this repository; `decision` is the one it started with, if it had one."""

    run_id: str
    mode: Mode
    task_id: Maybe[str] = None
    phase: Maybe[Literal["plan", "implement", "review"]] = None
    state: RunState
    started_at: str
    decision: Maybe[Decision] = None
    shim: Maybe[Shim] = None


class QueueLockState(Wire):
    """The queue lock in somebody's hands; `live` is whether that process still exists."""

    label: Maybe[str] = None
    pid: Maybe[int] = None
    started_at: Maybe[str] = None
    live: bool


class QuestionChoice(Wire):
    """One possible answer; `takes_text` if a message may go with it."""

    choice: str
    title: str
    takes_text: bool


class Question(Wire):
    """What a run asks in the middle, until somebody answers or `expires_at` passes and `default` counts."""

    question_id: str
    run_id: str
    task_id: Maybe[str] = None
    message: str
    detail: str
    choices: Items[QuestionChoice]
    default: str
    asked_at: str
    expires_at: str
