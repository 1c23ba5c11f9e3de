"""What became of earlier sessions, and of the agents' own conversations: why a run began anew, and whether the next will."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cueloop_daemon.core.model import SessionLoaded, SessionMissing
from cueloop_daemon.core.settled import settled
from cueloop_daemon.doctor.record import Kept, read_runs
from cueloop_daemon.doctor.sight import PHASES, Sight
from cueloop_daemon.doctor.words import age_words
from cueloop_daemon.runners import Effective
from cueloop_daemon.store.atomic import Author
from cueloop_daemon.store.history import History, HistoryEntry
from cueloop_daemon.store.system import System
from cueloop_protocol.documents.session import Session

WHY: Mapping[str, str] = {
    "session_stale": "its task was not in the queue any more, not `doing`, or a group, so that a run started fresh",
    "session_declined": "somebody chose to start fresh",
    "explicit_task_selection_overrides_session": "another task was named",
    "resume_target_missing": "its task had disappeared when a run was about to go on with it",
    "resume_target_terminal": "its task was done or rejected when a run was about to go on with it",
    "cleared": "it was abandoned by `cueloop session clear`",
    "foreign": "another tool's file stood in its place",
    "left_behind": "a daemon was killed while it was replaced",
}
"""Why a session left its place, as its note in the history has it. One that was finished is no riddle and is not told."""


def past(sight: Sight) -> Iterator[str]:
    """Sentences for people; none where there is nothing to explain."""
    file = settled(sight.facts).session
    if isinstance(file, SessionMissing):
        yield from _put_aside(sight)
    elif isinstance(file, SessionLoaded) and sight.facts.active_run is None:
        yield from _conversation(sight, file.session)


def _put_aside(sight: Sight) -> Iterator[str]:
    entry = _last(sight)
    if entry is None or entry.note.why not in WHY:
        return
    whose = f"of task {entry.note.task_id.strip()} " if entry.note.task_id else ""
    seconds = int((sight.now - entry.note.when).total_seconds())
    ago = f"{age_words(seconds)} ago" if seconds >= 0 else "at a time that lies ahead"
    yield f"The last session {whose}left its place {ago}, because {WHY[entry.note.why]}; it is kept in {entry.path}."


def _last(sight: Sight) -> HistoryEntry | None:
    try:
        entries = History(sight.root, System(), Author(0, ""), sight.uid).entries()
    except OSError:
        return None
    return entries[-1] if entries else None


def _conversation(sight: Sight, session: Session) -> Iterator[str]:
    """The record belongs to a daemon that is there; without one it can be looked into."""
    name = PHASES.get(session.current_phase)
    settings = sight.phases.get(name) if name is not None else None
    if sight.has_daemon or not isinstance(settings, Effective):
        return
    record, runner = read_runs(sight.kept("runs.db")), settings.settings.runner
    known = record.conversations if isinstance(record, Kept) else {}
    place = (session.task_id.strip(), session.session_id, session.iterations_completed + 1, session.current_phase, runner)
    match known.get(place):
        case None:
            yield f"No conversation of {runner} is on record for this phase: a new one begins, with everything that it has to know."
        case "gone":
            yield f"{runner} does not know its conversation of this phase any more: a new one begins."
        case _:
            yield f"The conversation of {runner} in this phase is on record, and is gone on with if {runner} still knows it."
