"""Defaults ← global ← project: what is merged, what is replaced, what is printed, and which file is blamed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.core.layers import ConfigError, Layer, as_values, dig, read_layer, resolve
from cueloop_protocol.base import dump
from cueloop_protocol.documents.config import REDACTED, Config

BASE = json.loads((Path(__file__).parent.parent / "data/vectors/base-document.json").read_text())["config"]


def layered(*documents: dict[str, Any]) -> Config:
    return resolve([read_layer(f"/{number}.jsonc", document) for number, document in enumerate(documents)])


def test_without_files_the_defaults_hold_in_the_order_of_the_contract() -> None:
    assert json.dumps(dump(layered())) == json.dumps(BASE)


def test_a_higher_layer_wins_leaf_by_leaf() -> None:
    config = layered({"agent": {"model": "g", "phases": 1}}, {"agent": {"model": "p"}})
    assert (config.agent.model, config.agent.phases) == ("p", 1)


def test_null_does_not_unset() -> None:
    assert layered({"agent": {"model": "g"}}, {"agent": {"model": None}}).agent.model == "g"


def test_lists_are_replaced_whole() -> None:
    first = {"parallel": {"push_backoff_ms": [1, 2]}, "agent": {"instruction_files": ["a"], "ci_gate": {"argv": ["a", "b"]}}}
    config = layered(first, {"parallel": {"push_backoff_ms": []}, "agent": {"ci_gate": {"argv": ["c"]}}})
    assert config.parallel.push_backoff_ms == ()
    assert config.agent.instruction_files == ("a",)
    assert config.agent.ci_gate.argv == ("c",)


def test_aging_thresholds_are_replaced_whole() -> None:
    thresholds = layered({"queue": {"aging_thresholds": {"stale_days": 5}}}).queue.aging_thresholds
    assert (thresholds.warning_days, thresholds.stale_days, thresholds.rotten_days) == (None, 5, None)
    thresholds = layered({"queue": {"aging_thresholds": {}}}).queue.aging_thresholds
    assert (thresholds.warning_days, thresholds.stale_days, thresholds.rotten_days) == (None, None, None)


def test_a_plugin_keeps_enabled_and_its_own_settings_are_replaced_whole_and_sorted() -> None:
    low = {"plugins": {"plugins": {"z": {"enabled": True, "config": {"old": 1}}, "a": {}}}}
    config = layered(low, {"plugins": {"plugins": {"z": {"config": {"b": [{"d": None, "c": 1}], "a": 2}}}}})
    assert json.dumps(dump(config.plugins)) == json.dumps(
        {
            "plugins": {
                "a": {"enabled": None, "config": None},
                "z": {"enabled": True, "config": {"a": 2, "b": [{"c": 1, "d": None}]}},
            }
        }
    )


def test_runner_options_are_merged_and_printed_in_the_fixed_order() -> None:
    low = {"agent": {"runner_cli": {"runners": {"zeta": {}, "Pi": {"sandbox": "enabled"}, "acme": {}}}}}
    high = {"agent": {"runner_cli": {"defaults": {"verbosity": "quiet"}, "runners": {"pi": {"plan_mode": "enabled"}}}}}
    cli = layered(low, high).agent.runner_cli
    assert list(cli.runners) == ["codex", "claude", "pi", "acme", "zeta"]
    assert (cli.runners["pi"].sandbox, cli.runners["pi"].plan_mode, cli.runners["pi"].verbosity) == ("enabled", "enabled", None)
    assert (cli.defaults.verbosity, cli.defaults.approval_mode) == ("quiet", "default")


def test_phase_overrides_print_only_what_is_set() -> None:
    patch = {"phase_overrides": {"phase1": {"runner": "Codex", "cursor": {"model_params": {"b": True, "a": "x"}}}}}
    printed = dump(layered({"agent": patch}).agent.phase_overrides)
    assert printed["phase1"] == {
        "runner": "codex",
        "model": "openai-codex/gpt-5.5",
        "reasoning_effort": "medium",
        "cursor": {"model_params": {"a": "x", "b": True}},
    }
    assert list(printed["phase1"]["cursor"]["model_params"]) == ["a", "b"]
    assert list(printed["phase2"]) == ["model", "reasoning_effort"]


def test_cursor_is_null_until_a_file_sets_it_and_then_prints_what_is_set() -> None:
    assert dump(layered({"agent": {"cursor": {"setting_sources": []}}}).agent)["cursor"] == {"setting_sources": []}
    assert dump(layered({"agent": {"cursor": {}}}).agent)["cursor"] == {}


def test_profiles_are_merged_sorted_and_print_every_key() -> None:
    low = {"profiles": {"b": {"phases": 1, "ci_gate": {"enabled": False}, "cursor": {}}, "a": {"model": "x"}}}
    high = {"profiles": {"b": {"iterations": 2, "runner_cli": {"runners": {"pi": {}}}, "phase_overrides": {"phase2": {}}}}}
    printed = dump(layered(low, high))["profiles"]
    assert list(printed) == ["a", "b"]
    assert list(printed["a"]) == list(BASE["agent"])
    assert {key: value for key, value in printed["a"].items() if key not in ("notification", "webhook", "runner_retry")} == {
        **dict.fromkeys(key for key in BASE["agent"] if key not in ("notification", "webhook", "runner_retry")),
        "model": "x",
    }
    assert printed["a"]["notification"] == dict.fromkeys(BASE["agent"]["notification"])
    assert (printed["b"]["phases"], printed["b"]["iterations"]) == (1, 2)
    assert printed["b"]["ci_gate"] == {"enabled": False, "argv": None}
    options = dict.fromkeys(BASE["agent"]["runner_cli"]["defaults"])
    assert printed["b"]["runner_cli"] == {"defaults": options, "runners": {"pi": options}}
    assert printed["b"]["phase_overrides"] == {"phase2": {}}
    assert printed["b"]["cursor"] == {}


def test_profiles_are_left_out_or_empty_as_the_files_say() -> None:
    assert "profiles" not in dump(layered({}))
    assert dump(layered({"profiles": {}}))["profiles"] == {}


def test_secrets_leave_only_as_a_word_also_from_profiles() -> None:
    secret = {"webhook": {"secret": "hunter2"}}
    config = layered({"agent": secret, "profiles": {"p": secret}})
    assert config.agent.webhook.secret is not None
    assert config.agent.webhook.secret.get_secret_value() == "hunter2"
    assert dump(config)["agent"]["webhook"]["secret"] == REDACTED
    assert dump(config)["profiles"]["p"]["webhook"]["secret"] == REDACTED
    assert "hunter2" not in f"{config!r} {config} {config.model_dump()} {config.model_dump_json()}"


def test_a_bad_layer_is_an_error_that_names_its_file() -> None:
    with pytest.raises(ConfigError) as caught:
        layered({}, {"agent": {"phases": 0}})
    assert caught.value.path == "/1.jsonc"
    assert str(caught.value).startswith("/1.jsonc: agent.phases: is 0")


CLASHES: list[tuple[list[dict[str, Any]], str, str]] = [
    ([{"agent": {"ci_gate": {"enabled": True, "argv": []}}}], "/0.jsonc", "agent.ci_gate.argv"),
    ([{"agent": {"ci_gate": {"argv": []}}}, {"agent": {"ci_gate": {"enabled": True}}}], "/1.jsonc", "agent.ci_gate.argv"),
    ([{"agent": {"ci_gate": {"enabled": True, "argv": []}}}, {"agent": {"phases": 1}}], "/0.jsonc", "agent.ci_gate.argv"),
    ([{"agent": {"webhook": {"url": "ftp://x"}}}, {"agent": {"webhook": {"enabled": True}}}], "/1.jsonc", "agent.webhook.url"),
    (
        [{"agent": {"ci_gate": {"argv": []}}}, {"profiles": {"p": {"ci_gate": {"enabled": True}}}}],
        "/1.jsonc",
        "profiles.p.ci_gate.argv",
    ),
    ([{"profiles": {"p": {"webhook": {"enabled": True}}}}], "/0.jsonc", "profiles.p.webhook.url"),
]


@pytest.mark.parametrize(("documents", "path", "key"), CLASHES)
def test_what_clashes_is_blamed_on_the_highest_file_with_a_part_in_it(
    documents: list[dict[str, Any]], path: str, key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        layered(*documents)
    assert (caught.value.path, caught.value.rule.key) == (path, key)


def test_a_profile_stands_on_the_agent_settings() -> None:
    url = {"webhook": {"url": "https://example.com"}}
    assert layered({"agent": url}, {"profiles": {"p": {"webhook": {"enabled": True}, "ci_gate": {"enabled": True}}}}).profiles


def test_looking_into_a_layer_never_fails() -> None:
    layer = Layer("/x", {"agent": {"model": "m"}})
    assert layer.get("agent", "model") == "m"
    assert layer.get("agent", "model", "x") is None
    assert dig(None, "a") is None
    assert as_values([]) == {}


GOOD: dict[str, list[Any]] = {
    "runner": ["pi", "CODEX", "acme"],
    "model": ["m", " m "],
    "iterations": [1, 255],
    "cursor": [{}, {"model_params": {"z": "1", "a": True}}, {"setting_sources": ["all"]}],
    "runner_cli": [{}, {"runners": {"Pi": {}, "x": {"sandbox": "enabled"}}}, {"defaults": {"approval_mode": "yolo"}}],
    "phase_overrides": [{}, {"phase3": {"runner": "Kimi", "cursor": {}}}],
    "ci_gate": [{}, {"enabled": True}, {"argv": ["x"]}],
    "webhook": [{}, {"url": "https://example.com", "enabled": True}, {"secret": "s", "parallel_queue_multiplier": 1}],
    "notification": [{}, {"timeout_ms": 1, "sound_path": ""}],
    "runner_retry": [{}, {"multiplier": 3}],
    "instruction_files": [[], ["a.md"]],
}
BAD = [0, -1, "", [], [1], True, 2.5, {"x": 1}, "\0"]
good_agents = st.fixed_dictionaries({}, optional={key: st.sampled_from([*values, None]) for key, values in GOOD.items()})
any_agents = st.dictionaries(st.sampled_from([*BASE["agent"], "x"]), st.sampled_from(BAD), max_size=3)


def placed(agent: dict[str, Any], as_profile: bool) -> dict[str, Any]:
    return {"profiles": {"p": agent}} if as_profile else {"agent": agent}


@given(st.lists(st.tuples(good_agents, st.booleans()), max_size=3))
def test_good_layers_always_make_a_whole_configuration(agents: list[tuple[dict[str, Any], bool]]) -> None:
    printed = dump(layered(*(placed(*agent) for agent in agents)))
    assert list(printed["agent"]) == list(BASE["agent"])
    for agent, as_profile in agents:
        if as_profile:
            assert list(printed["profiles"]["p"]) == list(BASE["agent"])
        elif agent.get("iterations") is not None:
            last = [a["iterations"] for a, p in agents if not p and a.get("iterations") is not None][-1]
            assert printed["agent"]["iterations"] == last


def read_error(document: Any) -> ConfigError | None:
    try:
        read_layer("/x", document)
    except ConfigError as exc:
        return exc
    return None


@given(good_agents, any_agents, st.booleans())
def test_one_bad_value_among_good_ones_is_refused_by_its_key(good: dict[str, Any], bad: dict[str, Any], as_profile: bool) -> None:
    error = read_error(placed({**good, **bad}, as_profile))
    wrong = {key for key, value in bad.items() if read_error({"agent": {key: value}})}
    assert (error is not None) == bool(wrong)
    if error is not None:
        place = "profiles.p." if as_profile else "agent."
        assert any(error.rule.key.startswith(f"{place}{key}") for key in wrong)


scraps = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*BASE, *BASE["queue"]]), inner, max_size=3),
    max_leaves=8,
)


@given(scraps)
def test_a_document_of_any_shape_is_read_or_refused_by_a_plain_sentence(document: Any) -> None:
    error = read_error(document)
    if not isinstance(document, dict):
        assert error is not None
    if error is not None:
        assert str(error).startswith("/x: ")
