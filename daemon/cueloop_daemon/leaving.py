"""The daemon's own end: begun once, by a person, a signal, or in favour of an heir."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable

import anyio
from anyio.abc import TaskStatus

from cueloop_daemon.dump.signalled import STACKS, StackSignal
from cueloop_daemon.setting import Setting
from cueloop_daemon.takeover.bequest import Bequest, Estate
from cueloop_daemon.takeover.succession import LEAVES_WITHIN, Runs, Succession, Wanted
from cueloop_protocol.codes import RpcError, run_active, shutting_down
from cueloop_protocol.shapes import ShutdownReason

logger = logging.getLogger(__name__)


class Leaving:
    """See `services.Life`. All from the event loop."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._begun = anyio.Event()
        self._was_signalled = False
        self._succession: Succession | None = None
        self.reason: ShutdownReason | None = None
        """Why we leave; None while we do not."""
        self.bequest: Bequest | None = None
        """What an heir has of us, once we leave for one."""

    @property
    def draining(self) -> bool:
        """Whether the daemon is leaving."""
        return self.reason is not None

    @property
    def heir(self) -> int | None:
        """The pid of the process that takes over just now."""
        return None if self._succession is None else self._succession.heir

    @property
    def wants_quiet(self) -> bool:
        """Whether a person wants that nothing starts a daemon again. A logout, an upgrade and a restart of the unit are no such wish."""
        return self.reason == "stopped" and not (self._was_signalled and self._setting.keeper.origin.is_managed)

    def leave(self, reason: ShutdownReason) -> None:
        """Begin to leave; the first reason stands."""
        if self.reason is None:
            self.reason = reason
            logger.info("leaving reason=%s", reason)
            self._setting.keeper.notifier.stopping(f"leaving: {reason}")
            self._setting.overdue(LEAVES_WITHIN)
            self._begun.set()

    def hand_over(self, wanted: Wanted) -> None:
        """Begin to hand over; one at a time. Before `succession` nothing happens."""
        if self._succession is not None:
            self._succession.want(wanted)

    async def wait(self) -> None:
        """Return when the daemon is to leave."""
        await self._begun.wait()

    async def heed_signals(self, folder: str, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """TERM and INT leave, USR1 writes all stacks to the log and to a file in `folder`, HUP is not for us. Until cancelled."""
        wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
        with anyio.open_signal_receiver(*wanted) as received, StackSignal(f"{folder}/{STACKS}") as stacks:
            task_status.started()
            async for number in received:
                if number in (signal.SIGTERM, signal.SIGINT):
                    self._was_signalled = True
                    self.leave("stopped")
                elif number == signal.SIGUSR1:
                    stacks.tell()

    def succession(
        self,
        estate: Callable[[], Estate],
        process: dict[str, object],
        active_run: Callable[[], str | None],
        durable: Callable[[], int],
    ) -> Succession:
        """Our one place for an heir, open from now on; it must be run. For `estate` and `durable` see there; `process` names us."""

        def why_not(runs: Runs) -> RpcError | None:
            if self.draining:
                return shutting_down(self.reason, process)
            active = active_run()
            return run_active(active) if active is not None and runs != "leave" else None

        def go(bequest: Bequest) -> None:
            self.bequest = bequest
            self.leave("replaced")

        self._succession = Succession(estate, why_not, durable, go)
        return self._succession
