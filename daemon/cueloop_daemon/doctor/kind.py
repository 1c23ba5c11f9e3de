"""What a kind of finding is."""

from __future__ import annotations

from cueloop_protocol.documents.doctor import Area, Severity
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of finding. `cause` and `fix` are its general sentences; a finding may have more exact ones."""

    severity: Severity
    area: Area
    cause: str
    fix: str


def error(area: Area, cause: str, fix: str) -> Kind:
    """Something here does not work."""
    return Kind("error", area, cause, fix)


def warning(area: Area, cause: str, fix: str) -> Kind:
    """It works, and something should be looked at."""
    return Kind("warning", area, cause, fix)


def info(area: Area, cause: str, fix: str) -> Kind:
    """Worth knowing."""
    return Kind("info", area, cause, fix)
