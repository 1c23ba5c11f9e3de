"""The closed list of what the doctor can find, and how a finding is made. docs/doctor.md is this list as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cueloop_daemon.doctor import kinds_files, kinds_life
from cueloop_daemon.doctor.kind import Kind
from cueloop_protocol.documents.doctor import Finding

KINDS: Final[Mapping[str, Kind]] = {**kinds_files.KINDS, **kinds_life.KINDS}
"""Code → kind, in the order of the page."""


def found(code: str, message: str, *, cause: str | None = None, fix: str | None = None, path: str | None = None) -> Finding:
    """A finding of the kind `code`, which must be in the list. `message` is one sentence that names file, key or value."""
    kind = KINDS[code]
    return Finding(
        code=code,
        severity=kind.severity,
        area=kind.area,
        message=message,
        cause=cause or kind.cause,
        fix=fix or kind.fix,
        path=path,
    )
