"""What goes over the socket without an answer: the daemon's announcements, and a client's wish to cancel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from cueloop_protocol.base import Maybe, Wire
from cueloop_protocol.documents.envelope import AnyEvent
from cueloop_protocol.documents.error import ErrorDocument
from cueloop_protocol.documents.summary import Summary
from cueloop_protocol.params import CancelParams
from cueloop_protocol.results import Snapshot
from cueloop_protocol.shapes import Count, CursorText, Question, ShutdownReason


class Announcement(Wire):
    """What every notification of a subscription has. `cursor`: subscribe with it to go on after this notification."""

    subscription: str
    cursor: CursorText


class EventNotification(Announcement):
    """One run event. `origin`: `run` if the run `run_id` did it, `watch` if it was seen in the files."""

    revision: Count
    run_id: Maybe[str] = None
    origin: Literal["run", "watch"]
    event: AnyEvent


class RunFinishedNotification(Announcement):
    """A run is over; comes once, after its last event. `error`: why, where it did not end by itself."""

    revision: Count
    run_id: str
    summary: Summary
    error: Maybe[ErrorDocument] = None


class QuestionNotification(Announcement):
    """A run asks; answer with `run.answer`."""

    revision: Count
    run_id: str
    question: Question


class QuestionResolvedNotification(Announcement):
    """A question is settled: by an answer, by its time running out, or because the run is over."""

    revision: Count
    run_id: str
    question_id: str
    choice: str
    by: Literal["answer", "timeout", "run_over"]


class GapNotification(Announcement):
    """Events between `from` and `to` cannot be told any more; the snapshot is the state at `to`, which is also the cursor."""

    from_: CursorText = Field(alias="from")
    to: CursorText
    snapshot: Snapshot


class ClosingNotification(Wire):
    """The daemon goes, and says why, before it closes the connection. It is gone when that very process is.

    `replaced`: a successor has the socket, and a new connection is served by that one.
    """

    reason: ShutdownReason
    pid: Maybe[int] = None
    start_time: Maybe[str] = None
    boot_id: Maybe[str] = None


@dataclass(frozen=True, slots=True)
class NotificationSpec:
    """One notification; `sender` says who sends it."""

    params: type[Wire]
    summary: str
    sender: Literal["daemon", "client"] = "daemon"


NOTIFICATIONS: Mapping[str, NotificationSpec] = MappingProxyType(
    {
        "event": NotificationSpec(EventNotification, "A run event, of a run or of the watch."),
        "run.finished": NotificationSpec(RunFinishedNotification, "A run is over."),
        "question": NotificationSpec(QuestionNotification, "A run needs a person."),
        "question.resolved": NotificationSpec(QuestionResolvedNotification, "A question is settled."),
        "gap": NotificationSpec(GapNotification, "Events were lost to this subscriber; here is the state instead."),
        "daemon.closing": NotificationSpec(ClosingNotification, "The daemon is about to close the connection."),
        "$/cancelRequest": NotificationSpec(CancelParams, "Cancel a request that is not answered yet.", "client"),
    }
)
"""Method name → its specification, in the order of the reference."""
