"""Profiles: what the built-in ones set, what one's own sets, and what neither touches."""

from __future__ import annotations

from typing import Any

import pytest

from cueloop_daemon.core.layers import Layer, resolve
from cueloop_daemon.core.runs.profiles import BUILT_IN_PROFILES, UnknownProfile, with_profile
from cueloop_daemon.runners.effective import Effective, effective
from cueloop_protocol.documents.config import Config
from cueloop_protocol.overrides import Overrides

RISKY = {
    "claude_permission_mode": "bypass_permissions",
    "git_publish_mode": "commit_and_push",
    "git_revert_mode": "enabled",
    "runner_cli": {"defaults": {"approval_mode": "yolo"}, "runners": {"claude": {"approval_mode": "yolo"}}},
}


def config(agent: dict[str, Any] | None = None, **profiles: dict[str, Any]) -> Config:
    return resolve([Layer("/c.jsonc", {"agent": agent or {}, **({"profiles": profiles} if profiles else {})})])


def applied(given: Config, name: str | None) -> Config:
    found = with_profile(given, name)
    assert isinstance(found, Config)
    return found


def settings(given: Config, runner: str) -> Any:
    found = effective(given, None, Overrides(runner=runner), 2, {})
    assert isinstance(found, Effective)
    return found.settings


@pytest.mark.parametrize("runner", ["claude", "codex", "gemini"])
def test_safe_holds_for_every_runner_whatever_was_configured(runner: str) -> None:
    found = applied(config(RISKY), "safe")
    agent = found.agent
    assert (agent.git_publish_mode, agent.git_revert_mode) == ("off", "ask")
    assert settings(found, runner).approval_mode == "safe"
    assert settings(found, runner).permission_mode == "accept_edits"


@pytest.mark.parametrize("runner", ["claude", "codex", "gemini"])
def test_power_user_lets_agents_work_unasked_and_pushes_nothing(runner: str) -> None:
    found = applied(config(), "power-user")
    assert (found.agent.git_publish_mode, found.agent.git_revert_mode) == ("commit", "disabled")
    assert settings(found, runner).approval_mode == "yolo"


@pytest.mark.parametrize("name", BUILT_IN_PROFILES)
def test_a_built_in_profile_leaves_the_rest_as_configured(name: str) -> None:
    given = config({"runner": "kimi", "phases": 2, "runner_cli": {"runners": {"codex": {"sandbox": "enabled"}}}})
    found = applied(given, name)
    assert found.agent.runner_cli.runners["codex"].sandbox == "enabled"
    touched = {*BUILT_IN_PROFILES[name].settings, "runner_cli"}
    assert found.agent.model_dump(exclude=touched) == given.agent.model_dump(exclude=touched)
    assert found.model_dump(exclude={"agent"}) == given.model_dump(exclude={"agent"})


def test_one_of_ones_own_is_merged_leaf_by_leaf_and_lists_whole() -> None:
    patch = {
        "model": "opus",
        "instruction_files": ["b.md"],
        "ci_gate": {"enabled": True},
        "phase_overrides": {"phase1": {"model": "haiku"}},
        "runner_cli": {"runners": {"claude": {"sandbox": "enabled"}, "pi": {"verbosity": "quiet"}}},
        "notification": {"timeout_ms": 1},
        "cursor": {"setting_sources": ["user"]},
    }
    given = config({"instruction_files": ["a.md", "c.md"], "ci_gate": {"argv": ["x"]}}, mine=patch)
    agent = applied(given, "mine").agent
    assert agent.model == "opus"
    assert list(agent.instruction_files or ()) == ["b.md"]
    assert (agent.ci_gate.enabled, list(agent.ci_gate.argv)) == (True, ["x"])
    assert agent.phase_overrides.phase1 is not None
    assert (agent.phase_overrides.phase1.model, agent.phase_overrides.phase1.reasoning_effort) == ("haiku", "medium")
    claude = agent.runner_cli.runners["claude"]
    assert (claude.sandbox, claude.verbosity) == ("enabled", "verbose")
    assert agent.runner_cli.runners["pi"].verbosity == "quiet"
    assert (agent.notification.timeout_ms, agent.notification.enabled) == (1, given.agent.notification.enabled)
    assert agent.cursor is not None
    assert list(agent.cursor.setting_sources or ()) == ["user"]
    assert agent.runner == given.agent.runner


def test_a_webhooks_secret_is_kept_and_stays_hidden() -> None:
    given = config({"webhook": {"secret": "s3cret"}}, mine={"webhook": {"timeout_secs": 3}})
    webhook = applied(given, "mine").agent.webhook
    assert webhook.secret is not None
    assert webhook.secret.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(webhook)


def test_no_profile_changes_nothing() -> None:
    given = config(RISKY)
    assert applied(given, None) is given


def test_a_profile_that_does_not_exist_is_named_with_those_that_do() -> None:
    assert with_profile(config(None, mine={}), "frob") == UnknownProfile(
        "There is no profile frob.", "The profiles are mine, safe, power-user."
    )
    assert isinstance(with_profile(config(), "mine"), UnknownProfile)
