"""The dump of a daemon that does not answer, from what it left on disk. Blocking; for a process of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime

from cueloop_daemon.core.model import Unusable
from cueloop_daemon.core.stamps import format_stamp
from cueloop_daemon.dump.document import Known, dump_bytes
from cueloop_daemon.dump.records import event_facts, of_copy, run_facts
from cueloop_daemon.store.settings import load_settings
from cueloop_daemon.workspace.files import read_regular
from cueloop_protocol.place import FOLDER, root_hash
from cueloop_protocol.roots import Caller, Root


def dump_without_daemon(root: Root, caller: Caller, environ: Mapping[str, str], now: datetime) -> bytes:
    """As JSON. Creates nothing in the repository, and raises nothing for what it is. `environ` is the caller's own."""
    notes: list[str] = []
    settings = load_settings(caller, lambda path: read_regular(path)[0]).settings
    if isinstance(settings, Unusable):
        notes.append(f"The settings cannot be used: {settings.code}.")
    runs = of_copy(_place(root, caller, "runs.db"), run_facts, "The record of runs", notes)
    events = of_copy(_place(root, caller, "events.db"), event_facts, "The event log", notes)
    return dump_bytes(
        Known(
            root=root,
            caller=caller,
            homes=(caller.home,),
            environ=environ,
            made_at=format_stamp(now),
            settings=None if isinstance(settings, Unusable) else settings,
            runs=runs,
            events=events,
            notes=notes,
        )
    )


def _place(root: Root, caller: Caller, name: str) -> str:
    """Where the database is: in the repository, or in the state folder where its path is too long for SQLite."""
    path = root.join(FOLDER, name)
    return path if os.path.lexists(path) else f"{caller.home}/.local/state/cueloopd/{root_hash(root)}/{name}"
