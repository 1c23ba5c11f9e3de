"""The resolved configuration (contract section 4), as documents print it: whole, in this order, what is not set as `null`.

These are the shapes alone. What a person may write into a file, and what is then filled in, is decided where files are read.
A `Maybe` field is left out of the document while it is not set; every other one is always printed.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, PlainSerializer, SecretStr

from cueloop_protocol.base import Items, Maybe, Wire

REDACTED = "[REDACTED]"


def _redacted(_: SecretStr) -> str:
    return REDACTED


Secret = Annotated[SecretStr, PlainSerializer(_redacted, return_type=str)]
"""A secret that no dump, log or traceback shows; `get_secret_value()` is the only way to it."""

Effort = Literal["low", "medium", "high", "xhigh"]
OutputFormat = Literal["stream_json", "json", "text"]
Verbosity = Literal["quiet", "normal", "verbose"]
ApprovalMode = Literal["default", "auto_edits", "yolo", "safe"]
Switch = Literal["default", "enabled", "disabled"]
OptionPolicy = Literal["ignore", "warn", "error"]
PermissionMode = Literal["accept_edits", "bypass_permissions"]
RevertMode = Literal["ask", "enabled", "disabled"]
PublishMode = Literal["off", "commit", "commit_and_push"]
SettingSource = Literal["project", "user", "team", "mdm", "plugins", "all"]
QueuePolicy = Literal["drop_oldest", "drop_new", "block_with_timeout"]


class AgingThresholds(Wire):
    """Days after which a task counts as old; replaced whole, so what a file leaves out is null."""

    warning_days: int | None
    stale_days: int | None
    rotten_days: int | None


class Queue(Wire):
    """Where the queue is and what is usual in it."""

    file: str
    done_file: str
    id_prefix: str
    id_width: int
    size_warning_threshold_kb: int
    task_count_warning_threshold: int
    max_dependency_depth: int
    auto_archive_terminal_after_days: int | None
    aging_thresholds: AgingThresholds


class Cursor(Wire):
    """Settings of the Cursor SDK runner."""

    model_params: Maybe[dict[str, str | bool]] = None
    setting_sources: Maybe[Items[SettingSource]] = None


class RunnerOptions(Wire):
    """How a runner is called; null: as the defaults say."""

    output_format: OutputFormat | None
    verbosity: Verbosity | None
    approval_mode: ApprovalMode | None
    sandbox: Switch | None
    plan_mode: Switch | None
    unsupported_option_policy: OptionPolicy | None


class RunnerCli(Wire):
    """Options for all runners, and what single runners differ in: built-in ones first, in a fixed order, then plugin ids."""

    defaults: RunnerOptions
    runners: dict[str, RunnerOptions]


class PhaseOverride(Wire):
    """What one phase does differently from `agent`."""

    runner: Maybe[str] = None
    model: Maybe[str] = None
    reasoning_effort: Maybe[Effort] = None
    cursor: Maybe[Cursor] = None


class PhaseOverrides(Wire):
    """The phases that differ."""

    phase1: Maybe[PhaseOverride] = None
    phase2: Maybe[PhaseOverride] = None
    phase3: Maybe[PhaseOverride] = None


class CiGate(Wire):
    """The command that must succeed before a task counts as done."""

    enabled: bool
    argv: Items[str]


class Notification(Wire):
    """Desktop notifications."""

    enabled: bool
    notify_on_complete: bool
    notify_on_fail: bool
    notify_on_loop_complete: bool
    notify_on_watch_new_tasks: bool
    suppress_when_active: bool
    sound_enabled: bool
    sound_path: str | None
    timeout_ms: int


class Webhook(Wire):
    """HTTP notifications."""

    enabled: bool | None
    url: str | None
    allow_insecure_http: bool | None
    allow_private_targets: bool | None
    secret: Secret | None
    events: Items[str] | None
    timeout_secs: int | None
    retry_count: int | None
    retry_backoff_ms: int | None
    queue_capacity: int | None
    parallel_queue_multiplier: float | None
    queue_policy: QueuePolicy | None


class RunnerRetry(Wire):
    """How a failed start of a runner is repeated; null acts as 3, 1000, 2.0, 30000 and 0.2."""

    max_attempts: int | None
    base_backoff_ms: int | None
    multiplier: float | None
    max_backoff_ms: int | None
    jitter_ratio: float | None


class Agent(Wire):
    """How agents are run."""

    runner: str
    model: str
    reasoning_effort: Effort
    iterations: int
    followup_reasoning_effort: Effort | None
    codex_bin: str
    opencode_bin: str
    gemini_bin: str
    claude_bin: str
    cursor_sdk_node_bin: str
    cursor: Cursor | None
    kimi_bin: str
    pi_bin: str
    claude_permission_mode: PermissionMode
    runner_cli: RunnerCli
    phase_overrides: PhaseOverrides
    instruction_files: Items[str] | None
    repoprompt_plan_required: bool
    repoprompt_tool_injection: bool
    ci_gate: CiGate
    git_revert_mode: RevertMode
    git_publish_mode: PublishMode
    phases: int
    notification: Notification
    webhook: Webhook
    session_timeout_hours: int
    scan_prompt_version: Literal["v1", "v2"]
    runner_retry: RunnerRetry


class Parallel(Wire):
    """Several workers at once."""

    workers: int | None
    workspace_root: str | None
    max_push_attempts: int
    push_backoff_ms: Items[int]
    workspace_retention_hours: int
    ignored_file_allowlist: Items[str] | None


class Loop(Wire):
    """What a loop does when there is nothing to run."""

    wait_when_empty: bool
    empty_poll_ms: int
    wait_when_blocked: bool
    wait_poll_ms: int
    wait_timeout_seconds: int
    notify_when_unblocked: bool


class PluginSetting(Wire):
    """One plugin: whether it may be used, and what is handed to it unread."""

    enabled: bool | None
    config: JsonValue


class Plugins(Wire):
    """Settings by plugin id, in the order of the ids."""

    plugins: dict[str, PluginSetting]


class CiGatePatch(Wire):
    """What a profile sets of `CiGate`."""

    enabled: bool | None
    argv: Items[str] | None


class NotificationPatch(Wire):
    """What a profile sets of `Notification`."""

    enabled: bool | None
    notify_on_complete: bool | None
    notify_on_fail: bool | None
    notify_on_loop_complete: bool | None
    notify_on_watch_new_tasks: bool | None
    suppress_when_active: bool | None
    sound_enabled: bool | None
    sound_path: str | None
    timeout_ms: int | None


class AgentPatch(Wire):
    """What a profile sets of `Agent`; null: left as it is. The fields are the same, in the same order."""

    runner: str | None
    model: str | None
    reasoning_effort: Effort | None
    iterations: int | None
    followup_reasoning_effort: Effort | None
    codex_bin: str | None
    opencode_bin: str | None
    gemini_bin: str | None
    claude_bin: str | None
    cursor_sdk_node_bin: str | None
    cursor: Cursor | None
    kimi_bin: str | None
    pi_bin: str | None
    claude_permission_mode: PermissionMode | None
    runner_cli: RunnerCli | None
    phase_overrides: PhaseOverrides | None
    instruction_files: Items[str] | None
    repoprompt_plan_required: bool | None
    repoprompt_tool_injection: bool | None
    ci_gate: CiGatePatch | None
    git_revert_mode: RevertMode | None
    git_publish_mode: PublishMode | None
    phases: int | None
    notification: NotificationPatch
    webhook: Webhook
    session_timeout_hours: int | None
    scan_prompt_version: Literal["v1", "v2"] | None
    runner_retry: RunnerRetry


class Config(Wire):
    """The configuration that holds for a repository and a caller, every layer applied."""

    version: Literal[2]
    project_type: Literal["code", "docs"]
    queue: Queue
    agent: Agent
    parallel: Parallel
    loop: Loop
    plugins: Plugins
    profiles: Annotated[Maybe[dict[str, AgentPatch]], Field(description="By name; left out where no file has any.")] = None
