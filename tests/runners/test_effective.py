"""The settings of a phase: call > task > phase_overrides > agent; models that fit; options that a runner does not have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.runners import Effective, PluginFacts, Refused, Settings, UnknownRunner, effective
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.queue import TaskAgent
from cueloop_protocol.overrides import Overrides
from decision_world import config

PLUGIN = PluginFacts("mine", "/plugins/mine/run", True, None, "null")
WITH_MODEL = PluginFacts("other", "/plugins/other/run", True, "other-1", "null")
PLUGINS = {"mine": PLUGIN, "other": WITH_MODEL}


def found(
    agent: dict[str, Any] | Config,
    task: dict[str, Any] | None = None,
    call: dict[str, Any] | None = None,
    phase: int = 2,
    iteration: int = 1,
) -> Effective:
    result = anything(agent, task, call, phase, iteration)
    assert isinstance(result, Effective), result
    return result


def anything(
    agent: dict[str, Any] | Config,
    task: dict[str, Any] | None = None,
    call: dict[str, Any] | None = None,
    phase: int = 2,
    iteration: int = 1,
) -> Effective | Refused | UnknownRunner:
    whole = agent if isinstance(agent, Config) else config(**agent)
    of_task = TaskAgent.model_validate(task) if task is not None else None
    return effective(whole, of_task, Overrides.model_validate(call or {}), phase, PLUGINS, iteration=iteration)


def runner_model(result: Effective) -> tuple[str, str]:
    return result.settings.runner, result.settings.model


def test_defaults() -> None:
    assert [runner_model(found({}, phase=phase)) for phase in (1, 2, 3)] == [
        ("pi", "openai-codex/gpt-5.5"),
        ("pi", "openai-codex/gpt-5.4"),
        ("pi", "openai-codex/gpt-5.5"),
    ]
    assert found({}) == Effective(
        Settings(
            runner="pi",
            model="openai-codex/gpt-5.4",
            effort="medium",
            approval_mode="default",
            sandbox="default",
            plan_mode="default",
            output_format="stream_json",
            verbosity="normal",
            option_policy="warn",
            permission_mode="accept_edits",
            bin="pi",
        ),
        (),
    )


LEVELS: list[tuple[str, str]] = [
    ("call phase", "call.phase2"),
    ("call", "call"),
    ("task phase", "task.phase_overrides.phase2"),
    ("task", "task"),
    ("config phase", "agent.phase_overrides.phase2"),
    ("config", "agent"),
]


def put(top: int, name: str, effort_names: bool = False) -> dict[str, dict[str, Any]]:
    """A value of `name` at level `top` and at each below it, so that the highest must win; the value is the level's number."""
    parts: dict[str, dict[str, Any]] = {"call": {}, "task": {}, "agent": {}}
    for number, (_, path) in list(enumerate(LEVELS))[top:]:
        part, *keys = path.split(".")
        place = parts[part]
        for key in keys:
            place = place.setdefault(key, {})
        key = {"call": "effort", "task": "reasoning_effort" if keys else "model_effort", "agent": "reasoning_effort"}[part]
        efforts = ["low", "high", "xhigh", "low", "high", "xhigh"]
        place[key if effort_names else name] = efforts[number] if effort_names else f"m{number}"
    return parts


@pytest.mark.parametrize("top", range(6), ids=[name for name, _ in LEVELS])
def test_the_highest_level_that_says_a_model_wins(top: int) -> None:
    parts = put(top, "model")
    parts["agent"]["runner"] = "claude"
    assert found(**parts).settings.model == f"m{top}"


@pytest.mark.parametrize("top", range(6), ids=[name for name, _ in LEVELS])
def test_the_highest_level_that_says_an_effort_wins(top: int) -> None:
    parts = put(top, "", effort_names=True)
    parts["agent"]["runner"] = "pi"
    # The configuration's own defaults name an effort for each phase, so that `agent.reasoning_effort` is only read past them.
    assert found(**parts).settings.effort == ["low", "high", "xhigh", "low", "high", "medium"][top]


@pytest.mark.parametrize("top", range(6), ids=[name for name, _ in LEVELS])
def test_the_highest_level_that_says_a_runner_wins(top: int) -> None:
    names = ["claude", "gemini", "kimi", "opencode", "pi", "claude"]
    parts = put(top, "runner")
    for part in (parts["call"], parts["task"], parts["agent"]):
        for place in (part, part.get("phase2", {}), part.get("phase_overrides", {}).get("phase2", {})):
            if "runner" in place:
                place["runner"] = names[int(place["runner"][1:])]
    assert found(**parts).settings.runner == names[top]


def test_runner_and_model_of_the_configuration_go_together() -> None:
    result = found({"runner": "claude", "model": "opus"}, phase=1)
    assert runner_model(result) == ("claude", "opus")
    assert result.warnings == (), "the defaults of phase_overrides were nobody's wish"


