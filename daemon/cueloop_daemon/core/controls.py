"""What a run may be started with: built-in runners, then the enabled runners of plugins (contract section 5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.controls import Diagnostic, ExecutionControls, ParallelWorkers, RunnerControl
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin that was found. `runner` is None for one that brings no runner."""

    id: str
    name: str
    source: Literal["global_plugin", "project_plugin"]
    runner: PluginRunner | None


@dataclass(frozen=True, slots=True)
class PluginRunner:
    """The runner of a plugin."""

    default_model: str | None


@dataclass(frozen=True, slots=True)
class BrokenPlugins:
    """A plugin could not be read, so none is offered; `detail` names the file and what is wrong."""

    detail: str


Plugins = tuple[Plugin, ...] | BrokenPlugins


def _built_in(id_: str, name: str, model: str, *, effort: bool = False, allowed: tuple[str, ...] | None = None) -> RunnerControl:
    return RunnerControl(
        id=id_,
        display_name=name,
        source="built_in",
        reasoning_effort_supported=effort,
        supports_arbitrary_model=allowed is None,
        allowed_models=allowed,
        default_model=model,
    )


CODEX_MODELS = (
    "openai-codex/gpt-5.5",
    "openai-codex/gpt-5.4",
    "gpt-5.4",
    "gpt-5.3-codex",
    "gpt-5.3-codex-spark",
    "gpt-5.3",
)
BUILT_IN = (
    _built_in("claude", "Anthropic Claude Code", "sonnet"),
    _built_in("codex", "OpenAI Codex CLI", "openai-codex/gpt-5.4", effort=True, allowed=CODEX_MODELS),
    _built_in("opencode", "Opencode", "zai-coding-plan/glm-4.7"),
    _built_in("gemini", "Google Gemini CLI", "gemini-3-flash-preview"),
    _built_in("cursor", "Cursor SDK", "composer-2"),
    _built_in("kimi", "Kimi CLI", "kimi-for-coding"),
    _built_in("pi", "Pi Coding Agent", "openai-codex/gpt-5.4", effort=True),
)


def execution_controls(config: Config | None, plugins: Plugins) -> ExecutionControls:
    """The choices under a configuration; without one (None: it cannot be used) no plugin is enabled."""
    runners, diagnostics = list(BUILT_IN), list[Diagnostic]()
    if isinstance(plugins, BrokenPlugins):
        diagnostics.append(_load_failed(plugins.detail))
    else:
        taken = {runner.id.lower(): runner.id for runner in runners}
        for plugin, runner in _enabled(config, plugins):
            earlier = taken.get(plugin.id.lower())
            if earlier is not None:
                diagnostics.append(_conflict(plugin.id, earlier))
            else:
                taken[plugin.id.lower()] = plugin.id
                runners.append(_of_plugin(plugin, runner))
    return ExecutionControls(
        runners=tuple(runners),
        reasoning_efforts=("low", "medium", "high", "xhigh"),
        parallel_workers=ParallelWorkers(min=2, max=255, default_missing_value=2),
        diagnostics=tuple(diagnostics) or None,
    )


def _enabled(config: Config | None, plugins: tuple[Plugin, ...]) -> Iterable[tuple[Plugin, PluginRunner]]:
    settings = config.plugins.plugins if config is not None else {}
    for plugin in sorted(plugins, key=lambda plugin: plugin.id):
        setting = settings.get(plugin.id)
        if plugin.runner is not None and setting is not None and setting.enabled:
            yield plugin, plugin.runner


def _of_plugin(plugin: Plugin, runner: PluginRunner) -> RunnerControl:
    return RunnerControl(
        id=plugin.id,
        display_name=plugin.name,
        source=plugin.source,
        reasoning_effort_supported=False,
        supports_arbitrary_model=True,
        default_model=runner.default_model,
    )


def _conflict(id_: str, earlier: str) -> Diagnostic:
    return Diagnostic(
        severity="warning",
        code="plugin_runner_id_conflict",
        message=f"The plugin runner {id_} is not offered: its id is already the runner {earlier}'s.",
        detail="Ids are compared without case. Give the plugin another id in its plugin.json.",
        plugin_id=id_,
        fallback="skipped_plugin_runner",
    )


def _load_failed(detail: str) -> Diagnostic:
    return Diagnostic(
        severity="warning",
        code="plugin_registry_load_failed",
        message="Plugins could not be read, so only the built-in runners are offered.",
        detail=detail,
        fallback="built_in_runners_only",
    )
