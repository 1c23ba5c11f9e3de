"""One row of the table of faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from doctor.lab import Lab

Act = Callable[[Lab], object]


@dataclass(frozen=True)
class Fault:
    """`make` injects it; `code` alone is then found (with `also`), its message, cause and fix naming `names`.

    `mend` is what the fix says; it makes the finding go. `is_command`: asked through the real command line, as an ordinary user.
    """

    id: str
    code: str
    make: Act
    mend: Act | None = None
    names: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    is_command: bool = False
    seconds: float = 3.0
    is_settled: bool = True