def test_a_configured_model_that_does_not_fit_becomes_the_runner_s_default_and_is_told() -> None:
    result = found({"runner": "gemini"})
    assert runner_model(result) == ("gemini", "gemini-3-flash-preview")
    assert len(result.warnings) == 1
    assert "gemini-3-flash-preview" in result.warnings[0]
    other = found({"runner": "claude", "model": "opus"}, call={"runner": "gemini"})
    assert runner_model(other) == ("gemini", "gemini-3-flash-preview")
    assert other.warnings == ("The model opus (agent.model) does not fit gemini; gemini-3-flash-preview is used.",)


def test_a_phase_s_own_runner_with_its_own_model() -> None:
    agent = {"runner": "claude", "model": "opus", "phase_overrides": {"phase1": {"runner": "gemini", "model": "g1"}}}
    assert runner_model(found(agent, phase=1)) == ("gemini", "g1")
    assert runner_model(found(agent, phase=2)) == ("claude", "opus")
    back = found(agent, call={"runner": "claude"}, phase=1)
    assert runner_model(back) == ("claude", "opus")
    assert len(back.warnings) == 1
    assert "g1 (phase_overrides)" in back.warnings[0]


def test_codex_takes_its_own_models_only() -> None:
    assert runner_model(found({"runner": "codex"})) == ("codex", "openai-codex/gpt-5.4")
    assert runner_model(found({"runner": "codex", "model": "gpt-5.3"}, phase=1)) == ("codex", "openai-codex/gpt-5.5")
    odd = found({"runner": "codex", "model": "opus", "phase_overrides": {"phase2": {"model": "sonnet"}}})
    assert runner_model(odd) == ("codex", "openai-codex/gpt-5.4")
    assert [text.split()[2] for text in odd.warnings] == ["sonnet", "opus"]


def test_a_model_in_the_call_is_used_as_it_is_or_refused() -> None:
    assert runner_model(found({"runner": "claude"}, call={"model": "glm-4.7"})) == ("claude", "glm-4.7")
    assert runner_model(found({"runner": "gemini"}, call={"model": "openai-codex/gpt-5.5"})) == ("gemini", "openai-codex/gpt-5.5")
    refused = anything({"runner": "codex"}, call={"model": "sonnet"})
    assert isinstance(refused, Refused)
    assert "sonnet" in refused.message
    assert "gpt-5.4" in refused.detail
    assert found({"runner": "codex"}, call={"model": "sonnet", "phase2": {"model": "gpt-5.4"}}).settings.model == "gpt-5.4"


def test_plugins_and_their_models() -> None:
    assert found({"runner": "mine"}).settings.bin == "/plugins/mine/run"
    assert found({"runner": "mine"}).settings.model == "openai-codex/gpt-5.4"
    assert found({"runner": "other"}).settings.model == "other-1"
    assert found({"runner": "other", "model": "x"}).settings.model == "x"
    assert found({"runner": "claude", "model": "opus"}, call={"runner": "mine"}).settings.model == "opus"


def test_an_unknown_runner() -> None:
    result = anything({}, call={"runner": "foo"})
    assert isinstance(result, UnknownRunner)
    assert "mine" in result.detail


def test_names_of_runners_are_found_in_any_case() -> None:
    assert found({}, call={"runner": " Claude "}).settings.runner == "claude"


@pytest.mark.parametrize(
    ("runner", "key"),
    [("claude", "claude_bin"), ("codex", "codex_bin"), ("cursor", "cursor_sdk_node_bin"), ("kimi", "kimi_bin"), ("pi", "pi_bin")],
)
def test_programs(runner: str, key: str) -> None:
    assert found({"runner": runner, key: "/opt/x"}).settings.bin == "/opt/x"


@pytest.mark.parametrize("runner", ["claude", "opencode", "cursor", "gemini", "kimi"])
def test_medium_that_nobody_asked_for_is_not_passed_on(runner: str) -> None:
    result = found({"runner": runner, "model": "m"})
    assert result.settings.effort is None
    assert result.warnings == ()


@pytest.mark.parametrize("runner", ["claude", "opencode", "cursor"])
def test_an_effort_that_was_asked_for_is(runner: str) -> None:
    overrides = {"phase_overrides": {"phase2": {"reasoning_effort": "high"}}}
    assert found({"runner": runner, "model": "m", **overrides}).settings.effort == "high"
    assert found({"runner": runner, "model": "m"}, call={"effort": "medium"}).settings.effort == "medium"
    assert found({"runner": runner, "model": "m"}, task={"model_effort": "medium"}).settings.effort == "medium"


@pytest.mark.parametrize("runner", ["gemini", "kimi"])
def test_an_effort_that_cannot_be_honoured_is_told(runner: str) -> None:
    result = found({"runner": runner, "model": "m"}, call={"effort": "high"})
    assert result.settings.effort is None
    assert result.warnings == (f"{runner} cannot honour reasoning_effort high; it is ignored.",)


