"""The ways to go on with a session that there is: for each choice the command that makes it."""

from __future__ import annotations

from datetime import datetime

from cueloop_daemon.core.decide import outcome
from cueloop_daemon.core.model import (
    SessionCorrupt,
    SessionFile,
    SessionLoaded,
    SessionMissing,
    SessionTooLarge,
    SessionTooNew,
    SessionUnreadable,
    Snapshot,
)
from cueloop_daemon.core.request import run_request
from cueloop_protocol.documents.doctor import WayOn

CLEAR = WayOn(
    name="clear", command="cueloop session clear", effect="Abandons the session; its file goes to the history, byte for byte."
)
LEAVE = WayOn(name="leave", command="cueloop session show", effect="Leaves everything as it is, and shows the session.")


def ways_on(file: SessionFile, facts: Snapshot, now: datetime) -> tuple[WayOn, ...]:
    """Resume, fresh, leave, clear: those that this file allows."""
    match file:
        case SessionMissing() | SessionUnreadable():
            return ()
        case SessionTooLarge() | SessionTooNew():
            return (LEAVE, CLEAR)
        case SessionCorrupt():
            fresh = WayOn(
                name="fresh", command="cueloop run one --fresh", effect="Begins anew; the damaged file goes into quarantine."
            )
            return (fresh, LEAVE, CLEAR)
        case SessionLoaded():
            return (*_loaded(facts, now), LEAVE, CLEAR)


def _loaded(facts: Snapshot, now: datetime) -> tuple[WayOn, ...]:
    fresh = WayOn(name="fresh", command="cueloop run one --fresh", effect="Begins anew; the session's file goes to the history.")
    decision = outcome(facts, run_request("resume"), now).decision
    if decision is None or decision.status == "falling_back_to_fresh_invocation":
        return (fresh,)
    if decision.status == "refusing_to_resume":
        effect = "Asks at a terminal what to do: r resumes, f begins anew, Enter leaves it."
        return (WayOn(name="resume", command="cueloop run one", effect=effect), fresh)
    return (WayOn(name="resume", command="cueloop run resume", effect="Goes on with the session, then with the queue."), fresh)
