"""The error document, version 1, and the `data` of an RPC error that carries it (contract section 7; design section 4)."""

from __future__ import annotations

from typing import Literal

from cueloop_protocol.base import Exactly, Items, JsonObject, Maybe, Wire
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.shapes import Choice

ErrorCode = Literal[
    "cli_unavailable",
    "permission_denied",
    "config_incompatible",
    "parse_error",
    "network_error",
    "queue_corrupted",
    "resource_busy",
    "version_mismatch",
    "task_mutation_conflict",
    "unknown",
]
"""Closed; `cueloop_protocol.codes.DOCUMENT_CODES` for those who cannot load pydantic."""


class ErrorDocument(Wire):
    """Why a command failed. `message` is one sentence for people, `detail` what more there is to say."""

    version: Exactly[Literal[1]] = 1
    code: ErrorCode
    message: str
    detail: Maybe[str] = None
    retryable: bool


class Problem(Wire):
    """One thing wrong with the params: where (`answer.choice`; empty for the whole) and what."""

    path: str
    message: str


class ErrorData(Wire):
    """`error.data` of every error response. `name` and `error` are always there; the rest depends on the error code."""

    name: str
    error: ErrorDocument
    problems: Maybe[Items[Problem]] = None
    run_id: Maybe[str] = None
    decision: Maybe[Decision] = None
    session_etag: Maybe[str] = None
    choices: Maybe[Items[Choice]] = None
    session: Maybe[JsonObject] = None
    versions: Maybe[JsonObject] = None
