"""What may stand in a config file (contract section 4): every key, its kind and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import PurePosixPath

from cueloop_daemon.core.rules import (
    U8,
    U32,
    U64,
    Key,
    Rule,
    RuleError,
    Whole,
    boolean,
    integer,
    items,
    mapping,
    number,
    one_of,
    opaque,
    refused,
    secret,
    table,
    text,
    trimmed,
    words,
)
from cueloop_protocol.documents.session import runner_name

BINARIES = ("codex_bin", "opencode_bin", "gemini_bin", "claude_bin", "cursor_sdk_node_bin", "kimi_bin", "pi_bin")
RESERVED_PROFILES = ("safe", "power-user")

WEBHOOK_EVENTS = (
    "task_created",
    "task_started",
    "task_completed",
    "task_failed",
    "task_status_changed",
    "loop_started",
    "loop_stopped",
    "phase_started",
    "phase_completed",
    "queue_unblocked",
    "*",
)
NEVER_COPIED = (
    "target/",
    "node_modules/",
    ".venv/",
    ".cueloop/cache/",
    ".cueloop/workspaces/",
    ".cueloop/logs/",
    ".cueloop/lock/",
    "__pycache__/",
    ".ruff_cache/",
    ".pytest_cache/",
    ".ty_cache/",
    ".git/",
)
"""Folders from which no ignored file is copied into a worker's workspace."""

_DAYS = integer(0, U32)
_EFFORT = one_of("low", "medium", "high", "xhigh")
_SWITCH = one_of("default", "enabled", "disabled")


def runner(value: object, key: Key) -> object:
    """A built-in runner in any case, or a plugin's id as it is."""
    return runner_name(str(words(value, key)))


def aging_thresholds(value: object, key: Key) -> object:
    """Days that rise strictly where they are given. Replaced whole: what is left out is unset, not inherited."""
    names = ("warning_days", "stale_days", "rotten_days")
    found = table(dict.fromkeys(names, _DAYS))(value, key)
    assert isinstance(found, dict)
    days = [found[name] for name in names if name in found]
    if any(late <= early for early, late in pairwise(days)):
        raise refused(found, key, "warning_days < stale_days < rotten_days")
    return Whole({name: found.get(name) for name in names})


def workspace_root(value: object, key: Key) -> object:
    """A path without `..`."""
    if ".." in PurePosixPath(str(words(value, key))).parts:
        raise refused(value, key, "a path without '..'")
    return value


def allowed_file(value: object, key: Key) -> object:
    """A file or file pattern inside the repository, outside the folders that are never copied."""
    found = str(trimmed(value, key)).removeprefix("./").replace("\\", "/")
    parts = found.split("/")
    if not found or found.startswith("/") or (found[1:3] == ":/" and found[0].isalpha()) or ".." in parts or "." in parts:
        raise refused(value, key, "a path relative to the repository without '.' and '..'")
    if found.endswith("/"):
        raise refused(value, key, "a file or a pattern for files, not a folder")
    if denied := next((folder for folder in NEVER_COPIED if folder in found), None):
        raise refused(value, key, f"nothing under {denied}")
    return value


def profile_name(value: object, key: Key) -> object:
    """A name that is not one of the built-in profiles'."""
    if value in RESERVED_PROFILES:
        raise RuleError((*key, str(value)), "is the name of a built-in profile", f"any name but {', '.join(RESERVED_PROFILES)}")
    return words(value, key)


def cursor_parameter(value: object, key: Key) -> object:
    """What the Cursor SDK takes as a parameter."""
    if isinstance(value, str | bool):
        return value
    raise refused(value, key, "a text, true or false")


