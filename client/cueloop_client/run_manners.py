"""What signals mean to a command that follows a run (design section 8). Standard library only."""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.run_tell import Teller


class ForPrograms:
    """INT or TERM cancels, as the app stops a run; more of them change nothing."""

    def __init__(self) -> None:
        self._is_cancelled = False

    def on_signal(self, number: int) -> str | None:
        """`cancel` the first time."""
        wish = None if self._is_cancelled else "cancel"
        self._is_cancelled = True
        return wish


class ForPeople:
    """Ctrl-C once stops after the task, twice cancels, three times leaves; TERM leaves. Each says what it did."""

    def __init__(self, teller: Teller, mode: str) -> None:
        self._teller = teller
        self._mode = mode
        self._times = 0

    @property
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled from here."""
        return self._times > 1

    def on_signal(self, number: int) -> str | None:
        """What to do, told at once."""
        if number == signal.SIGTERM:
            self._teller.aside("Left: the run goes on by itself. Show it again: cueloop run attach")
            return "leave"
        self._times += 1
        if self._times == 1:
            what = "The task goes on to its end." if self._mode == "one" else "The run stops after the current task."
            self._teller.aside(f"{what} Ctrl-C again cancels it now.")
            return "stop"
        if self._times == 2:
            self._teller.aside("Cancelling: the agent is being ended. The session and the task stay as they are.")
            return "cancel"
        self._teller.aside("Left while the run is being cancelled. How it stands: cueloop run status")
        return "leave"
