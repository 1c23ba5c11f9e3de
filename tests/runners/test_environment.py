"""E14: what an agent's environment holds, and what it does not inherit from the agent that the caller may be."""

from __future__ import annotations

import pytest

from cueloop_daemon.runners import MARKERS, Prompt, child_environment, install_hint
from runners.streams import built_in, settings

CALLER = {
    "PATH": "/usr/bin",
    "HOME": "/home/person",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "CODEX_SANDBOX": "seatbelt",
    "GEMINI_CLI": "1",
    "OPENCODE": "1",
    "CURSOR_AGENT": "1",
    "OLDPWD": "/",
    "PWD": "/elsewhere",
    "CUELOOP_TASK_ID": "RQ-0009",
    "CUELOOP_PLUGIN_CONFIG_JSON": "{}",
    "CLAUDE_CONFIG_DIR": "/c",
    "PI_CODING_AGENT_DIR": "/p",
    "ANTHROPIC_API_KEY": "secret",
    "CLAUDE_CODE_MAX_RETRIES": "0",
}


@pytest.mark.parametrize("id_", ["claude", "codex", "gemini", "kimi", "pi", "opencode", "cursor"])
def test_e14_markers_go_and_settings_stay(id_: str) -> None:
    invocation = built_in(id_).fresh(settings(id_), Prompt("x", "/p"), None, "/r")
    assert child_environment(CALLER, invocation, "run-1", "RQ-0001") == {
        "PATH": "/usr/bin",
        "HOME": "/home/person",
        "PWD": "/r",
        "CLAUDE_CONFIG_DIR": "/c",
        "PI_CODING_AGENT_DIR": "/p",
        "ANTHROPIC_API_KEY": "secret",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CUELOOP_RUNNER_USED": id_,
        "CUELOOP_MODEL_USED": "m",
        "CUELOOP_TASK_ID": "RQ-0001",
        "CUELOOP_RUN_ID": "run-1",
    }


def test_e14_nothing_comes_from_anywhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_ANOTHER_CLIENT", "x")
    invocation = built_in("claude").fresh(settings("claude"), Prompt("x", "/p"), None, "/r")
    assert set(child_environment({}, invocation, "run-1", "RQ-0001")) == {
        "PWD",
        "CUELOOP_RUNNER_USED",
        "CUELOOP_MODEL_USED",
        "CUELOOP_TASK_ID",
        "CUELOOP_RUN_ID",
    }


def test_no_setting_of_an_agent_is_a_marker() -> None:
    assert not [
        name for name in MARKERS if name.endswith(("_KEY", "_TOKEN", "_BASE_URL", "_DIR", "_HOME", "_CONFIG", "_RETRIES"))
    ]


def test_hints_say_how_to_install_and_log_in() -> None:
    for id_ in ("claude", "codex", "gemini", "kimi", "pi", "opencode", "cursor"):
        assert "npm install" in install_hint(id_)
        assert "log in" in install_hint(id_)
    assert "mine" in install_hint("mine")
