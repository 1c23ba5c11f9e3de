"""Whether a run may start: the decision without the lock, for the answer to whoever asks (design section 6, "Task"). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256

from cueloop_daemon import answers
from cueloop_daemon.core.decide import outcome
from cueloop_daemon.core.model import QueueMissing, SessionFile, SessionLoaded, Snapshot, Unusable
from cueloop_daemon.core.overview import missing_queue
from cueloop_daemon.core.request import request_of
from cueloop_daemon.core.stamps import parse_stamp
from cueloop_protocol import codes
from cueloop_protocol.base import dump, to_json_bytes
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.params import RunStartParams
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class MayStart:
    """Nothing stands against it. `decision` is the one that the run starts with, None if it has none."""

    config: Config
    decision: Decision | None


def may_start(facts: Snapshot, asked: RunStartParams, now: datetime) -> MayStart:
    """Raises RpcError: a document cannot be used, a person must decide first, or has decided about another file."""
    facts = answers.usable(facts)
    queue = missing_queue(facts.queue) if isinstance(facts.queue, QueueMissing) else None
    for bad in (facts.done, queue):
        if isinstance(bad, Unusable):
            raise answers.unusable(bad)
    assert isinstance(facts.config, Config)
    found = outcome(facts, request_of(asked), now)
    if found.answer_is_void:
        raise codes.confirmation_stale(answers.etag_of(facts), None if found.decision is None else dump(found.decision))
    if found.question is not None and found.decision is not None:
        shown = _session_shown(facts.session, now)
        raise codes.confirmation_required(dump(found.decision), found.question.etag, found.question.choices, shown)
    return MayStart(facts.config, found.decision)


def digest_of(asked: RunStartParams) -> str:
    """Equal for the same request, so that a key used again is told from one used for something else. Environments do not count:
    nothing of them is kept where it could be guessed from.
    """
    plain = asked.model_copy(update={"env": {}, "idempotency_key": None})
    return sha256(to_json_bytes(plain)).hexdigest()


def _session_shown(file: SessionFile, now: datetime) -> Mapping[str, object] | None:
    """What the person who decides is shown of the session."""
    if not isinstance(file, SessionLoaded):
        return None
    moment = parse_stamp(file.session.last_updated_at)
    age = {} if moment is None else {"age_seconds": max(int((now - moment).total_seconds()), 0)}
    return {**dump(file.session), **age}
