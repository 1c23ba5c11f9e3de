"""Queue and done file (contract section 8). The models are strict, and print a task as the file and all documents have it."""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from cueloop_protocol.base import Exactly, Items, Maybe, Wire
from cueloop_protocol.documents.session import Byte, Effort, RunnerName, Word

QUEUE_VERSION: Final = 1

TaskStatus = Literal["draft", "todo", "doing", "done", "rejected"]
TaskKind = Literal["work_item", "group"]
Priority = Literal["critical", "high", "medium", "low"]
Texts = Items[str]

_LARGEST: Final = 2**64 - 1
_SMALLEST: Final = -(2**63)
_BEYOND: Final = 2**1024 - 2**970  # from here on a float is infinite


def field_text(value: object) -> object:
    """A custom field's value as text: numbers and booleans become what JSON writes for them; anything else is left to fail."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and _SMALLEST <= value <= _LARGEST:
        return str(value)
    if isinstance(value, int):  # a number beyond 64 bits is read as a fraction by the other tool, and written so
        return _float_text(float(value) if abs(value) < _BEYOND else math.inf)
    if isinstance(value, float):
        return _float_text(value)
    if not isinstance(value, str):
        raise PydanticCustomError("field_type", "Input should be a text, a number or a boolean")
    return value


def _float_text(number: float) -> str:
    if not math.isfinite(number):
        raise PydanticCustomError("field_number", "Input should be a finite number")
    if 1e-5 <= abs(number) < 1e-4:  # written out there, where Python changes to an exponent
        digits, _, exponent = repr(number).partition("e-")
        return f"{'-' if number < 0 else ''}0.{'0' * (int(exponent) - 1)}{digits.lstrip('-').replace('.', '')}"
    text = repr(number)
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if mark else text


FieldText = Annotated[str, BeforeValidator(field_text)]


class CursorOptions(Wire):
    """Options of the Cursor runner for one task or phase."""

    model_params: Maybe[dict[str, str | bool]] = None
    setting_sources: Maybe[Items[Literal["project", "user", "team", "mdm", "plugins", "all"]]] = None


class RunnerCli(Wire):
    """What is wanted of a runner's command line, for one task."""

    output_format: Maybe[Literal["stream_json", "json", "text"]] = None
    verbosity: Maybe[Literal["quiet", "normal", "verbose"]] = None
    approval_mode: Maybe[Literal["default", "auto_edits", "yolo", "safe"]] = None
    sandbox: Maybe[Literal["default", "enabled", "disabled"]] = None
    plan_mode: Maybe[Literal["default", "enabled", "disabled"]] = None
    unsupported_option_policy: Maybe[Literal["ignore", "warn", "error"]] = None


class PhaseOverride(Wire):
    """What one phase of a task runs with."""

    runner: Maybe[RunnerName] = None
    model: Maybe[str] = None
    reasoning_effort: Maybe[Effort] = None
    cursor: Maybe[CursorOptions] = None


class PhaseOverrides(Wire):
    """What the phases of a task run with."""

    phase1: Maybe[PhaseOverride] = None
    phase2: Maybe[PhaseOverride] = None
    phase3: Maybe[PhaseOverride] = None


def _is_default(value: object) -> bool:
    return value == "default"


class TaskAgent(Wire):
    """What one task runs with, before `phase_overrides` and `agent` of the configuration."""

    runner: Maybe[RunnerName] = None
    model: Maybe[str] = None
    model_effort: Annotated[Literal["default", "low", "medium", "high", "xhigh"], Field(exclude_if=_is_default)] = "default"
    phases: Maybe[Byte] = None
    iterations: Maybe[Byte] = None
    followup_reasoning_effort: Maybe[Effort] = None
    cursor: Maybe[CursorOptions] = None
    runner_cli: Maybe[RunnerCli] = None
    phase_overrides: Maybe[PhaseOverrides] = None


def _is_work(value: object) -> bool:
    return value == "work_item"


class Task(Wire):
    """One task, in printing order. `kind` is printed only for a group, lists and `custom_fields` always."""

    id: str
    status: TaskStatus = "todo"
    kind: Annotated[TaskKind, Field(exclude_if=_is_work)] = "work_item"
    title: str
    description: Maybe[str] = None
    priority: Priority = "medium"
    tags: Texts = ()
    scope: Texts = ()
    evidence: Texts = ()
    plan: Texts = ()
    notes: Texts = ()
    request: Maybe[str] = None
    agent: Maybe[TaskAgent] = None
    created_at: Maybe[str] = None
    updated_at: Maybe[str] = None
    completed_at: Maybe[str] = None
    started_at: Maybe[str] = None
    estimated_minutes: Maybe[Word] = None
    actual_minutes: Maybe[Word] = None
    scheduled_start: Maybe[str] = None
    depends_on: Texts = ()
    blocks: Texts = ()
    relates_to: Texts = ()
    duplicates: Maybe[str] = None
    custom_fields: dict[str, FieldText] = Field(default_factory=dict)
    parent_id: Maybe[str] = None


class QueueDocument(Wire):
    """A queue or done file as a whole."""

    version: Exactly[Literal[1]]
    tasks: Items[Task] = ()
