"""The dump of a daemon that answers."""

from __future__ import annotations

import anyio
import anyio.to_process

from cueloop_daemon.core.stamps import format_stamp
from cueloop_daemon.dump.document import Known, dump_elsewhere
from cueloop_daemon.dump.records import MOST_EVENTS, run_facts
from cueloop_daemon.dump.stacks import task_stacks, thread_stacks
from cueloop_daemon.server.handlers.daemon import status
from cueloop_daemon.server.requests import Call
from cueloop_daemon.services import Services
from cueloop_daemon.store.sqlite import DbError
from cueloop_protocol import codes
from cueloop_protocol.dump_results import EventFact, RunFact
from cueloop_protocol.params import NoParams
from cueloop_protocol.results import StatusResult

SECONDS = 10.0
"""How long reading may take: a repository on a file server that hangs must not hold the daemon's end up."""


async def dump_of(call: Call[Services]) -> bytes:
    """The dump as JSON. The loop is held for stacks and status alone. Raises RpcError if the files cannot be had in time.

    Also where the worker process dies: an exception of its own, told as "internal error".
    """
    services = call.services
    tasks, threads = task_stacks(), thread_stacks()
    with anyio.move_on_after(SECONDS):
        view = services.workspace.view(None)
        if not view.revision:  # never looked at, which a daemon that serves has done; what it saw last is good enough here
            await services.workspace.refresh(view)
        found, notes = status(call, NoParams()).result, list[str]()
        assert isinstance(found, StatusResult)
        known = Known(
            root=services.root,
            caller=services.workspace.default,
            homes=tuple({services.workspace.default.home, *(view.caller.home for view in services.workspace.views())}),
            environ=services.environ,
            made_at=format_stamp(call.now),
            settings=services.settings(),
            status=found,
            tasks=tasks,
            threads=threads,
            runs=await _runs(services, notes),
            events=await _events(services),
            notes=notes,
        )
        # In a process of its own: looking through a queue of 12 MB holds the interpreter, and with it the loop, for seconds.
        return await anyio.to_process.run_sync(dump_elsewhere, known, cancellable=True)
    raise codes.RpcError(codes.INTERNAL_ERROR, f"The files of the repository could not be looked at within {SECONDS:g} s.")


async def _runs(services: Services, notes: list[str]) -> list[RunFact]:
    try:
        return await services.engine.look(run_facts)
    except DbError as exc:
        notes.append(f"The record of runs cannot be told: {exc}.")
        return []


async def _events(services: Services) -> list[EventFact]:
    rows = await services.hub.recent(MOST_EVENTS)
    return [EventFact(seq=row.seq, method=row.method, kind=row.kind, run_id=row.run_id) for row in rows]
