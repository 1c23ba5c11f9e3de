"""What a link says unasked, and how its calls fail beside `runs.types.ShimGone`."""

from __future__ import annotations

from cueloop_daemon.runs.types import ShimGone
from cueloop_protocol.values import dataclass


class ShimCancelled(ShimGone):
    """The shim was told to cancel the run (SIGTERM): it takes no lock and starts nothing any more, and leaves soon."""


class LinkClosed(Exception):
    """This daemon let the link go; the shim carries on, and the run is not to be settled."""


class Fenced(LinkClosed):
    """A later daemon has taken the shim over: this one has nothing to say about the run any more, and must not settle it."""


class ShimMistake(Exception):
    """The shim answered what it never should: a mistake in this program."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something does not work at the shim, which goes on without it: `what` and the system's error number."""

    what: str
    errno: int


@dataclass(frozen=True, slots=True)
class Silence:
    """The shim lives and does not answer (`begins`), or answers again."""

    begins: bool


@dataclass(frozen=True, slots=True)
class Superseded:
    """A later daemon has the shim: all calls raise Fenced from now on."""


Hearing = Trouble | Silence | Superseded
