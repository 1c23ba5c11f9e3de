"""The steps of a handover by name, so that tests can end either side at each of them. Standard library only."""

from __future__ import annotations

from collections.abc import Callable

OWNER_STEPS = ("asked", "answered", "offered", "held", "going", "drained", "closed", "told", "seen_off")
"""Of the owner, in order. `asked`: the request is understood. `answered`: it was granted. `offered`: the descriptors are out.
`held`: the heir has them. `going`: nobody is accepted any more. `drained`: all connections are ended. `closed`: the databases are.
`told`: the heir knows. `seen_off`: the heir serves."""

HEIR_STEPS = ("asking", "promised", "took", "waiting", "free", "bound", "serving", "said")
"""Of the heir, in order. `asking`: connected, nothing said. `promised`: the owner agreed. `took`: the descriptors are here.
`waiting`: the owner goes. `free`: its databases are closed. `bound`: ours are open, the socket is ours. `serving`: it is served.
`said`: the owner knows."""


def _nothing(step: str) -> None:
    """In production nothing looks."""


at: Callable[[str], None] = _nothing
"""Called with each step's name when it has been done."""


def reached(step: str) -> None:
    """A step was done."""
    at(step)
