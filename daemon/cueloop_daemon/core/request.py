"""What is asked of the decision: how a run is to start, and what a person answered."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.params import RunRequest, RunStartParams
from cueloop_protocol.shapes import Choice as Choice
from cueloop_protocol.shapes import Mode
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person chose for the very session file that `etag` names; for another file it is void."""

    choice: Choice
    etag: str


@dataclass(frozen=True, slots=True)
class UnderLock:
    """The decision is taken again under the queue lock, by the run that is then itself the active one.

    `resuming` is the task that the first decision resumed, None if it resumed none.
    """

    resuming: str | None


@dataclass(frozen=True, slots=True)
class Request:
    """One start, wished for or only previewed. The default is what `config.resolve` previews.

    `resume` is `--resume`. `fresh` is the answer "start fresh" given beforehand, for whatever file there is.
    `task_id` is a task that was asked for by name, `include_draft` whether a draft may be run. `announce_missing` says
    that a missing session is worth a decision, `can_ask` that somebody is there to answer.
    """

    mode: Mode = "one"
    resume: bool = True
    fresh: bool = False
    task_id: str | None = None
    include_draft: bool = False
    announce_missing: bool = False
    can_ask: bool = False
    answer: Answer | None = None
    under_lock: UnderLock | None = None


PREVIEW: Final = Request()
"""What is previewed and announced without a run (design section 5)."""


def run_request(
    mode: Mode,
    *,
    resume: bool = False,
    fresh: bool = False,
    task_id: str | None = None,
    include_draft: bool = False,
    can_ask: bool = False,
    answer: Answer | None = None,
) -> Request:
    """The request of a run that starts: `run resume` is `run loop --resume`, and `--resume` announces a missing session."""
    resumes = resume or mode == "resume"
    return Request(mode, resumes, fresh, task_id, include_draft, announce_missing=resumes, can_ask=can_ask, answer=answer)


def request_of(asked: RunRequest) -> Request:
    """The request of a run that is asked for over the wire. Drafts count where its settings say so; a preview has none."""
    answer = None if asked.answer is None else Answer(asked.answer.choice, asked.answer.session_etag)
    return run_request(
        asked.mode,
        resume=asked.resume,
        fresh=asked.fresh,
        task_id=asked.task_id,
        include_draft=isinstance(asked, RunStartParams) and asked.overrides.include_draft,
        can_ask=asked.interactive,
        answer=answer,
    )


def again_under_lock(request: Request, first: Decision | None) -> Request:
    """The same request once the queue lock is held: nobody is there to ask any more (design section 6, "Task")."""
    resumed = first is not None and first.status == "resuming_same_session"
    return replace(request, can_ask=False, under_lock=UnderLock(first.task_id if first is not None and resumed else None))
