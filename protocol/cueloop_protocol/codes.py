"""Error codes of the socket and of error documents, and the error that carries them. Standard library only.

Two families meet here. An RPC error has a number (JSON-RPC 2.0, and ours from -32001 to -32012) and tells a program what
happened. An error document (version 1) has a word from a closed list, which CueLoopMac decodes; it stands in the RPC error's
`data.error` and is what `cueloop machine …` prints. The word is chosen by the type of the error, never by searching its text.
"""

from __future__ import annotations

from cueloop_protocol.error_words import DOCUMENT_CODES as DOCUMENT_CODES
from cueloop_protocol.error_words import error_document as error_document
from cueloop_protocol.error_words import is_retryable as is_retryable
from cueloop_protocol.error_words import read_document

TYPE_CHECKING = False  # as in `typing`, whose import would cost the command line two milliseconds
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CANCELLED = -32800

DOCUMENT_UNUSABLE = -32001
CONFIRMATION_REQUIRED = -32002
CONFIRMATION_STALE = -32003
RUN_ACTIVE = -32004
NO_SUCH_RUN = -32005
VERSION_MISMATCH = -32006
SHUTTING_DOWN = -32007
CONFLICT = -32008
LOCK_HELD = -32009
LIMIT_EXCEEDED = -32010
RUNNER_UNAVAILABLE = -32011
NOT_WRITABLE = -32012

NAMES: Mapping[int, str] = {
    PARSE_ERROR: "parse_error",
    INVALID_REQUEST: "invalid_request",
    METHOD_NOT_FOUND: "method_not_found",
    INVALID_PARAMS: "invalid_params",
    INTERNAL_ERROR: "internal_error",
    CANCELLED: "cancelled",
    DOCUMENT_UNUSABLE: "document_unusable",
    CONFIRMATION_REQUIRED: "confirmation_required",
    CONFIRMATION_STALE: "confirmation_stale",
    RUN_ACTIVE: "run_active",
    NO_SUCH_RUN: "no_such_run",
    VERSION_MISMATCH: "version_mismatch",
    SHUTTING_DOWN: "shutting_down",
    CONFLICT: "conflict",
    LOCK_HELD: "lock_held",
    LIMIT_EXCEEDED: "limit_exceeded",
    RUNNER_UNAVAILABLE: "runner_unavailable",
    NOT_WRITABLE: "not_writable",
}
"""Every code that this protocol sends → `data.name`."""

_DOCUMENT_CODE_OF: Mapping[int, str] = {
    CONFIRMATION_STALE: "task_mutation_conflict",
    RUN_ACTIVE: "resource_busy",
    VERSION_MISMATCH: "version_mismatch",
    CONFLICT: "task_mutation_conflict",
    LOCK_HELD: "resource_busy",
    RUNNER_UNAVAILABLE: "cli_unavailable",
    NOT_WRITABLE: "permission_denied",
    INVALID_PARAMS: "parse_error",
}


def document_code(code: int) -> str:
    """The word for an RPC error that names none itself. `document_unusable` always names one, since it depends on the file."""
    return _DOCUMENT_CODE_OF.get(code, "unknown")


class RpcError(Exception):
    """An answer that is an error. Its message and data are fit for strangers: no traceback, no path they did not name.

    `data` always has `name` and `error` (the error document); what else it has depends on the code. Use the constructors below
    the class: they say which.
    """

    def __init__(self, code: int, message: str, *, word: str | None = None, detail: str | None = None, **extra: Any) -> None:
        """`word`: the error document's code, where the number alone does not decide. `extra`: more `data`; None is left out."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.data: dict[str, Any] = {
            "name": NAMES.get(code, "unknown"),
            "error": error_document(word or document_code(code), message, detail),
            **{key: value for key, value in extra.items() if value is not None},
        }

    @property
    def name(self) -> str:
        """The code's name, as in `data.name`."""
        return str(self.data["name"])

    @property
    def document(self) -> dict[str, Any]:
        """The error document that `cueloop machine …` prints for this error."""
        document: dict[str, Any] = self.data["error"]
        return document

    def to_wire(self) -> dict[str, Any]:
        """The `error` member of a JSON-RPC response."""
        return {"code": self.code, "message": self.message, "data": self.data}

    @classmethod
    def from_wire(cls, error: object) -> RpcError:
        """Read a response's `error` member. What is missing or malformed is filled in, so that a client always has a document."""
        members = error if isinstance(error, dict) else {}
        code = members.get("code")
        message = members.get("message")
        made = cls(
            code if type(code) is int else INTERNAL_ERROR,
            message if isinstance(message, str) else "The daemon sent an error without a message.",
        )
        data = members.get("data")
        if isinstance(data, dict):
            made.data.update({key: value for key, value in data.items() if key not in ("name", "error")})
            if isinstance(data.get("name"), str):
                made.data["name"] = data["name"]
            made.data["error"] = read_document(data.get("error")) or made.data["error"]
        return made


def parse_error(reason: str) -> RpcError:
    """The frame is no JSON text; `reason` says where it stops being one."""
    return RpcError(PARSE_ERROR, "Parse error", detail=reason)


def invalid_request(reason: str) -> RpcError:
    """The JSON is no JSON-RPC 2.0 request; `reason` names the member."""
    return RpcError(INVALID_REQUEST, "Invalid request", detail=reason)


