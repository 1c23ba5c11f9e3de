"""The standard streams of a process that was started without some of them. Standard library only."""

from __future__ import annotations

import os

STANDARD = (0, 1, 2)


def hold_standard_streams() -> None:
    """Have `/dev/null` where a standard stream is closed; to be called before anything is opened.

    Without it the first pipe, socket or database that is opened would get the number: what is printed would be written into it,
    and a new process, whose standard streams are put at those numbers, would lose what it was to inherit. Programs that take this
    one's place find the streams closed, as this one did.
    """
    for number in STANDARD:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
