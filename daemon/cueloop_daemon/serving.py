"""The socket of one daemon, from the first connection to the last."""

from __future__ import annotations

import gc
import logging
import os

import anyio

from cueloop_daemon.housekeeping import Housekeeping
from cueloop_daemon.parts import Own, Parts, make_services
from cueloop_daemon.proving import allow_descriptors
from cueloop_daemon.server.handlers import TABLE
from cueloop_daemon.server.limits import Limits
from cueloop_daemon.server.listener import Listener
from cueloop_daemon.server.server import Server
from cueloop_daemon.service.telling import StatusLine, tell
from cueloop_daemon.service.watchdog import Watchdog
from cueloop_daemon.setting import Say
from cueloop_daemon.takeover.bequest import Estate
from cueloop_daemon.takeover.overdue import give_up
from cueloop_daemon.takeover.probes import reached
from cueloop_protocol.roots import shown

logger = logging.getLogger(__name__)


class Serving:
    """Made when all that a first caller may ask for is there: from then on callers may queue at the socket. `run` once."""

    def __init__(self, own: Own, parts: Parts, say: Say) -> None:
        """Listens. Raises PlaceError and NotWritable."""
        self._own = own
        self._parts = parts
        self._say = say
        self._listener = _listener(own)
        services = self.services = make_services(own, parts, self._listener)
        limits = Limits(connections=allow_descriptors(parts.settings.now.max_connections))
        self._server = server = Server(
            TABLE,
            services,
            clock=own.setting.clock,
            uid=own.setting.uid,
            limits=limits,
            overdue=give_up,
            process=own.process,
        )
        services.connections, services.counters = lambda: server.connections, server.counters
        services.measures.traffic = server.measured

    async def run(self) -> None:
        """Serve until the daemon is to leave, and until everybody is served who is in."""
        own, engine, server, listener = self._own, self._parts.engine, self._server, self._listener
        async with anyio.create_task_group() as serving:
            # Before the first caller can ask for it.
            succession = own.leaving.succession(self._estate, own.process, lambda: engine.active_id, lambda: server.durable_calls)
            await serving.start(server.serve, listener)
            self._begin()
            async with anyio.create_task_group() as keeping:
                keeping.start_soon(self._keep_house)
                keeping.start_soon(succession.run)
                keeping.start_soon(self._tell_keeper)
                await own.leaving.wait()
                keeping.cancel_scope.cancel()  # from here on nothing that was taken away is put back
            engine.leave()
            self._withdraw()
            server.close(own.leaving.reason or "stopped", has_heir=own.leaving.bequest is not None)
        reached("drained")

    def _begin(self) -> None:
        """We serve: say so to all who wait for it."""
        own, listener = self._own, self._listener
        own.place.publish(listener.path)
        logger.info("serving socket=%s", shown(listener.path))
        # What is alive by now stays: the collector, at rest until here, need never look at it.
        gc.freeze()
        gc.enable()
        reached("serving")
        if own.setting.inheritance is not None:
            own.setting.inheritance.served()
            reached("said")
        self._say(ready={"socket": listener.path, "pid": own.setting.pid})
        own.place.unmark_stopped()
        self._parts.engine.serve()

    def _withdraw(self) -> None:
        """First nobody finds us any more, then those who have found us are told. With an heir, all is to be found as it was."""
        own = self._own
        if own.leaving.bequest is None and own.ownership.still_ours():
            if own.leaving.wants_quiet and self._parts.engine.active_id is not None:
                own.place.mark_stopped()
            own.place.withdraw(self._listener.path)

    async def _keep_house(self) -> None:
        own, parts = self._own, self._parts

        def publish(socket: str) -> None:
            self.services.socket = shown(socket)
            own.place.publish(socket)

        house = Housekeeping(own.setting.root, own.ownership, self._listener, own.leaving.leave, publish, own.place.elsewhere)
        await house.run(
            own.setting.clock,
            lambda: parts.settings.now.idle_exit_minutes,
            self._server.traffic,
            lambda: parts.engine.is_used,
        )

    async def _tell_keeper(self) -> None:
        """Tell the service manager that we serve, and how, and that we live."""
        keeper, hub, workspace = self._own.setting.keeper, self._parts.hub, self._parts.workspace
        if not keeper.notifier:
            return
        line = StatusLine(lambda: workspace.view(None).snapshot.active_run, self._own.setting.clock.now, lambda: hub.stuck_for)
        keeper.notifier.ready(line.text())
        async with anyio.create_task_group() as telling:
            telling.start_soon(tell, keeper.notifier, line.text)
            if keeper.origin.watchdog is not None:
                folder = self._own.place.folder
                dog = Watchdog(keeper.notifier, keeper.origin.watchdog, lambda: hub.stuck_for, lambda: os.stat(folder))
                telling.start_soon(dog.run)

    def _estate(self) -> Estate:
        """What an heir is to get."""
        setting, listener = self._own.setting, self._listener
        assert listener.identity is not None  # a manager's socket is given to nobody
        locks = self._own.ownership.descriptors
        return Estate(setting.root, setting.uid, listener.duplicate(), listener.path, listener.identity, *locks)


def _listener(own: Own) -> Listener:
    """A manager's socket, a predecessor's, or one of our own."""
    activated = own.setting.keeper.activated
    if activated is not None:
        return Listener.adopt(os.dup(activated.fd), activated.path)
    found = own.setting.inheritance
    if found is None:
        return own.place.bind(own.setting.environ)
    listener = Listener.inherit(found.listener, found.path, found.identity)
    reached("bound")
    return listener
