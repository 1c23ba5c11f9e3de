"""Error documents as plain JSON: their closed list of codes, made and read. Standard library only."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, whose import would cost the command line two milliseconds
if TYPE_CHECKING:
    from typing import Any

DOCUMENT_CODES = (
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
)
"""The closed list of an error document's `code`."""


def is_retryable(word: str) -> bool:
    """Whether the same request may succeed later without anybody doing anything: only while something is busy."""
    return word == "resource_busy"


def error_document(word: str, message: str, detail: str | None = None) -> dict[str, Any]:
    """An error document, version 1. ValueError if `word` is not in the closed list."""
    if word not in DOCUMENT_CODES:
        raise ValueError(f"{word!r} is no error document code")
    document: dict[str, Any] = {"version": 1, "code": word, "message": message}
    if detail is not None:
        document["detail"] = detail
    document["retryable"] = is_retryable(word)
    return document


def read_document(value: object) -> dict[str, Any] | None:
    """A peer's error document without what this version does not know; None if it is none."""
    if not isinstance(value, dict):
        return None
    word, message, detail = value.get("code"), value.get("message"), value.get("detail", "")
    if word not in DOCUMENT_CODES or not isinstance(message, str) or not isinstance(detail, str):
        return None
    return error_document(word, message, detail if "detail" in value else None)
