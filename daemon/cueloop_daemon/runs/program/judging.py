"""What became of an invocation: the verdict of its stream and how its process ended, as the program goes on from it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.core.runs.repeat import Seen, Verdict
from cueloop_daemon.runners import Conversation, Failed, Gone, LoginNeeded, Reader, Succeeded
from cueloop_daemon.runs.program.scene import conversation_json
from cueloop_daemon.runs.types import Exited

LIMITS = {"idle": "said nothing for too long", "wall": "took too long"}
"""Causes of limits of ours, in words."""


class Result(BaseModel):
    """What became of an invocation. `conversation` is JSON of what may be continued."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    verdict: Verdict
    reason: str = ""
    conversation: str | None = None
    text: str = ""
    tail: str = ""
    hint: str | None = None
    retryable: bool = False
    is_limit: bool = False
    limit_until: str | None = None
    exit_code: int | None = None

    def seen(self, *, was_continued: bool) -> Seen:
        """What decides about the next move."""
        return Seen(self.verdict, was_continued, self.retryable, self.is_limit)


RESULT: TypeAdapter[Result] = TypeAdapter(Result)


def judged(runner: str, reader: Reader, ended: Exited, *, chosen: Conversation | None, resumed: Conversation | None) -> Result:
    """The result of an invocation whose output `reader` has read to its end. `chosen` and `resumed` are what it was started with."""
    verdict = reader.verdict(ended.code, ended.signal, resumed=resumed, chosen=chosen, lingered=ended.cause == "leave")
    by_itself = ended.cause == "leave" or (ended.cause == "self" and ended.signal is None)
    match verdict:
        case Succeeded(conversation=conversation, text=text):
            kept = None if conversation is None else conversation_json(conversation)
            return Result(verdict="succeeded", text=text, conversation=kept)
        case Gone(reason=reason):
            return Result(verdict="gone", reason=reason)
        case _ if not by_itself:
            return _interrupted(runner, reader, ended, verdict.reason, reader.interrupted(chosen=chosen) or resumed)
        case LoginNeeded(reason=reason, hint=hint, tail=tail):
            return Result(verdict="login", reason=reason, hint=hint, tail=tail)
        case Failed():
            return Result(
                verdict="failed",
                reason=verdict.reason,
                tail=verdict.tail,
                text=reader.final_text,
                retryable=verdict.retryable,
                is_limit=verdict.is_limit,
                limit_until=verdict.limit_until,
                exit_code=ended.code,
            )


def _interrupted(runner: str, reader: Reader, ended: Exited, reason: str, kept: Conversation | None) -> Result:
    conversation = None if kept is None else conversation_json(kept)
    match ended.cause:
        case "idle" | "wall":
            said, verdict = f"{runner} {LIMITS[ended.cause]} and was ended.", "idle" if ended.cause == "idle" else "overrun"
        case "self":
            said, verdict = reason, "killed"
        case _:
            said, verdict = f"{runner} was ended with the run.", "stopped"
    return Result.model_validate(
        {"verdict": verdict, "reason": said, "conversation": conversation, "text": reader.final_text, "exit_code": ended.code}
    )
