"""What a client may choose from when it starts a run (contract section 5, `execution_controls`)."""

from __future__ import annotations

from typing import Literal

from cueloop_protocol.base import Items, Maybe, Wire
from cueloop_protocol.documents.config import Effort

RunnerSource = Literal["built_in", "global_plugin", "project_plugin"]
DiagnosticCode = Literal["plugin_runner_id_conflict", "plugin_registry_load_failed"]
Fallback = Literal["skipped_plugin_runner", "built_in_runners_only"]


class RunnerControl(Wire):
    """One runner. Without `allowed_models` any model name may be typed, or the runner has a default only."""

    id: str
    display_name: str
    source: RunnerSource
    reasoning_effort_supported: bool
    supports_arbitrary_model: bool
    allowed_models: Maybe[Items[str]] = None
    default_model: Maybe[str] = None


class ParallelWorkers(Wire):
    """The range for a number of workers, and what a bare "in parallel" means."""

    min: int
    max: int
    default_missing_value: int


class Diagnostic(Wire):
    """Why a plugin's runner is not among the runners, and what was done instead."""

    severity: Literal["warning"]
    code: DiagnosticCode
    message: str
    detail: Maybe[str] = None
    plugin_id: Maybe[str] = None
    fallback: Fallback


class ExecutionControls(Wire):
    """The runners in display order, the efforts, the range of workers. `diagnostics` is absent when there are none."""

    runners: Items[RunnerControl]
    reasoning_efforts: Items[Effort]
    parallel_workers: ParallelWorkers
    diagnostics: Maybe[Items[Diagnostic]] = None
