"""The life of one child: from its exec until its last descendant is gone and its output complete. Standard library only.

The leader is reaped last: as long as it is an unreaped zombie its number belongs to nobody else, and the group can be signalled.
"""

from __future__ import annotations

import os

from cueloop_daemon.shim.kin import Kin, end_kin, has_died, living, reap_orphans
from cueloop_daemon.shim.lean import signal, suppress
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_daemon.shim.child import Gated
    from cueloop_daemon.shim.output import Stream
    from cueloop_daemon.shim.spec import OrderSpec

READ_SIZE = 32 * 1024
READS_PER_TURN = 32
DRAIN = 1.0
"""Seconds that a dead leader's kin may go on by themselves, and that a pipe may stay open after the last of them."""
LEFTOVER_GRACE = 2.0
"""Seconds between TERM and KILL for what a leader left behind: git, for one, removes its lock files on TERM."""
LEAST_PATIENCE = 2.0
"""Seconds after KILL before what is still there (it waits for a disk) is reported instead of waited for."""


class Ended(Frozen):
    """How it all ended. Neither `code` nor `signal`: the leader could not be ended. `left`: pid and name of who is still there."""

    code: int | None
    signal: int | None
    cause: str
    left: tuple[str, ...]


class _Ending:
    """Signals to come, as (moment, number), and the moment to give up."""

    def __init__(self, steps: list[tuple[float, int]], patience: float) -> None:
        self.steps = steps
        self.give_up = steps[-1][0] + patience


class Invocation:
    """One child that is past its gate. Times are those of the shim's clock; `grace` is for an order that gives none."""

    def __init__(self, n: int, order: OrderSpec, grace: float, child: Gated, streams: tuple[Stream, Stream], now: float) -> None:
        self.n = n
        self.pid = child.pid
        self.start = child.start
        self.pipes: dict[int, Stream] = {child.out: streams[0], child.err: streams[1]}
        self.ended: Ended | None = None
        self.grace = grace if order.grace is None else order.grace
        self._streams = streams
        self._order = order
        self._idle = order.idle
        self._leave_at: float | None = None
        self._heard_at = self._began_at = now
        self._cause = "self"
        self._ending: _Ending | None = None
        self._is_dead = False
        """Whether the leader has ended; it is a zombie then, until all is over."""
        self._quiet_at = now
        """Since when the leader is dead and nothing has changed for the worse: the beginning of a DRAIN."""

    @property
    def is_pressing(self) -> bool:
        """Whether something is to happen sooner than the next tick."""
        return self._is_dead or self._ending is not None

    @property
    def sizes(self) -> tuple[int, int]:
        """Logical sizes of the output so far."""
        return self._streams[0].size, self._streams[1].size

    @property
    def dropped(self) -> int:
        """Bytes of the output that are lost."""
        return self._streams[0].dropped + self._streams[1].dropped

    def read(self, fd: int, now: float) -> bool:
        """Take what is there of a pipe; whether the pipe goes on."""
        for _ in range(READS_PER_TURN):
            try:
                data = os.read(fd, READ_SIZE)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._heard_at = now
            self.pipes[fd].write(data)
        return True

    def close(self, fd: int) -> None:
        """No more of this pipe."""
        self.pipes.pop(fd).close()
        os.close(fd)

    def limit(self, idle: float | None, leave_within: float | None, now: float) -> None:
        """Set limits anew; None leaves one as it is."""
        if idle is not None:
            self._idle, self._heard_at = idle, now
        if leave_within is not None:
            self._leave_at = now + leave_within

    def end(self, cause: str, grace: float, now: float) -> None:
        """INT, TERM halfway, KILL after `grace`: for the leader and all that descend from it. Again: what comes first counts."""
        if not self._is_dead and self._cause == "self":
            self._cause = cause
        steps = [(now, signal.SIGINT), (now + grace / 2, signal.SIGTERM), (now + grace, signal.SIGKILL)]
        self._escalate([(at, int(number)) for at, number in steps], max(grace, LEAST_PATIENCE))

    def advance(self, now: float) -> None:
        """Look how things stand and do what is due; `ended` is set when it is over."""
        reap_orphans(self.pid)
        self._look_at_leader(now)
        self._watch_limits(now)
        if not self.is_pressing:
            return
        kin = living(self.pid)
        if self._is_dead and not self._is_open(kin, now):
            self._finish(kin)
            return
        if self._is_dead and self._ending is None and kin and now >= self._quiet_at + DRAIN:
            steps = [(now, int(signal.SIGTERM)), (now + min(self.grace, LEFTOVER_GRACE), int(signal.SIGKILL))]
            self._escalate(steps, LEAST_PATIENCE)
        self._signal(kin, now)
        if self._ending is not None and now >= self._ending.give_up:
            self._finish(kin)

    def discard(self) -> None:
        """Reap a leader that said it could not execute, and is about to leave."""
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _is_open(self, kin: tuple[Kin, ...], now: float) -> bool:
        """Whether the dead leader has live kin, or a pipe that may still bring something."""
        if kin:
            return True
        if self._ending is not None:
            self._ending, self._quiet_at = None, now
        return bool(self.pipes) and now < self._quiet_at + DRAIN

    def _look_at_leader(self, now: float) -> None:
        if self._is_dead:
            return
        if has_died(self.pid):
            self._is_dead, self._quiet_at = True, now

    def _watch_limits(self, now: float) -> None:
        if self._is_dead or self._ending is not None:
            return
        wall, idle, leave = self._order.wall, self._idle, self._leave_at
        if leave is not None and now >= leave:
            self.end("leave", self.grace, now)
        elif wall is not None and now >= self._began_at + wall:
            self.end("wall", self.grace, now)
        elif idle is not None and now >= self._heard_at + idle:
            self.end("idle", self.grace, now)

    def _escalate(self, steps: list[tuple[float, int]], patience: float) -> None:
        """Begin to signal, or join what is under way: a signal that was sent is not sent again, and none comes later than planned."""
        if self._ending is None:
            self._ending = _Ending(steps, patience)
            return
        planned = {number: at for at, number in self._ending.steps}
        sooner = [(min(at, planned[number]), number) for at, number in steps if number in planned]
        self._ending = _Ending(sooner or self._ending.steps, patience)

    def _signal(self, kin: tuple[Kin, ...], now: float) -> None:
        if self._ending is None or not kin:
            return
        due = [number for at, number in self._ending.steps if now >= at]
        if not due:
            return
        end_kin(kin, self.pid, due[-1])
        last = self._ending.steps[-1]
        # KILL stays due: what forks may have escaped the last one.
        self._ending.steps = [step for step in self._ending.steps if step[1] not in due or step == last]

    def _finish(self, kin: tuple[Kin, ...]) -> None:
        code, number = self._reap() if self._is_dead else (None, None)
        self.ended = Ended(code, number, self._cause, tuple(f"{one.pid} {one.name}" for one in kin))

    def _reap(self) -> tuple[int | None, int | None]:
        """The dead leader's exit code or signal; its number is anybody's from now on."""
        try:
            told = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:
            return None, None
        return (told, None) if told >= 0 else (None, -told)
