"""Print each decision about a repository's interrupted session as it is pushed. Usage: subscribe_library.py [REPOSITORY] [COUNT]

The library finds the daemon, starts it if need be, and goes on from the right place when the connection is lost.
"""

from __future__ import annotations

import sys

import anyio

from cueloop_client import connect
from cueloop_client.failures import Failure
from cueloop_protocol.codes import RpcError
from cueloop_protocol.documents.envelope import ResumeDecision
from cueloop_protocol.notifications import EventNotification, GapNotification
from cueloop_protocol.roots import RootError


async def main(repository: str, count: int) -> None:
    async with connect(repository) as client, client.subscribe(kinds=["resume_decision"]) as subscription:
        state = subscription.snapshot
        preview = state.document.resume_preview if state and state.document else None
        error = state.error if state else None
        print(error.message if error else preview.message if preview else "No interrupted session.", flush=True)
        while count:
            note = await anext(subscription)
            if isinstance(note, GapNotification):
                print(f"(nothing is known between {note.from_} and {note.to})", flush=True)
            elif isinstance(note, EventNotification) and isinstance(note.event, ResumeDecision):
                print(note.event.message, flush=True)
                count -= 1


if __name__ == "__main__":
    try:
        anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else ".", int(sys.argv[2]) if len(sys.argv) > 2 else -1)
    except KeyboardInterrupt:
        sys.exit(130)
    except (RootError, Failure, RpcError) as exc:
        sys.exit(str(exc))
