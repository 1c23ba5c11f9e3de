"""The environment of an agent: the caller's, without the marks of an agent that the caller itself runs in."""

from __future__ import annotations

from collections.abc import Mapping

from cueloop_daemon.runners.model import Invocation

MARKERS: frozenset[str] = frozenset(
    {
        # claude refuses to start inside itself; the others change how they behave.
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_PARENT_SESSION_ID",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_TMPDIR",
        "CLAUDE_PID",
        "CLAUDE_EFFORT",
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "CODEX_THREAD_ID",
        "CODEX_CI",
        "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
        "CODEX_MANAGED_BY_NPM",
        "CODEX_MANAGED_BY_BUN",
        "GEMINI_CLI",
        "GEMINI_CLI_NO_RELAUNCH",
        "OPENCODE",
        "OPENCODE_PID",
        "OPENCODE_RUN_ID",
        "OPENCODE_PROCESS_ROLE",
        "OPENCODE_SESSION_ID",
        "PI_CODING_AGENT",
        "PI_SESSION_ID",
        "PI_SESSION_FILE",
        "KIMI_SESSION_ID",
        "CURSOR_AGENT",
        "CURSOR_TRACE_ID",
        "CURSOR_CLI",
        "AI_AGENT",
        "AGENT",
        # What an outer run of our own has set.
        "CUELOOP_RUNNER_USED",
        "CUELOOP_MODEL_USED",
        "CUELOOP_TASK_ID",
        "CUELOOP_RUN_ID",
        "CUELOOP_PLUGIN_ID",
        "CUELOOP_PLUGIN_CONFIG_JSON",
        "CUELOOP_RUNNER_CLI_JSON",
        # Says where the caller was before; the agent was never there.
        "OLDPWD",
    }
)
"""Not among them: settings of an agent (`CLAUDE_CONFIG_DIR`, `PI_CODING_AGENT_DIR`, keys, base URLs)."""


def child_environment(caller_env: Mapping[str, str], invocation: Invocation, run_id: str, task_id: str) -> dict[str, str]:
    """The whole environment of an agent's process. Nothing comes from the daemon's own."""
    kept = {name: value for name, value in caller_env.items() if name not in invocation.unset}
    return {**kept, **invocation.env, "CUELOOP_TASK_ID": task_id, "CUELOOP_RUN_ID": run_id}
