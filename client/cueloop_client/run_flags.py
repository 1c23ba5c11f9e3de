"""The options of runs (contract section 10). Standard library only; `run_request` gives them their meaning."""

from __future__ import annotations

from cueloop_client.flags import Flag

_PHASES = tuple(
    flag
    for number in (1, 2, 3)
    for flag in (
        Flag(f"runner-phase{number}", "RUNNER", f"the runner of phase {number} alone"),
        Flag(f"model-phase{number}", "MODEL", f"the model of phase {number} alone"),
        Flag(f"effort-phase{number}", "EFFORT", f"the reasoning effort of phase {number} alone"),
    )
)

SETTINGS = (
    Flag("profile", "NAME", "a profile of the configuration, or one of the built-in ones: safe, power-user"),
    Flag("runner", "RUNNER", "claude, codex, opencode, gemini, cursor, kimi, pi, or a plugin's id"),
    Flag("model", "MODEL", "the runner's model"),
    Flag("effort", "EFFORT", "reasoning effort: low, medium, high, xhigh", short="e"),
    Flag("phases", "N", "1: all at once, 2: plan and implement, 3: plan, implement and review"),
    Flag("quick", None, "one phase, the same as --phases 1"),
    *_PHASES,
    Flag("approval-mode", "MODE", "what an agent may do unasked: default, auto_edits, yolo, safe"),
    Flag("sandbox", "SWITCH", "the runner's own sandbox: default, enabled, disabled"),
    Flag("plan-mode", "SWITCH", "the runner's own plan mode: default, enabled, disabled"),
    Flag("output-format", "FORMAT", "what the runner writes: stream_json, json, text"),
    Flag("verbosity", "HOW", "the runner's: quiet, normal, verbose"),
    Flag("unsupported-option-policy", "POLICY", "an option that the runner does not have: ignore, warn, error"),
    Flag("git-revert-mode", "MODE", "the changes of a task that failed: ask, enabled (take back), disabled (keep)"),
    Flag("git-publish-mode", "MODE", "after a task: off, commit, commit_and_push"),
    Flag("include-draft", None, "drafts are run, too"),
    Flag("lfs-check", None, "look at Git LFS before a task"),
    Flag("repo-prompt", "MODE", "RepoPrompt: tools, plan, off"),
    Flag("notify", None, "a desktop notification when a task is complete"),
    Flag("no-notify", None, "no desktop notification when a task is complete"),
    Flag("notify-fail", None, "a desktop notification when a task fails"),
    Flag("no-notify-fail", None, "no desktop notification when a task fails"),
    Flag("notify-sound", None, "with a sound"),
    Flag("wait-when-blocked", None, "a loop waits while its tasks are blocked"),
    Flag("wait-when-empty", None, "a loop waits for tasks while there are none"),
    Flag("wait-poll-ms", "MS", "how often a loop looks while it is blocked"),
    Flag("empty-poll-ms", "MS", "how often a loop looks while there are no tasks"),
    Flag("wait-timeout-seconds", "SECONDS", "how long a blocked loop waits; 0: without end"),
    Flag("notify-when-unblocked", None, "a desktop notification when a loop that waited goes on"),
    Flag("no-progress", None, "accepted, nothing to do: no progress bar is drawn"),
)
"""What may be set for one run in place of its configuration."""

FORCE = Flag("force", None, "changes in the working tree are no obstacle")
RESUME = Flag("resume", None, "go on with an interrupted session without asking, where that is safe")
FRESH = Flag("fresh", None, "start fresh, whatever session there is; its file goes to the history")
ID = Flag("id", "TASK", "this task and no other")
MAX_TASKS = Flag("max-tasks", "N", "end after this many tasks; 0: no limit")
PEOPLE = (
    Flag("non-interactive", None, "ask nothing, also on a terminal"),
    Flag("dry-run", None, "show what would be done about an interrupted session and which task would run; change nothing"),
    Flag("detach", None, "start the run and leave it; `cueloop run attach` shows it"),
)
RUN_ID = Flag("run-id", "RUN", "this run and not the active one")

ONE = (ID, RESUME, FRESH, FORCE, *SETTINGS)
LOOP = (MAX_TASKS, RESUME, FRESH, FORCE, *SETTINGS)
RESUMED = (MAX_TASKS, FORCE, *SETTINGS)
