"""Runs: what is at work, what was interrupted, what is left behind."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from shlex import quote

from cueloop_daemon.doctor.carried import is_carried
from cueloop_daemon.doctor.kinds import found
from cueloop_daemon.doctor.record import Damaged, Kept, Newer, read_events, read_runs
from cueloop_daemon.doctor.sight import Sight
from cueloop_daemon.runs.shim.folders import RunFolders
from cueloop_daemon.shim.wire import RUNS
from cueloop_daemon.store import quarantine
from cueloop_daemon.store.atomic import parse_temp
from cueloop_daemon.store.stop_marker import MARKER
from cueloop_protocol.documents.doctor import Finding
from cueloop_protocol.identity import process_start_time
from cueloop_protocol.place import FOLDER
from cueloop_protocol.roots import shown

_MOST_NAMED = 3


def active(sight: Sight) -> Iterator[Finding]:
    """The run that is at work."""
    run = sight.facts.active_run
    if run is None:
        return
    who = f"Run {run.run_id} (task {run.task_id or 'not chosen yet'}, {run.phase or run.state})"
    if sight.has_daemon or sight.asked.state == "not_asked":
        yield found("run-active", f"{who} is at work.")
    else:
        yield found("run-without-daemon", f"{who} is at work, and no daemon looks after it.")


def owed(sight: Sight) -> Iterator[Finding]:
    """Work that was accepted and not finished. While a run is at work it is that run's."""
    if sight.facts.active_run is None and sight.facts.owed:
        names = ", ".join(one.task_id for one in sight.facts.owed)
        yield found("owed-steps", f"The work on {names} was accepted, and its completion is not finished.")


def record(sight: Sight) -> Iterator[Finding]:
    """The daemon's databases, looked into only while no daemon has them."""
    if sight.has_daemon:
        return
    path = sight.kept("runs.db")
    match read_runs(path):
        case Damaged(why):
            yield found("runs-record-damaged", f"{shown(path)} is damaged: {why}.", path=shown(path))
        case Newer(why):
            yield found("runs-record-newer", f"{shown(path)}: {why}.", path=shown(path))
        case Kept(runs):
            yield from _interrupted(sight, runs)
            yield from _folders(sight, runs)
        case None:
            yield from _folders(sight, {})
    events = sight.kept("events.db")
    if isinstance(log := read_events(events), Damaged):
        yield found("event-log-damaged", f"{shown(events)} is damaged: {log.why}.", path=shown(events))


def _interrupted(sight: Sight, runs: Mapping[str, bool]) -> Iterator[Finding]:
    at_work = None if sight.facts.active_run is None else sight.facts.active_run.run_id
    for run_id, is_open in runs.items():
        if is_open and run_id != at_work and not is_carried(sight.root, run_id):
            yield found("run-interrupted", f"Run {run_id} was interrupted: nothing carries it any more.")


def _folders(sight: Sight, runs: Mapping[str, bool]) -> Iterator[Finding]:
    left = [name for name in RunFolders(sight.root, sight.uid).names() if name not in runs and not is_carried(sight.root, name)]
    if left:
        paths = [sight.seen(RUNS, name) for name in left]
        message = f"{_named(paths)} {'is' if len(left) == 1 else 'are'} not in the record of runs."
        fix = f"If you do not want the output: rm -r {' '.join(map(quote, paths[:_MOST_NAMED]))}"
        yield found("run-folder-left", message, fix=fix, path=paths[0])


def left_behind(sight: Sight) -> Iterator[Finding]:
    """What crashes and fresh starts have left: nothing of it is in the way."""
    if sight.facts.active_run is None and os.path.lexists(sight.root.join(*MARKER)):
        path = sight.seen(*MARKER)
        yield found("stop-marker", f"{path} asks a loop to stop, and none runs here.", path=path)
    damaged = [path for name in ("runs.db", "events.db") for path in glob.glob(f"{glob.escape(sight.kept(name))}.damaged-*")]
    if kept := sorted(path for path in damaged if path.rpartition("-")[2].isdigit()):
        yield found("damaged-files-kept", f"{_named([shown(path) for path in kept])} were set aside.", path=shown(kept[0]))
    temporaries = sorted(_temporaries(sight))
    if temporaries:
        message = f"{_named(temporaries)} {'was' if len(temporaries) == 1 else 'were'} being written by a process that is gone."
        yield found("left-over-files", message, path=temporaries[0])
    sessions = [name for name in _names(sight.root.join(*quarantine.FOLDER)) if name.startswith("session.")]
    if sessions:
        path = sight.seen(*quarantine.FOLDER)
        yield found("sessions-quarantined", f"{path} holds {len(sessions)} damaged session file(s).", path=path)


def _temporaries(sight: Sight) -> Iterator[str]:
    for folder in (".cueloop", ".cueloop/cache", FOLDER):
        for name in _names(sight.root.join(folder)):
            temp = parse_temp(name)
            if temp is not None and not temp.is_alive(process_start_time):
                yield sight.seen(folder, name)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _named(paths: list[str]) -> str:
    more = len(paths) - _MOST_NAMED
    return ", ".join(paths[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
