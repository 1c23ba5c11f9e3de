"""What a call may set for one run in place of its configuration: the run flags of the command line (contract section 10)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cueloop_protocol.base import Maybe, Wire

Effort = Literal["low", "medium", "high", "xhigh"]
Switch = Literal["default", "enabled", "disabled"]
Text = Annotated[str, Field(pattern=r"\S")]
Milliseconds = Annotated[int, Field(ge=1, le=2**32 - 1)]


class PhaseFlags(Wire):
    """`--runner-phaseN`, `--model-phaseN`, `--effort-phaseN`."""

    runner: Maybe[Text] = None
    model: Maybe[Text] = None
    effort: Maybe[Effort] = None


class Overrides(Wire):
    """Everything absent: as configured. Named like the flags; `effort` is the reasoning effort."""

    profile: Maybe[Text] = None
    runner: Maybe[Text] = None
    model: Maybe[Text] = None
    effort: Maybe[Effort] = None
    phases: Maybe[Annotated[int, Field(ge=1, le=3)]] = None
    quick: bool = False
    phase1: Maybe[PhaseFlags] = None
    phase2: Maybe[PhaseFlags] = None
    phase3: Maybe[PhaseFlags] = None
    approval_mode: Maybe[Literal["default", "auto_edits", "yolo", "safe"]] = None
    sandbox: Maybe[Switch] = None
    plan_mode: Maybe[Switch] = None
    output_format: Maybe[Literal["stream_json", "json", "text"]] = None
    verbosity: Maybe[Literal["quiet", "normal", "verbose"]] = None
    unsupported_option_policy: Maybe[Literal["ignore", "warn", "error"]] = None
    git_revert_mode: Maybe[Literal["ask", "enabled", "disabled"]] = None
    git_publish_mode: Maybe[Literal["off", "commit", "commit_and_push"]] = None
    include_draft: bool = False
    lfs_check: bool = False
    repo_prompt: Maybe[Literal["tools", "plan", "off"]] = None
    notify: Maybe[bool] = None
    notify_fail: Maybe[bool] = None
    notify_sound: bool = False
    wait_when_blocked: bool = False
    wait_when_empty: bool = False
    wait_poll_ms: Maybe[Milliseconds] = None
    empty_poll_ms: Maybe[Milliseconds] = None
    wait_timeout_seconds: Maybe[Annotated[int, Field(ge=0, le=2**32 - 1)]] = None
    notify_when_unblocked: bool = False

    @model_validator(mode="after")
    def _quick_is_one_phase(self) -> Overrides:
        if self.quick and self.phases not in (None, 1):
            raise PydanticCustomError("override_quick", "quick means one phase and contradicts phases")
        return self
