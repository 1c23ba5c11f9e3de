"""The params of every method. Unknown keys and conversions are refused, with the path of what is wrong; `null` means left out.

`hello`, `daemon.shutdown` and `daemon.handover` alone read over keys they do not know: between different versions, they are how a
client learns that the versions differ, how it stops the other one, and how that is replaced.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cueloop_protocol.base import Defaulted, Items, Maybe, OpenWire, Wire
from cueloop_protocol.documents.envelope import EventKind
from cueloop_protocol.overrides import Overrides
from cueloop_protocol.shapes import AbsolutePath, CallerParams, Choice, Count, CursorText, Mode, NonBlank, VersionRange, Word

EnvironmentName = Annotated[str, Field(pattern=r"^[^=\x00]+$")]
EnvironmentValue = Annotated[str, Field(pattern=r"^[^\x00]*$")]


class NoParams(Wire):
    """The method takes nothing; `params` may be `{}` or left out."""


class ClientName(OpenWire):
    """Who is calling, for logs and `daemon.status`."""

    name: NonBlank
    version: Maybe[str] = None


class HelloParams(OpenWire):
    """Who the client is and what it understands. `documents`: document name → the versions of it that the client decodes."""

    client: ClientName
    protocol: VersionRange
    documents: Maybe[dict[str, Items[int]]] = None


class ResolveParams(Wire):
    """`resume`: as if `--resume` were given. `exact`: ask git now, do not accept an answer up to two seconds old."""

    task_id: Maybe[NonBlank] = None
    resume: Defaulted[bool] = True
    exact: Defaulted[bool] = False
    caller: Maybe[CallerParams] = None


class SessionGetParams(Wire):
    """`caller` matters for the decision beside the session, whose time limit is configured."""

    caller: Maybe[CallerParams] = None


class SessionClearParams(Wire):
    """`etag`: of the file the person saw; any other file is left alone."""

    etag: NonBlank


class Answer(Wire):
    """What a person chose, and for which session file: if the file has changed since, the answer is void."""

    choice: Choice
    session_etag: NonBlank


class RunRequest(Wire):
    """What a run is asked to do about an interrupted session, and which task it takes.

    `resume`: go on with a valid session without asking; mode `resume` (a loop) implies it. `fresh`: start fresh, whatever session
    there is. `interactive`: somebody can be asked. `answer`: what they said.
    """

    mode: Mode
    task_id: Maybe[NonBlank] = None
    resume: Defaulted[bool] = False
    fresh: Defaulted[bool] = False
    interactive: Defaulted[bool] = False
    answer: Maybe[Answer] = None

    @model_validator(mode="after")
    def _one_wish(self) -> RunRequest:
        if self.task_id is not None and self.mode != "one":
            raise PydanticCustomError("request_task", "task_id goes with mode one only")
        if self.fresh and (self.resume or self.mode == "resume"):
            raise PydanticCustomError("request_fresh", "fresh contradicts resume")
        if self.fresh and self.answer is not None:
            raise PydanticCustomError("request_answer", "fresh is an answer already; give one of fresh and answer")
        return self


class PreviewParams(Wire):
    """The decision for `request`, as `run.start` would make it now."""

    request: RunRequest
    caller: Maybe[CallerParams] = None


class RunStartParams(RunRequest):
    """A run to start. `max_tasks`: 0 means no limit; without it the saved session's applies. `force`: a dirty tree is accepted.

    `env` is the environment of the agents; it is kept in the run's own folder alone and is in no answer, event or log.
    `idempotency_key`: the same key with the same params gives the same run again, with other params an error.
    """

    max_tasks: Maybe[Word] = None
    force: Defaulted[bool] = False
    overrides: Defaulted[Overrides] = Overrides()
    env: Defaulted[dict[EnvironmentName, EnvironmentValue]] = Field(default_factory=dict, repr=False)
    caller: Maybe[CallerParams] = None
    idempotency_key: Maybe[Annotated[str, Field(min_length=1, max_length=200)]] = None

    @model_validator(mode="after")
    def _loop_limit(self) -> RunStartParams:
        if self.max_tasks is not None and self.mode == "one":
            raise PydanticCustomError("request_max_tasks", "max_tasks goes with modes loop and resume only")
        return self


class RunAnswerParams(Wire):
    """An answer to a question that a run asks; `text` where the choice takes one."""

    run_id: NonBlank
    question_id: NonBlank
    choice: NonBlank
    text: Maybe[str] = None


class RunTargetParams(Wire):
    """The run that is meant; without `run_id`, the active one."""

    run_id: Maybe[NonBlank] = None


class RunGetParams(Wire):
    """One run by its id."""

    run_id: NonBlank


class RunListParams(Wire):
    """A page of the history, newest first; `before` is the last id of the page before."""

    limit: Defaulted[Annotated[int, Field(ge=1, le=500)]] = 50
    before: Maybe[NonBlank] = None


class RunOutputParams(Wire):
    """A piece of a run's output, counted in bytes of its log."""

    run_id: NonBlank
    offset: Defaulted[Count] = 0
    limit: Defaulted[Annotated[int, Field(ge=4, le=4 * 1024 * 1024)]] = 64 * 1024


class SubscribeParams(Wire):
    """Where to begin (`cursor`; without one, now) and what to send.

    `kinds` selects among `event` notifications alone; `run_id` leaves out what belongs to other runs. `caller`: whose
    configuration the watch's announcements are about.
    """

    cursor: Maybe[CursorText] = None
    kinds: Maybe[Items[EventKind]] = None
    run_id: Maybe[NonBlank] = None
    caller: Maybe[CallerParams] = None


class UnsubscribeParams(Wire):
    """The subscription to end; it must be one of this connection's."""

    subscription: NonBlank


class ClientStateParams(Wire):
    """`active_window`: a window of this client is in front, so desktop notifications would repeat what the person sees."""

    active_window: bool


class ShutdownParams(OpenWire):
    """`runs`: with a run active, `refuse` to stop, `leave` it running, or `cancel` it. `reason` is passed on to clients."""

    runs: Defaulted[Literal["refuse", "leave", "cancel"]] = "refuse"
    reason: Defaulted[Literal["stopped", "upgrade"]] = "stopped"


class HeirParams(OpenWire):
    """Where the successor waits to be called: a socket in the user's own folder. `token`: what it will be told then."""

    pid: Annotated[int, Field(gt=1)]
    socket: AbsolutePath
    token: NonBlank


class HandoverParams(OpenWire):
    """Who wants the daemon's place, and what it can read: the formats of both databases, and the way in which runs are recorded.

    `runs`: with a run active, `refuse` to hand over, `leave` the run to the successor, or `cancel` it first.
    """

    version: str
    protocol: VersionRange
    events_schema: Annotated[int, Field(ge=0)]
    runs_schema: Annotated[int, Field(ge=0)]
    record: Annotated[int, Field(ge=0)]
    runs: Defaulted[Literal["refuse", "leave", "cancel"]] = "refuse"
    heir: HeirParams


class CancelParams(Wire):
    """The id of the request to cancel, of the same type and value as it was sent."""

    id: int | float | str | None