def method_not_found(method: str) -> RpcError:
    """There is no such method."""
    return RpcError(METHOD_NOT_FOUND, "Method not found", detail=f"There is no method {method[:100]!r}. rpc.discover lists them.")


def invalid_params(found: Sequence[Mapping[str, str]]) -> RpcError:
    """`found`: `[{"path", "message"}]`, kept as `data.problems`; the first one is also the detail for people."""
    first = found[0] if found else {"path": "", "message": "params do not fit the method"}
    detail = f"{first['path'] or 'params'}: {first['message']}"
    return RpcError(INVALID_PARAMS, "Invalid params", detail=detail, problems=[dict(problem) for problem in found])


def internal_error() -> RpcError:
    """Something in the daemon is broken. What it was is in the log, not here."""
    return RpcError(INTERNAL_ERROR, "Internal error", detail="The daemon's log has the details.")


def cancelled() -> RpcError:
    """The caller withdrew the request."""
    return RpcError(CANCELLED, "The request was cancelled.")


def document_unusable(word: str, message: str, detail: str | None = None) -> RpcError:
    """Config, trust, queue or session cannot be used; `word` says which (`config_incompatible`, `queue_corrupted`, …)."""
    return RpcError(DOCUMENT_UNUSABLE, message, word=word, detail=detail)


def confirmation_required(
    decision: Mapping[str, Any], session_etag: str, choices: Sequence[str], session: Mapping[str, Any] | None = None
) -> RpcError:
    """A person must decide; nothing has happened. The decision's own message and detail are the error's.

    `session` is what the person is shown (task, age, phase, …), where there is a session that can be read.
    """
    return RpcError(
        CONFIRMATION_REQUIRED,
        str(decision["message"]),
        detail=str(decision["detail"]),
        decision=dict(decision),
        session_etag=session_etag,
        choices=list(choices),
        session=None if session is None else dict(session),
    )


def confirmation_stale(session_etag: str | None, decision: Mapping[str, Any] | None = None) -> RpcError:
    """The answer was given for a session file that has changed since; `session_etag` is the file's now."""
    return RpcError(
        CONFIRMATION_STALE,
        "The session changed after the question was asked.",
        detail="Nothing was done. Look at the session again and answer for what it is now.",
        session_etag=session_etag,
        decision=None if decision is None else dict(decision),
    )


def run_active(run_id: str, *, stays: bool = False) -> RpcError:
    """A run is under way in this repository. `stays`: it is the daemon that was asked to go, not another run to begin."""
    if stays:
        choices = (
            "Say --leave-runs (it goes on by itself) or --cancel-runs; `cueloop daemon restart --when-idle` waits for its end."
        )
    else:
        choices = "One run at a time: end it first, by `cueloop run stop` (after its task) or `cueloop run cancel` (now)."
    return RpcError(RUN_ACTIVE, f"Run {run_id} is active in this repository.", detail=choices, run_id=run_id)


def no_such_run(run_id: str) -> RpcError:
    """No run has this id, or it is no longer kept."""
    return RpcError(NO_SUCH_RUN, f"There is no run {run_id[:100]!r}.", run_id=run_id[:100])


def version_mismatch(message: str, versions: Mapping[str, Any], remedy: str) -> RpcError:
    """No common protocol or document version. `versions` has both sides, `remedy` the one command that fixes it."""
    return RpcError(VERSION_MISMATCH, message, detail=remedy, versions=dict(versions))


def shutting_down(reason: str | None = None, process: Mapping[str, Any] | None = None) -> RpcError:
    """The daemon is draining. `process` (pid, start_time, boot_id) is who may be waited for, unless `reason` is `replaced`: then a
    successor has its socket already.
    """
    return RpcError(
        SHUTTING_DOWN, "The daemon is shutting down; nothing was done.", reason=reason, process=dict(process or {}) or None
    )


def conflict(message: str, *, detail: str | None = None, session_etag: str | None = None) -> RpcError:
    """An etag is not the file's any more, or somebody else wrote in between."""
    return RpcError(CONFLICT, message, detail=detail, session_etag=session_etag)


def lock_held(label: str | None, pid: int | None, started_at: str | None) -> RpcError:
    """Another tool holds the queue lock while it runs; CueLoopMac looks for the words "queue lock"."""
    holder = f"{label or 'another tool'}, pid {pid if pid is not None else 'unknown'}, since {started_at or 'an unknown time'}"
    return RpcError(
        LOCK_HELD, f"The queue lock is held by {holder}.", detail="Wait until it is done, or end it where it was started."
    )


def limit_exceeded(message: str, detail: str | None = None) -> RpcError:
    """A limit on connections, frame size or time to the first request; the connection closes after this."""
    return RpcError(LIMIT_EXCEEDED, message, detail=detail)


def runner_unavailable(message: str, detail: str | None = None) -> RpcError:
    """The agent's program cannot be started; the detail says where it was looked for and how to install it."""
    return RpcError(RUNNER_UNAVAILABLE, message, detail=detail)


def not_writable(message: str, detail: str | None = None, *, full: bool = False) -> RpcError:
    """No access or a read-only file system (`permission_denied`), or a full one (`full`: `unknown`)."""
    return RpcError(NOT_WRITABLE, message, word="unknown" if full else None, detail=detail)
