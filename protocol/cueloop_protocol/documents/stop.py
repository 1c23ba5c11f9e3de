"""What `cueloop machine run stop` prints, version 1 (contract section 7)."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from cueloop_protocol.base import Exactly, Items, Maybe, Wire
from cueloop_protocol.documents.blocking import BlockingState
from cueloop_protocol.documents.resolve import DocumentPaths

Action = Literal["would_create", "created", "already_present"]

_MARKER: dict[tuple[Action, bool], tuple[bool, bool]] = {
    ("would_create", True): (False, False),
    ("created", False): (False, True),
    ("already_present", True): (True, True),
    ("already_present", False): (True, True),
}
"""(action, dry_run) → (existed_before, exists_after); what is not here cannot happen."""


class Marker(Wire):
    """The stop marker: any file at `path`; a loop looks at it between tasks."""

    path: str
    existed_before: bool
    exists_after: bool


class NextStep(Wire):
    """A command that a person may want now."""

    title: str
    command: str
    detail: str


class Continuation(Wire):
    """What happens next, in words."""

    headline: str
    detail: str
    blocking: Maybe[BlockingState] = None
    next_steps: Items[NextStep]


class StopDocument(Wire):
    """The answer to a request to stop after the current task."""

    version: Exactly[Literal[1]] = 1
    dry_run: bool
    action: Action
    paths: DocumentPaths
    marker: Marker
    blocking: Maybe[BlockingState] = None
    continuation: Continuation

    @model_validator(mode="after")
    def _action_fits_marker(self) -> StopDocument:
        if _MARKER.get((self.action, self.dry_run)) != (self.marker.existed_before, self.marker.exists_after):
            raise PydanticCustomError("stop_marker", "the action contradicts the marker or dry_run")
        return self
