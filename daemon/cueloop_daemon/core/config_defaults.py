"""The lowest layer of the configuration: what holds where no file says anything (contract section 4)."""

from __future__ import annotations

from collections.abc import Mapping

from cueloop_daemon.core.rules import Whole

DEFAULTS: Mapping[str, object] = {
    "version": 2,
    "project_type": "code",
    "queue": {
        "file": ".cueloop/queue.jsonc",
        "done_file": ".cueloop/done.jsonc",
        "id_prefix": "RQ",
        "id_width": 4,
        "size_warning_threshold_kb": 500,
        "task_count_warning_threshold": 500,
        "max_dependency_depth": 10,
        "aging_thresholds": Whole({"warning_days": 7, "stale_days": 14, "rotten_days": 30}),
    },
    "agent": {
        "runner": "pi",
        "model": "openai-codex/gpt-5.4",
        "reasoning_effort": "medium",
        "iterations": 1,
        "codex_bin": "codex",
        "opencode_bin": "opencode",
        "gemini_bin": "gemini",
        "claude_bin": "claude",
        "cursor_sdk_node_bin": "node",
        "kimi_bin": "kimi",
        "pi_bin": "pi",
        "claude_permission_mode": "accept_edits",
        "runner_cli": {
            "defaults": {
                "output_format": "stream_json",
                "verbosity": "normal",
                "approval_mode": "default",
                "sandbox": "default",
                "plan_mode": "default",
                "unsupported_option_policy": "warn",
            },
            "runners": {"codex": {"sandbox": "disabled"}, "claude": {"verbosity": "verbose"}},
        },
        "phase_overrides": {
            "phase1": {"model": "openai-codex/gpt-5.5", "reasoning_effort": "medium"},
            "phase2": {"model": "openai-codex/gpt-5.4", "reasoning_effort": "medium"},
            "phase3": {"model": "openai-codex/gpt-5.5", "reasoning_effort": "medium"},
        },
        "repoprompt_plan_required": False,
        "repoprompt_tool_injection": False,
        "ci_gate": {"enabled": False, "argv": ["make", "ci"]},
        "git_revert_mode": "ask",
        "git_publish_mode": "off",
        "phases": 3,
        "notification": {
            "enabled": True,
            "notify_on_complete": True,
            "notify_on_fail": True,
            "notify_on_loop_complete": True,
            "notify_on_watch_new_tasks": True,
            "suppress_when_active": True,
            "sound_enabled": False,
            "timeout_ms": 8000,
        },
        "webhook": {},
        "session_timeout_hours": 24,
        "scan_prompt_version": "v2",
        "runner_retry": {},
    },
    "parallel": {
        "max_push_attempts": 50,
        "push_backoff_ms": [500, 2000, 5000, 10000],
        "workspace_retention_hours": 24,
    },
    "loop": {
        "wait_when_empty": False,
        "empty_poll_ms": 30000,
        "wait_when_blocked": False,
        "wait_poll_ms": 1000,
        "wait_timeout_seconds": 0,
        "notify_when_unblocked": False,
    },
    "plugins": {"plugins": {}},
}
