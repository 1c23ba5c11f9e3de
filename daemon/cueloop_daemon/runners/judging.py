"""What became of an invocation: exit status, stream and standard error → verdict. One table for all runners."""

from __future__ import annotations

import json
import re
import signal as signals

from cueloop_daemon.runners.facts import LIMIT, PASSING, Facts, login_hint
from cueloop_daemon.runners.model import Conversation, Failed, Gone, LoginNeeded, Succeeded, Verdict
from cueloop_daemon.runners.parse import Doc
from cueloop_protocol.values import dataclass

_EXEC = {
    126: "its program could not be executed",
    127: "its program, or the interpreter that it names, was not found",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure that a stream reported in its own fields."""

    text: str = ""
    status: int | None = None
    """The HTTP status of the model's API."""
    kind: str = ""
    """The CLI's or API's own name for it."""
    retryable: bool = False
    is_login: bool = False


_NO_FAULT = Fault()
_ERROR = re.compile(r"\b(?:error|fatal|failed|panic)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the verdict depends on. Texts are of standard error and of the stream's error fields, never a model's."""

    facts: Facts
    exit_code: int | None
    signal: int | None
    lingered: bool
    """Ended by us after its last word: the stream alone counts."""
    stderr: str
    tail: str
    fault: Fault | None
    until: str | None
    has_failed: bool
    has_succeeded: bool
    has_worked: bool
    is_cut: bool
    complaint: str | None
    reported: str | None
    counted: Conversation | None
    """The id of our own that counts unreported."""
    text: str


def judge(seen: Evidence, resumed: Conversation | None) -> Verdict:
    """The verdict. Success needs exit 0 *and* the stream's own word; "gone" is never guessed from an unknown failure."""
    if resumed is not None and (reason := _gone(seen, resumed)) is not None:
        return Gone(reason)
    if seen.signal is not None and not seen.lingered:
        return _failed(seen, f"{seen.facts.id} was ended by {_signal(seen.signal)}")
    if (seen.exit_code == 0 or seen.lingered) and seen.has_succeeded and not seen.has_failed:
        if seen.is_cut:
            return _failed(seen, f"The answer of {seen.facts.id} breaks off after exactly 64 KiB")
        conversation = Conversation(seen.reported) if seen.reported else resumed or seen.counted
        return Succeeded(conversation, seen.text)
    if _wants_login(seen):
        return LoginNeeded(_reason(seen), login_hint(seen.facts.id), seen.tail)
    return _failed(seen, _reason(seen))


def _gone(seen: Evidence, resumed: Conversation) -> str | None:
    facts, fault = seen.facts, seen.fault or _NO_FAULT
    if facts.strays and seen.reported is not None and seen.reported != resumed.id:
        return f"{facts.id} answered in another session ({seen.reported}) than the one that was asked for ({resumed.id})."
    if seen.has_succeeded or seen.has_worked or seen.signal is not None:
        return None
    found = facts.gone.search(fault.kind) or facts.gone.search(fault.text) or facts.gone.search(seen.stderr)
    return f"{facts.id} no longer has the session {resumed.id}: {_line_of(found.string, found.start())}" if found else None


def _wants_login(seen: Evidence) -> bool:
    facts, fault = seen.facts, seen.fault or _NO_FAULT
    if fault.is_login or fault.status == 401 or seen.exit_code in facts.login_exits:
        return True
    return not seen.has_worked and any(facts.wants_login.search(text) for text in (fault.kind, fault.text, seen.stderr))


def _failed(seen: Evidence, reason: str) -> Failed:
    fault = seen.fault or _NO_FAULT
    is_limit = fault.status == 429 or any(LIMIT.search(text) for text in (fault.kind.replace("_", " "), fault.text, seen.tail))
    passing = (
        fault.retryable
        or fault.status in PASSING
        or seen.facts.passing.search(fault.text) is not None
        or seen.exit_code in seen.facts.retry_exits
    )
    return Failed(
        reason=reason if reason.endswith((".", "!", "?")) else f"{reason}.",
        tail=seen.tail,
        retryable=passing,
        limit_until=seen.until if is_limit else None,
        is_limit=is_limit,
        exit_code=seen.exit_code,
        signal=seen.signal,
    )


def _reason(seen: Evidence) -> str:
    name, code = seen.facts.id, seen.exit_code
    if seen.fault is not None or seen.has_failed:
        fault = seen.fault or _NO_FAULT
        status = "" if code in (0, None) else f" (exit code {code})"
        return f"{name} reported a failure{status}: {_in_words(fault.text) or fault.kind or 'it gave no reason'}"
    if seen.complaint is not None:
        return seen.complaint
    if code is None:
        return f"{name} ended, and nobody saw how"
    meaning = seen.facts.exits.get(code, _EXEC.get(code, ""))
    if code == 0:
        return f"{name} ended with exit code 0 but without a result"
    last = f": {_telling_line(seen)}" if seen.tail else ""
    return f"{name} failed with exit code {code}{f' ({meaning})' if meaning else ''}{last}"


def _in_words(text: str) -> str:
    """The text, with an API's error object in it replaced by the sentence that the object holds."""
    start, end = text.find("{"), text.rfind("}") + 1
    try:
        body = Doc(json.loads(text[start:end]) if 0 <= start < end else None)
    except (ValueError, RecursionError):
        return text
    sentence = (body.doc("error").text("message") or body.text("message")).strip()
    return f"{text[:start]}{sentence}{text[end:]}" if sentence else text


def _telling_line(seen: Evidence) -> str:
    """The line of standard error that says most: the first that asks for a login, else the last that names an error, else the last."""
    lines = [line.strip() for line in seen.tail.splitlines() if line.strip()]
    login = next((line for line in lines if seen.facts.wants_login.search(line)), None)
    return (login or next((line for line in reversed(lines) if _ERROR.search(line)), lines[-1]))[:300]


def _line_of(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text[start : end if end >= 0 else len(text)].strip()[:300]


def _signal(number: int) -> str:
    try:
        return f"signal {number} ({signals.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
