"""One command of ours as the table has it. Standard library only."""

from __future__ import annotations

from cueloop_client.flags import Flag
from cueloop_protocol.frozen import Frozen


class Command(Frozen):
    """One command: the module in `cueloop_client.commands` whose `run(context)` does it, and what its help says."""

    module: str
    summary: str
    usage: str
    example: str
    flags: tuple[Flag, ...] = ()
    without_daemon: bool = False
    """`--no-daemon` can be said: it only reads, or never needs a daemon."""
    there: bool = False
    """It works on files and processes: for a repository on another machine the whole command is run there."""
    here: bool = False
    """It is about this machine, whatever CUELOOP_HOST says."""
    words: int = 0
    """How many arguments without a name it takes at most."""
    machine: bool = False
    """For programs: failures are one error document on standard error."""
    notes: str = ""
