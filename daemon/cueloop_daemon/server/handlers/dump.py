"""`daemon.dump`: what the loop alone can tell is taken at once, the rest is read, cleaned and printed in a thread."""

from __future__ import annotations

from typing import Any

from cueloop_daemon.server.requests import Call, Reply, Result, When
from cueloop_daemon.services import Services
from cueloop_protocol.params import NoParams
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Dump:
    """The effect that makes the dump."""

    @property
    def when(self) -> When:
        return When.WRITE

    async def perform(self, call: Call[Any]) -> Result:
        from cueloop_daemon.dump.living import dump_of  # few ever ask, so no start waits for it

        services: Services = call.services
        async with services.dumping:
            return await dump_of(call)


def dump(call: Call[Services], params: NoParams) -> Reply:
    """Everything that may help to find out what is wrong."""
    return Reply(b"{}", (Dump(),))
