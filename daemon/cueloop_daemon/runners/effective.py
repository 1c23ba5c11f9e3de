"""The settings of one phase: call > task > `phase_overrides` > `agent`, computed anew at each start and resume."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cueloop_daemon.core.controls import BUILT_IN
from cueloop_daemon.runners.model import Settings, UnknownRunner
from cueloop_daemon.runners.models import Wish, choose_model
from cueloop_daemon.runners.options import TAKES_EFFORT, unsupported
from cueloop_daemon.runners.plugin import PluginFacts
from cueloop_protocol.documents.config import Agent, Config, Cursor
from cueloop_protocol.documents.config import PhaseOverride as ConfigPhase
from cueloop_protocol.documents.queue import PhaseOverride as TaskPhase
from cueloop_protocol.documents.queue import TaskAgent
from cueloop_protocol.documents.session import runner_name
from cueloop_protocol.overrides import Overrides, PhaseFlags
from cueloop_protocol.values import dataclass

_DEFAULT_EFFORT = "medium"
_NATIVE = frozenset(runner.id for runner in BUILT_IN if runner.reasoning_effort_supported)
_BIN: Mapping[str, str] = {"cursor": "cursor_sdk_node_bin"}


@dataclass(frozen=True, slots=True)
class Effective:
    """The settings, and what the run has to say about them."""

    settings: Settings
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """These settings cannot be used; both texts are fit for people, and nothing has happened."""

    message: str
    detail: str


@dataclass(frozen=True, slots=True)
class _Layers:
    """Everything that may say something, highest first."""

    flags: PhaseFlags
    call: Overrides
    task_phase: TaskPhase
    task: TaskAgent
    config_phase: ConfigPhase
    agent: Agent


def effective(
    config: Config,
    task: TaskAgent | None,
    call: Overrides,
    phase: int,
    plugins: Mapping[str, PluginFacts],
    *,
    iteration: int = 1,
) -> Effective | Refused | UnknownRunner:
    """The settings of `phase` (1..3; a single phase is 2) in iteration `iteration` (from 1). The profile is already in `config`."""
    layers = _layers(config, task, call, phase)
    runner = _runner(layers)
    plugin = plugins.get(runner)
    control = next((control for control in BUILT_IN if control.id == runner), None)
    if control is None and plugin is None:
        known = ", ".join([*(control.id for control in BUILT_IN), *plugins])
        return UnknownRunner(runner, f"There is no runner {runner}.", f"Choose one of {known}.")
    allowed = control.allowed_models if control is not None else None
    default = control.default_model if control is not None else plugin.default_model if plugin is not None else None
    model = choose_model(runner, _wishes(layers, runner), allowed=allowed, default=default)
    if not isinstance(model.name, str):
        return Refused(model.refusal, f"Choose one of {', '.join(allowed or ())}, or leave the model out.")
    settings = Settings(
        runner=runner,
        model=model.name,
        effort=_effort(layers, runner, iteration),
        **_options(layers, runner),
        permission_mode=layers.agent.claude_permission_mode,
        bin=plugin.bin
        if plugin is not None and control is None
        else str(getattr(layers.agent, _BIN.get(runner, f"{runner}_bin"))),
        cursor=_cursor(layers) if runner == "cursor" else None,
    )
    return _allowed(settings, model.warnings)


def _allowed(settings: Settings, warnings: tuple[str, ...]) -> Effective | Refused:
    found = unsupported(settings)
    if found and settings.option_policy == "error":
        return Refused(
            f"{settings.runner} cannot honour {', '.join(found)}.",
            "Leave it out, choose another runner, or set unsupported_option_policy to warn.",
        )
    if found and settings.option_policy == "warn":
        warnings = (*warnings, *(f"{settings.runner} cannot honour {option}; it is ignored." for option in found))
    if settings.runner not in TAKES_EFFORT and settings.runner in {control.id for control in BUILT_IN}:
        settings = replace(settings, effort=None)
    return Effective(settings, warnings)


def _layers(config: Config, task: TaskAgent | None, call: Overrides, phase: int) -> _Layers:
    own = task or TaskAgent()
    name = f"phase{phase}"
    of_task = getattr(own.phase_overrides, name, None) if own.phase_overrides else None
    return _Layers(
        getattr(call, name) or PhaseFlags(),
        call,
        of_task or TaskPhase(),
        own,
        getattr(config.agent.phase_overrides, name) or ConfigPhase(),
        config.agent,
    )


def _runner(layers: _Layers) -> str:
    wishes = (layers.flags.runner, layers.call.runner, layers.task_phase.runner, layers.task.runner, layers.config_phase.runner)
    return runner_name(next((wish for wish in wishes if wish), layers.agent.runner))


def _wishes(layers: _Layers, runner: str) -> Iterable[Wish]:
    """Each model that is asked for, highest first, with the runner that it was meant for: the one that holds at its layer."""
    flags, call, task_phase, task, config_phase, agent = (
        layers.flags,
        layers.call,
        layers.task_phase,
        layers.task,
        layers.config_phase,
        layers.agent,
    )
    below = runner_name(agent.runner)
    wishes = [Wish(agent.model, below, "agent.model")]
    for layer, place in ((config_phase, "phase_overrides"), (task, "the task"), (task_phase, "the task's phase_overrides")):
        below = runner_name(layer.runner) if layer.runner else below
        if layer.model:
            wishes.append(Wish(layer.model, below, place))
    for model in (call.model, flags.model):
        if model:
            wishes.append(Wish(model, runner, None))
    return reversed(wishes)


def _effort(layers: _Layers, runner: str, iteration: int) -> str | None:
    """The effort, or None: the runner's own default stands.

    `medium` is what a configuration says where nobody said anything; runners that the contract lists without an effort get it
    only from a call or a task.
    """
    task_effort = layers.task.model_effort if layers.task.model_effort != "default" else None
    asked: tuple[str | None, ...] = (layers.flags.effort, layers.call.effort)
    if iteration > 1:
        asked = (*asked, layers.task.followup_reasoning_effort)
    asked = (*asked, layers.task_phase.reasoning_effort, task_effort)
    if (found := next((effort for effort in asked if effort), None)) is not None:
        return found
    followup = layers.agent.followup_reasoning_effort if iteration > 1 else None
    configured = followup or layers.config_phase.reasoning_effort or layers.agent.reasoning_effort
    return configured if runner in _NATIVE or configured != _DEFAULT_EFFORT else None


def _options(layers: _Layers, runner: str) -> dict[str, str]:
    cli = layers.agent.runner_cli
    sources = (layers.call, layers.task.runner_cli, cli.runners.get(runner), cli.defaults)

    def first(name: str, default: str) -> str:
        values = (getattr(source, name) for source in sources if source is not None)
        return next((str(value) for value in values if value is not None), default)

    return {
        "approval_mode": first("approval_mode", "default"),
        "sandbox": first("sandbox", "default"),
        "plan_mode": first("plan_mode", "default"),
        "output_format": first("output_format", "stream_json"),
        "verbosity": first("verbosity", "normal"),
        "option_policy": first("unsupported_option_policy", "warn"),
    }


def _cursor(layers: _Layers) -> Cursor | None:
    found = [
        each for each in (layers.task_phase.cursor, layers.task.cursor, layers.config_phase.cursor, layers.agent.cursor) if each
    ]
    if not found:
        return None
    params = next((each.model_params for each in found if each.model_params is not None), None)
    sources = next((each.setting_sources for each in found if each.setting_sources is not None), None)
    return Cursor(model_params=params, setting_sources=sources)