def test_later_iterations_may_have_an_effort_of_their_own() -> None:
    agent = {"followup_reasoning_effort": "low"}
    assert found(agent).settings.effort == "medium"
    assert found(agent, iteration=2).settings.effort == "low"
    task = {"followup_reasoning_effort": "high", "model_effort": "xhigh"}
    assert found(agent, task).settings.effort == "xhigh"
    assert found(agent, task, iteration=2).settings.effort == "high"
    assert found(agent, task, {"effort": "low"}, iteration=2).settings.effort == "low"


def test_options_by_call_task_runner_and_defaults() -> None:
    cli = {"defaults": {"approval_mode": "yolo", "sandbox": "enabled"}, "runners": {"codex": {"approval_mode": "auto_edits"}}}
    agent = {"runner": "codex", "runner_cli": cli}
    assert found(agent).settings.approval_mode == "auto_edits"
    assert found(agent).settings.sandbox == "disabled", "the default of codex is nearer than that of all runners"
    assert found(agent, {"runner_cli": {"approval_mode": "safe"}}).settings.approval_mode == "safe"
    assert (
        found(agent, {"runner_cli": {"approval_mode": "safe"}}, {"approval_mode": "default"}).settings.approval_mode == "default"
    )
    assert found({**agent, "runner": "claude", "model": "m"}).settings.approval_mode == "yolo"


OPTIONS = [
    ("claude", {"sandbox": "enabled"}, True),
    ("claude", {"plan_mode": "enabled", "approval_mode": "safe", "sandbox": "disabled", "verbosity": "quiet"}, False),
    ("codex", {"plan_mode": "enabled"}, True),
    ("codex", {"sandbox": "enabled", "approval_mode": "safe"}, False),
    ("gemini", {"plan_mode": "enabled"}, True),
    ("gemini", {"sandbox": "enabled"}, False),
    ("kimi", {"approval_mode": "safe"}, True),
    ("pi", {"approval_mode": "safe"}, True),
    ("pi", {"approval_mode": "yolo", "plan_mode": "disabled"}, False),
    ("opencode", {"sandbox": "enabled"}, True),
    ("opencode", {"approval_mode": "safe"}, False),
    ("cursor", {"sandbox": "enabled", "plan_mode": "enabled"}, False),
    ("cursor", {"approval_mode": "safe"}, True),
    ("claude", {"output_format": "text"}, True),
    ("mine", {"sandbox": "enabled", "plan_mode": "enabled", "approval_mode": "safe"}, False),
]


@pytest.mark.parametrize(("runner", "options", "is_told"), OPTIONS)
def test_e15_options_that_cannot_be_honoured_follow_the_policy(runner: str, options: dict[str, str], is_told: bool) -> None:
    agent = {"runner": runner, "model": "gpt-5.4"}
    warned = found(agent, call={**options, "unsupported_option_policy": "warn"})
    assert bool(warned.warnings) is is_told
    assert found(agent, call={**options, "unsupported_option_policy": "ignore"}).warnings == ()
    strict = anything(agent, call={**options, "unsupported_option_policy": "error"})
    assert isinstance(strict, Refused if is_told else Effective)
    if isinstance(strict, Refused):
        name, value = next(iter(options.items()))
        assert f"{name} {value}" in strict.message


def test_cursor_settings_leaf_by_leaf() -> None:
    agent = {"runner": "cursor", "model": "m", "cursor": {"model_params": {"a": "1"}, "setting_sources": ["user"]}}
    task = {"cursor": {"setting_sources": ["project"]}}
    settings = found(agent, task).settings
    assert settings.cursor is not None
    assert settings.cursor.model_params == {"a": "1"}
    assert settings.cursor.setting_sources == ("project",)
    assert found({"runner": "cursor", "model": "m"}).settings.cursor is None
    assert found({**agent, "runner": "claude"}).settings.cursor is None


@given(
    runner=st.sampled_from(["claude", "codex", "opencode", "gemini", "cursor", "kimi", "pi", "mine", "other"]),
    configured=st.sampled_from(["claude", "codex", "gemini", "pi", "mine"]),
    model=st.sampled_from(["opus", "gpt-5.4", "openai-codex/gpt-5.5", "m"]),
    phase=st.integers(1, 3),
    iteration=st.integers(1, 3),
)
def test_a_runner_without_a_model_in_the_call_always_has_settings(
    runner: str, configured: str, model: str, phase: int, iteration: int
) -> None:
    result = found({"runner": configured, "model": model}, {}, {"runner": runner}, phase, iteration)
    assert result.settings.runner == runner
    assert result.settings.model
    assert result == found({"runner": configured, "model": model}, None, {"runner": runner}, phase, iteration)
