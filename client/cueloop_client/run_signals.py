"""INT and TERM as something to wait for, so that none is lost and none interrupts a request half-way. Standard library only."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Self


class Signals:
    """While entered, INT and TERM are kept: `take` gives them in order, and `fileno` can be read while there are some.

    `always`: also where INT is ignored, as it is for a background job of a shell. Only for the main thread.
    """

    def __init__(self, *, always: bool) -> None:
        self._always = always
        self._kept: list[int] = []
        self._old: dict[int, Any] = {}
        self._raises = False
        self._patience: int | None = None

    def __enter__(self) -> Self:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        # The system's own handler writes there: ours runs between two steps of the interpreter, and a signal that comes between
        # the last of them and the poll would be told only when something else ends that.
        self._old_wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            if self._always or signal.getsignal(number) is not signal.SIG_IGN:
                self._old[number] = signal.signal(number, self._keep)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        os.close(self._read_end)
        os.close(self._write_end)

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._read_end

    def take(self) -> list[int]:
        """The signals since the last call."""
        # First what wakes, then what is kept: one that comes in between is taken now, and wakes once more for nothing.
        with suppress(BlockingIOError):
            while os.read(self._read_end, 64):
                pass
        return [self._kept.pop(0) for _ in range(len(self._kept))]

    def interrupt(self, on: bool) -> None:
        """From now on a signal raises KeyboardInterrupt where the program is, instead of being kept; one that is kept, at once."""
        self._raises = on
        if on and self._kept:
            raise KeyboardInterrupt

    def bear(self, times: int | None) -> None:
        """Keep only so many; the next one raises KeyboardInterrupt. None: keep all."""
        self._patience = times

    def _keep(self, number: int, _: FrameType | None) -> None:
        if self._raises or (self._patience is not None and len(self._kept) >= self._patience):
            raise KeyboardInterrupt
        self._kept.append(number)
