"""Defaults ← global file ← project file: the layers of the configuration and what they make together (contract section 4).

Layers are merged leaf by leaf; a list, the aging thresholds and a plugin's own settings are replaced whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel

from cueloop_daemon.core.config_defaults import DEFAULTS
from cueloop_daemon.core.config_rules import CONFIG
from cueloop_daemon.core.conflicts import SECTION_CHECKS
from cueloop_daemon.core.rules import RuleError, Whole
from cueloop_protocol.documents.config import (
    AgentPatch,
    CiGatePatch,
    Config,
    NotificationPatch,
    PluginSetting,
    RunnerOptions,
    RunnerRetry,
    Webhook,
)
from cueloop_protocol.values import dataclass

Values = Mapping[str, object]

RUNNER_ORDER = ("codex", "opencode", "gemini", "cursor", "claude", "kimi", "pi")
"""The order in which `runner_cli.runners` is printed; the ids of plugins follow."""


class ConfigError(Exception):
    """A config file says something that cannot be. `path` is the file; `rule` names key, value and what is allowed."""

    def __init__(self, path: str, rule: RuleError) -> None:
        super().__init__(f"{path}: {rule}")
        self.path = path
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Layer:
    """One file's checked values: only what it sets, every name and number uniform. `path` is the file as people see it."""

    path: str
    values: Values

    def get(self, *keys: str) -> object:
        """What stands at a place; None where the layer sets nothing."""
        return dig(self.values, *keys)


def read_layer(path: str, document: object) -> Layer:
    """The layer that a file's value is. Raises ConfigError."""
    try:
        values = CONFIG(document, ())
    except RuleError as exc:
        raise ConfigError(path, exc) from exc
    return Layer(path, as_values(values))


def dig(value: object, *keys: str) -> object:
    """`dig(values, "agent", "runner")`; None where there is no such place."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def as_values(value: object) -> Values:
    """The value, if it is an object; an empty one otherwise."""
    return value if isinstance(value, Mapping) else {}


def resolve(layers: Sequence[Layer]) -> Config:
    """The configuration that the layers make on top of the defaults, lowest first.

    Raises ConfigError for what does not go together, naming the highest file that has a part in it.
    """
    merged: Values = DEFAULTS
    for layer in layers:
        merged = _merge(merged, layer.values)
    _check(merged, layers)
    return Config.model_validate(_whole_config(merged))


def _merge(low: Values, high: Values) -> Values:
    merged = dict(low)
    for key, value in high.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def _check(merged: Values, layers: Sequence[Layer]) -> None:
    agent = as_values(merged["agent"])
    _check_agent(agent, ("agent",), layers)
    for name, patch in as_values(merged.get("profiles")).items():
        _check_agent(_merge(agent, as_values(patch)), ("profiles", name), layers)


def _check_agent(agent: Values, place: tuple[str, ...], layers: Sequence[Layer]) -> None:
    for section, check in SECTION_CHECKS.items():
        try:
            check(as_values(agent[section]), (*place, section))
        except RuleError as exc:
            said = [layer for layer in layers if layer.get(*place, section) or layer.get("agent", section)]
            raise ConfigError(said[-1].path, exc) from exc


def _whole_config(merged: Values) -> Values:
    """Every key of the document, unset ones as None, names in the order in which they are printed."""
    queue = as_values(merged["queue"])
    config: dict[str, object] = {
        **merged,
        "queue": {"auto_archive_terminal_after_days": None, **queue, "aging_thresholds": _plain(queue["aging_thresholds"])},
        "agent": _whole_agent(as_values(merged["agent"])),
        "parallel": {**dict.fromkeys(("workers", "workspace_root", "ignored_file_allowlist")), **as_values(merged["parallel"])},
        "plugins": {"plugins": {name: _whole_plugin(value) for name, value in _by_name(dig(merged, "plugins", "plugins"))}},
    }
    if "profiles" in merged:
        config["profiles"] = {name: _whole_patch(value) for name, value in _by_name(merged["profiles"])}
    return config


def _whole_agent(agent: Values) -> Values:
    return {
        **_parts(agent),
        "ci_gate": agent["ci_gate"],
        "notification": {"sound_path": None, **as_values(agent["notification"])},
    }


def _whole_patch(patch: object) -> Values:
    values = as_values(patch)
    gate = values.get("ci_gate")
    return {
        **_parts(values),
        "ci_gate": None if gate is None else _filled(CiGatePatch, gate),
        "notification": _filled(NotificationPatch, values.get("notification")),
    }


def _parts(agent: Values) -> dict[str, object]:
    """What `agent` and a profile print alike."""
    return {
        **_filled(AgentPatch, agent),
        "cursor": _whole_cursor(agent.get("cursor")),
        "runner_cli": _whole_cli(agent.get("runner_cli")),
        "webhook": _filled(Webhook, agent.get("webhook")),
        "runner_retry": _filled(RunnerRetry, agent.get("runner_retry")),
        "phase_overrides": _whole_phases(agent.get("phase_overrides")),
    }


def _whole_cursor(cursor: object) -> Values | None:
    if cursor is None:
        return None
    values = as_values(cursor)
    if "model_params" in values:
        values = {**values, "model_params": dict(_by_name(values["model_params"]))}
    return values


def _whole_phases(phases: object) -> Values | None:
    if phases is None:
        return None
    whole: dict[str, object] = {}
    for name, phase in as_values(phases).items():
        values = as_values(phase)
        whole[name] = {**values, "cursor": _whole_cursor(values["cursor"])} if "cursor" in values else values
    return whole


def _whole_cli(cli: object) -> Values | None:
    if cli is None:
        return None
    runners = as_values(dig(cli, "runners"))
    names = [name for name in RUNNER_ORDER if name in runners] + sorted(set(runners) - set(RUNNER_ORDER))
    return {
        "defaults": _filled(RunnerOptions, dig(cli, "defaults")),
        "runners": {name: _filled(RunnerOptions, runners[name]) for name in names},
    }


def _whole_plugin(plugin: object) -> Values:
    values = _filled(PluginSetting, plugin)
    return {**values, "config": _sorted(_plain(values["config"]))}


def _filled(model: type[BaseModel], values: object) -> dict[str, object]:
    return {name: dig(values, name) for name in model.model_fields}


def _plain(value: object) -> object:
    return value.value if isinstance(value, Whole) else value


def _by_name(values: object) -> Iterable[tuple[str, object]]:
    return sorted(as_values(values).items())


def _sorted(value: object) -> object:
    """A plugin's own settings with the keys of every object in order, as all tools print them."""
    if isinstance(value, Mapping):
        return {key: _sorted(entry) for key, entry in sorted(value.items())}
    if isinstance(value, list):
        return [_sorted(entry) for entry in value]
    return value
