"""The resume decision (contract section 6): what a run does about an interrupted session, and why."""

from __future__ import annotations

from typing import Literal

from cueloop_protocol.base import Maybe, Wire

Status = Literal["resuming_same_session", "falling_back_to_fresh_invocation", "refusing_to_resume"]
"""Closed: an unknown word silently clears the app's card."""

Scope = Literal["run_session", "continue_session"]
"""`run_session`: which task a run takes up. `continue_session`: whether an agent's own conversation is reused."""

Reason = Literal[
    "no_session",
    "session_valid",
    "session_timed_out_confirmed",
    "session_stale",
    "session_declined",
    "resume_confirmation_required",
    "session_timed_out_requires_confirmation",
    "explicit_task_selection_overrides_session",
    "resume_target_missing",
    "resume_target_terminal",
    "runner_session_invalid",
    "missing_runner_session_id",
    "session_cache_corrupt",
]


class Decision(Wire):
    """One decision. `task_id` is absent, never null, where the decision names no task; `message` is one line for people."""

    status: Status
    scope: Scope
    reason: Reason
    task_id: Maybe[str] = None
    message: str
    detail: str
