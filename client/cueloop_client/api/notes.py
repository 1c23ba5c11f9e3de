"""What a subscription gives: the daemon's notifications as models."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from cueloop_client.api.stream import RawNote
from cueloop_protocol.notifications import (
    EventNotification,
    GapNotification,
    QuestionNotification,
    QuestionResolvedNotification,
    RunFinishedNotification,
)

Note = (
    EventNotification | RunFinishedNotification | QuestionNotification | QuestionResolvedNotification | GapNotification | RawNote
)
"""A RawNote is one that this version cannot read, because its kind or shape is newer. Nothing is swallowed."""

_MODELS: Mapping[str, type[BaseModel]] = {
    "event": EventNotification,
    "run.finished": RunFinishedNotification,
    "question": QuestionNotification,
    "question.resolved": QuestionResolvedNotification,
    "gap": GapNotification,
}


def note_of(raw: RawNote) -> Note:
    """The notification as its model; keys that this version does not know are left out."""
    model = _MODELS.get(raw.method)
    if model is None:
        return raw
    try:
        note = model.model_validate_json(to_json(raw.params), extra="ignore")
    except ValidationError:
        return raw
    assert isinstance(note, Note)
    return note