_CURSOR = table(
    {
        "model_params": mapping(cursor_parameter),
        "setting_sources": items(one_of("project", "user", "team", "mdm", "plugins", "all")),
    }
)
_RUNNER_OPTIONS = table(
    {
        "output_format": one_of("stream_json", "json", "text"),
        "verbosity": one_of("quiet", "normal", "verbose"),
        "approval_mode": one_of("default", "auto_edits", "yolo", "safe"),
        "sandbox": _SWITCH,
        "plan_mode": _SWITCH,
        "unsupported_option_policy": one_of("ignore", "warn", "error"),
    }
)
_PHASE = table({"runner": runner, "model": trimmed, "reasoning_effort": _EFFORT, "cursor": _CURSOR})
_WEBHOOK = table(
    {
        "enabled": boolean,
        "url": text,
        "allow_insecure_http": boolean,
        "allow_private_targets": boolean,
        "secret": secret,
        "events": items(one_of(*WEBHOOK_EVENTS)),
        "timeout_secs": integer(1, 300),
        "retry_count": integer(0, 10),
        "retry_backoff_ms": integer(100, 30_000),
        "queue_capacity": integer(10, 10_000),
        "parallel_queue_multiplier": number(1, 10),
        "queue_policy": one_of("drop_oldest", "drop_new", "block_with_timeout"),
    }
)
_NOTIFICATION = table(
    {
        "enabled": boolean,
        "notify_on_complete": boolean,
        "notify_on_fail": boolean,
        "notify_on_loop_complete": boolean,
        "notify_on_watch_new_tasks": boolean,
        "suppress_when_active": boolean,
        "sound_enabled": boolean,
        "sound_path": text,
        "timeout_ms": integer(0, U32),
    }
)
_RUNNER_RETRY = table(
    {
        "max_attempts": integer(0, U32),
        "base_backoff_ms": integer(0, U32),
        "multiplier": number(),
        "max_backoff_ms": integer(0, U32),
        "jitter_ratio": number(),
    }
)

AGENT_FIELDS: Mapping[str, Rule] = {
    "runner": runner,
    "model": trimmed,
    "reasoning_effort": _EFFORT,
    "iterations": integer(1, U8),
    "followup_reasoning_effort": _EFFORT,
    **dict.fromkeys(BINARIES, words),
    "cursor": _CURSOR,
    "claude_permission_mode": one_of("accept_edits", "bypass_permissions"),
    "runner_cli": table({"defaults": _RUNNER_OPTIONS, "runners": mapping(_RUNNER_OPTIONS, runner)}),
    "phase_overrides": table({"phase1": _PHASE, "phase2": _PHASE, "phase3": _PHASE}),
    "instruction_files": items(words),
    "repoprompt_plan_required": boolean,
    "repoprompt_tool_injection": boolean,
    "ci_gate": table({"enabled": boolean, "argv": items(text)}),
    "git_revert_mode": one_of("ask", "enabled", "disabled"),
    "git_publish_mode": one_of("off", "commit", "commit_and_push"),
    "phases": integer(1, 3),
    "notification": _NOTIFICATION,
    "webhook": _WEBHOOK,
    "session_timeout_hours": integer(1, U64),
    "scan_prompt_version": one_of("v1", "v2"),
    "runner_retry": _RUNNER_RETRY,
}
# An old name of a setting that is gone: it may stand in a file and means nothing.
AGENT = table(AGENT_FIELDS, ignored={"cursor_bin": text})

QUEUE_FIELDS: Mapping[str, Rule] = {
    "file": words,
    "done_file": words,
    "id_prefix": words,
    "id_width": integer(1, U8),
    "size_warning_threshold_kb": integer(100, 10_000),
    "task_count_warning_threshold": integer(50, 5000),
    "max_dependency_depth": integer(1, 100),
    "auto_archive_terminal_after_days": integer(0, 3650),
    "aging_thresholds": aging_thresholds,
}
PARALLEL_FIELDS: Mapping[str, Rule] = {
    "workers": integer(2, U8),
    "workspace_root": workspace_root,
    "max_push_attempts": integer(0, U8),
    "push_backoff_ms": items(integer(0, U64)),
    "workspace_retention_hours": integer(0, U32),
    "ignored_file_allowlist": items(allowed_file),
}
LOOP_FIELDS: Mapping[str, Rule] = {
    "wait_when_empty": boolean,
    "empty_poll_ms": integer(0, U64),
    "wait_when_blocked": boolean,
    "wait_poll_ms": integer(0, U64),
    "wait_timeout_seconds": integer(0, U64),
    "notify_when_unblocked": boolean,
}
CONFIG_FIELDS: Mapping[str, Rule] = {
    "version": integer(2, 2),
    "project_type": one_of("code", "docs"),
    "queue": table(QUEUE_FIELDS),
    "agent": AGENT,
    "parallel": table(PARALLEL_FIELDS),
    "loop": table(LOOP_FIELDS),
    "plugins": table({"plugins": mapping(table({"enabled": boolean, "config": opaque}))}),
    "profiles": mapping(AGENT, profile_name),
}
CONFIG: Rule = table(CONFIG_FIELDS, ignored={"$schema": text})
