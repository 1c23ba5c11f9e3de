"""What the watch has to say when the repository changed without a run (design section 5). Two states in, announcements out."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from cueloop_daemon.core.model import Unusable
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of one audience: all that its announcements compare.

    `document` is a digest of the config-resolve document with default params, `settings` one of the same without its preview;
    both None while the configuration or the queue cannot be used, and then `fault` says why. `queue` is a digest of queue and
    done file.
    """

    decision: Decision | None
    document: str | None
    settings: str | None
    queue: str
    fault: str | None


@dataclass(frozen=True, slots=True)
class DecisionChanged:
    """`resume_decision`: another decision than the one announced last."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class DocumentChanged:
    """`config_resolved`."""


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """`queue_snapshot`."""


@dataclass(frozen=True, slots=True)
class FaultAppeared:
    """`warning`: a document cannot be used any more."""

    message: str


Announcement = DecisionChanged | DocumentChanged | QueueChanged | FaultAppeared


def announcements(before: Standing, now: Standing, *, mute_decisions: bool) -> list[Announcement]:
    """What to announce, in order: the queue, then the decision, then the document that has it.

    While `mute_decisions` (somebody runs) the preview's changes are not announced; the settings' are. After a fault the document
    is announced even if it is the one that stood before: whoever heard of the fault hears that it is over.
    """
    said: list[Announcement] = []
    if now.queue != before.queue:
        said.append(QueueChanged())
    if now.fault is not None:
        if now.fault != before.fault:
            said.append(FaultAppeared(now.fault))
        return said
    if not mute_decisions and now.decision is not None and _is_another(now.decision, before.decision):
        said.append(DecisionChanged(now.decision))
    changed = now.settings != before.settings if mute_decisions else now.document != before.document
    if changed or before.fault is not None:
        said.append(DocumentChanged())
    return said


def announced(before: Standing, now: Standing, *, mute_decisions: bool) -> Standing:
    """What stands as announced after that: what was not said is still owed."""
    if now.fault is not None:
        return Standing(before.decision, before.document, before.settings, now.queue, now.fault)
    if mute_decisions:
        return Standing(before.decision, before.document, now.settings, now.queue, None)
    return now


def _is_another(now: Decision, before: Decision | None) -> bool:
    """A timed-out session grows older each hour; that changes the text, not the decision."""
    if before is None:
        return True
    if now.reason == before.reason == "session_timed_out_requires_confirmation":
        return now.task_id != before.task_id
    return now != before


def fault_of(*documents: object) -> str | None:
    """The sentence about the first document that cannot be used, with its detail."""
    for document in documents:
        if isinstance(document, Unusable):
            return document.message if document.detail is None else f"{document.message} {document.detail}"
    return None


def standing_from_json(data: Mapping[str, object]) -> Standing | None:
    """A standing as `standing_to_json` wrote it; None if it is none (another version wrote it)."""
    try:
        decision = None if data["decision"] is None else Decision.model_validate(data["decision"])
        texts = [data[name] for name in ("document", "settings", "fault")]
        queue = data["queue"]
    except (KeyError, ValidationError):
        return None
    document, settings, fault = (text if isinstance(text, str) else None for text in texts)
    return Standing(decision, document, settings, queue if isinstance(queue, str) else "", fault)


def standing_to_json(standing: Standing) -> dict[str, object]:
    """The standing as plain JSON values."""
    return {
        "decision": None if standing.decision is None else standing.decision.model_dump(mode="json"),
        "document": standing.document,
        "settings": standing.settings,
        "queue": standing.queue,
        "fault": standing.fault,
    }
