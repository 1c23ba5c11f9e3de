"""What a project's config may say before anybody trusted the repository, key by key, for itself and in profiles."""

from __future__ import annotations

from typing import Any

import pytest

from cueloop_daemon.core.layers import read_layer
from cueloop_daemon.core.rules import RuleError
from cueloop_daemon.core.trust import gated_keys, instruction_files, is_trusted

AGENT_GATED: list[tuple[dict[str, Any], str]] = [
    ({"ci_gate": {}}, "ci_gate"),
    ({"ci_gate": {"enabled": False}}, "ci_gate"),
    ({"codex_bin": "codex"}, "codex_bin"),
    ({"opencode_bin": "x"}, "opencode_bin"),
    ({"gemini_bin": "x"}, "gemini_bin"),
    ({"claude_bin": "claude"}, "claude_bin"),
    ({"cursor_sdk_node_bin": "x"}, "cursor_sdk_node_bin"),
    ({"kimi_bin": "x"}, "kimi_bin"),
    ({"pi_bin": "x"}, "pi_bin"),
    ({"runner": "Cursor"}, "runner"),
    ({"runner": "acme"}, "runner"),
    ({"phase_overrides": {"phase1": {"runner": "acme"}}}, "phase_overrides.phase1.runner"),
    ({"phase_overrides": {"phase3": {"runner": "cursor"}}}, "phase_overrides.phase3.runner"),
    ({"git_publish_mode": "commit"}, "git_publish_mode"),
    ({"git_publish_mode": "commit_and_push"}, "git_publish_mode"),
    ({"claude_permission_mode": "bypass_permissions"}, "claude_permission_mode"),
    ({"runner_cli": {"defaults": {"approval_mode": "yolo"}}}, "runner_cli.defaults.approval_mode"),
    ({"runner_cli": {"runners": {"Codex": {"approval_mode": "yolo"}}}}, "runner_cli.runners.codex.approval_mode"),
    ({"instruction_files": ["a.md", "/etc/passwd"]}, "instruction_files[1]"),
]
AGENT_FREE: list[dict[str, Any]] = [
    {},
    {"ci_gate": None, "claude_bin": None, "runner": None},
    {"cursor_bin": "x"},
    {"runner": "claude"},
    {"phase_overrides": {"phase1": {"model": "m"}, "phase2": {"runner": "CODEX"}}},
    {"git_publish_mode": "off"},
    {"claude_permission_mode": "accept_edits"},
    {"runner_cli": {"defaults": {"approval_mode": "safe"}, "runners": {"acme": {"plan_mode": "enabled"}}}},
    {"instruction_files": ["a.md"]},
    {"cursor": {"setting_sources": ["all"]}},
    {"webhook": {}},
    {"webhook": {"url": "https://example.com", "secret": "s"}},
]
OUTSIDE = ("/etc/passwd",)


def gated(project: dict[str, Any], own: dict[str, Any] | None = None) -> tuple[str, ...]:
    layer = None if own is None else read_layer("/own", own)
    return gated_keys(read_layer("/project", project), layer, OUTSIDE)


@pytest.mark.parametrize(("agent", "key"), AGENT_GATED)
def test_needs_trust_for_itself_and_in_a_profile(agent: dict[str, Any], key: str) -> None:
    assert gated({"agent": agent}) == (f"agent.{key}",)
    assert gated({"profiles": {"p": agent}}) == (f"profiles.p.{key}",)
    assert gated({}, {"agent": agent, "profiles": {"p": agent}}) == ()


@pytest.mark.parametrize("agent", AGENT_FREE)
def test_needs_no_trust(agent: dict[str, Any]) -> None:
    assert gated({"agent": agent}) == ()
    assert gated({"profiles": {"p": agent}}) == ()


def test_plugins_and_the_allowlist_need_trust() -> None:
    assert gated({"plugins": {"plugins": {"acme": {"enabled": False}}}}) == ("plugins.plugins.acme",)
    assert gated({"plugins": {"plugins": {"a b": {}}}}) == ('plugins.plugins["a b"]',)
    assert gated({"plugins": {"plugins": {"acme": None}}}) == ()
    assert gated({"plugins": {}}) == ()
    assert gated({"parallel": {"ignored_file_allowlist": []}}) == ("parallel.ignored_file_allowlist",)
    assert gated({"parallel": {"workers": 2, "ignored_file_allowlist": None}}) == ()


def test_every_webhook_setting_needs_trust_once_a_webhook_is_enabled_anywhere() -> None:
    enabled = {"webhook": {"enabled": True}}
    url = {"webhook": {"url": "https://example.com"}}
    assert gated({"agent": {"webhook": {"enabled": True, "url": "https://example.com"}}}) == (
        "agent.webhook.enabled",
        "agent.webhook.url",
    )
    assert gated({"agent": url}, {"agent": enabled}) == ("agent.webhook.url",)
    assert gated({"agent": url}, {"profiles": {"p": enabled}}) == ("agent.webhook.url",)
    assert gated({"profiles": {"p": url}, "agent": {}}, {"agent": enabled}) == ("profiles.p.webhook.url",)
    assert gated({"agent": url}, {"agent": {"webhook": {"enabled": False}}}) == ()
    assert gated({}, {"agent": enabled}) == ()


def test_instruction_files_are_found_in_profiles_too() -> None:
    layer = read_layer("/x", {"agent": {"instruction_files": ["a"]}, "profiles": {"p": {"instruction_files": ["b"]}, "q": {}}})
    assert instruction_files(layer) == ("a", "b")
    assert instruction_files(read_layer("/x", {})) == ()


@pytest.mark.parametrize(
    ("document", "trusted"),
    [
        ({}, False),
        ({"allow_project_commands": False}, False),
        ({"allow_project_commands": None}, False),
        ({"allow_project_commands": True}, True),
        ({"allow_project_commands": True, "trusted_at": None, "$schema": "x"}, True),
        ({"allow_project_commands": True, "trusted_at": "2026-02-07T10:00:00.123456789+05:30"}, True),
        ({"allow_project_commands": True, "trusted_at": "2026-02-07t10:00:00z"}, True),
    ],
)
def test_a_trust_file(document: dict[str, Any], trusted: bool) -> None:
    assert is_trusted(document) is trusted


@pytest.mark.parametrize(
    ("document", "key"),
    [
        ([True, None], ""),
        ("yes", ""),
        ({"allow_project_commands": "yes"}, "allow_project_commands"),
        ({"allow_project_commands": 1}, "allow_project_commands"),
        ({"allow_project_command": True}, "allow_project_command"),
        ({"trusted_at": "2026-02-07T10:00:00"}, "trusted_at"),
        ({"trusted_at": "2026-13-07T10:00:00Z"}, "trusted_at"),
        ({"trusted_at": "yesterday"}, "trusted_at"),
        ({"trusted_at": 1}, "trusted_at"),
    ],
)
def test_a_trust_file_that_is_none(document: object, key: str) -> None:
    with pytest.raises(RuleError) as caught:
        is_trusted(document)
    assert caught.value.key == key
