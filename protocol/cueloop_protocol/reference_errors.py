"""When each error is answered, in words for the reference."""

from __future__ import annotations

from collections.abc import Mapping

from cueloop_protocol import codes

WHEN: Mapping[int, str] = {
    codes.PARSE_ERROR: "the frame is no JSON; the connection goes on, unless frames cannot be told apart any more",
    codes.INVALID_REQUEST: "the JSON is no request, or a key is there twice",
    codes.METHOD_NOT_FOUND: "there is no such method, or not yet",
    codes.INVALID_PARAMS: "a param is missing, surplus or of the wrong type; `problems` has the paths",
    codes.INTERNAL_ERROR: "the daemon is at fault; its log says how",
    codes.CANCELLED: "the client withdrew the request",
    codes.DOCUMENT_UNUSABLE: "config, trust, queue or session cannot be used; `error` says which and why",
    codes.CONFIRMATION_REQUIRED: "a person must decide; nothing has happened. Ask, and call again with `answer`",
    codes.CONFIRMATION_STALE: "the session changed after the question was asked; nothing has happened",
    codes.RUN_ACTIVE: "a run is under way; `run_id` names it",
    codes.NO_SUCH_RUN: "no run has this id, or it is no longer kept",
    codes.VERSION_MISMATCH: "no common version; `versions` has both sides, `detail` the command that settles it",
    codes.SHUTTING_DOWN: "the daemon is draining; nothing was done",
    codes.CONFLICT: "an etag is not the file's any more, or somebody else wrote in between",
    codes.LOCK_HELD: "another tool runs and holds the queue lock",
    codes.LIMIT_EXCEEDED: "too many connections, too large a frame, or too long a silence; the connection closes",
    codes.RUNNER_UNAVAILABLE: "the agent's program cannot be started",
    codes.NOT_WRITABLE: "no access or a read-only file system; with a full one the document says `unknown`",
}
"""Error code → the end of a sentence."""
