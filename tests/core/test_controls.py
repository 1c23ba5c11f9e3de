"""Runners: the built-in ones, the enabled ones of plugins, and what is said of those that cannot be offered."""

from __future__ import annotations

from typing import Literal

import pytest

from cueloop_daemon.core.controls import BUILT_IN, BrokenPlugins, Plugin, PluginRunner, execution_controls
from cueloop_daemon.core.layers import read_layer, resolve
from cueloop_protocol.base import dump
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.session import RUNNERS

Source = Literal["global_plugin", "project_plugin"]


def plugin(id_: str, source: Source = "global_plugin", model: str | None = None, runner: bool = True) -> Plugin:
    return Plugin(id_, f"Runner {id_}", source, PluginRunner(model) if runner else None)


def enabling(*ids: str, enabled: bool | None = True) -> Config:
    return resolve([read_layer("/x", {"plugins": {"plugins": {id_: {"enabled": enabled} for id_ in ids}}})])


def offered(config: Config | None, *plugins: Plugin) -> list[str]:
    return [runner.id for runner in execution_controls(config, plugins).runners][len(BUILT_IN) :]


def test_the_built_in_runners_are_the_ones_that_sessions_know_in_display_order() -> None:
    assert tuple(runner.id for runner in BUILT_IN) == RUNNERS


def test_without_plugins_nothing_is_said_of_them() -> None:
    printed = dump(execution_controls(enabling(), ()))
    assert list(printed) == ["runners", "reasoning_efforts", "parallel_workers"]
    assert printed["parallel_workers"] == {"min": 2, "max": 255, "default_missing_value": 2}


def test_enabled_runners_follow_in_the_order_of_their_ids() -> None:
    assert offered(enabling("b", "a", "Z"), plugin("b"), plugin("Z"), plugin("a")) == ["Z", "a", "b"]


@pytest.mark.parametrize("config", [None, enabling(), enabling("a", enabled=False), enabling("a", enabled=None), enabling("A")])
def test_a_plugin_that_is_not_enabled_is_not_offered(config: Config | None) -> None:
    assert offered(config, plugin("a")) == []


def test_a_plugin_without_a_runner_is_not_offered() -> None:
    assert offered(enabling("a"), plugin("a", runner=False)) == []


def test_a_plugin_runner_prints_its_own_model_only_if_it_has_one() -> None:
    runners = execution_controls(enabling("a", "b"), (plugin("a", "project_plugin", "m1"), plugin("b"))).runners[-2:]
    assert dump(runners[0]) == {
        "id": "a",
        "display_name": "Runner a",
        "source": "project_plugin",
        "reasoning_effort_supported": False,
        "supports_arbitrary_model": True,
        "default_model": "m1",
    }
    assert "default_model" not in dump(runners[1])


@pytest.mark.parametrize(
    ("ids", "left", "skipped"),
    [
        (("Claude",), [], ["Claude"]),
        (("ACME", "acme", "Acme"), ["ACME"], ["Acme", "acme"]),
        (("acme", "acme"), ["acme"], ["acme"]),
    ],
)
def test_a_clash_of_ids_is_said_and_the_earlier_one_stays(ids: tuple[str, ...], left: list[str], skipped: list[str]) -> None:
    plugins = tuple(plugin(id_) for id_ in ids)
    controls = execution_controls(enabling(*ids), plugins)
    assert [runner.id for runner in controls.runners][len(BUILT_IN) :] == left
    assert controls.diagnostics is not None
    assert [(d.code, d.plugin_id, d.fallback) for d in controls.diagnostics] == [
        ("plugin_runner_id_conflict", id_, "skipped_plugin_runner") for id_ in skipped
    ]
    assert list(dump(controls.diagnostics[0])) == ["severity", "code", "message", "detail", "plugin_id", "fallback"]


def test_a_plugin_that_is_not_enabled_clashes_with_nobody() -> None:
    assert execution_controls(enabling("acme"), (plugin("ACME"), plugin("acme"))).diagnostics is None


def test_one_broken_manifest_leaves_the_built_in_runners() -> None:
    controls = execution_controls(enabling("a"), BrokenPlugins("a/plugin.json: is no object"))
    assert controls.runners == BUILT_IN
    assert controls.diagnostics is not None
    assert [dump(diagnostic) for diagnostic in controls.diagnostics] == [
        {
            "severity": "warning",
            "code": "plugin_registry_load_failed",
            "message": "Plugins could not be read, so only the built-in runners are offered.",
            "detail": "a/plugin.json: is no object",
            "fallback": "built_in_runners_only",
        }
    ]
