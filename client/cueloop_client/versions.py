"""What a daemon of another version means for people. Standard library only."""

from __future__ import annotations

import re

from cueloop_protocol.version import __version__


def waiting(daemon_version: str, has_run: bool, *, ours: str = __version__) -> str:
    """One sentence if the daemon is of another version than this command: which is newer, and what brings it. Else empty."""
    theirs, mine = _order(daemon_version), _order(ours)
    if daemon_version in ("", ours) or theirs is None or mine is None or theirs == mine:
        return ""
    if theirs > mine:
        return f"this command ({ours}) is older than the daemon: update cueloop"
    when = " --when-idle" if has_run else ""
    return f"version {ours} waits: cueloop daemon restart{when}"


def _order(version: str) -> tuple[int, ...] | None:
    """The numbers at the beginning of a version; None if there are none."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in found[0].split(".")) if found else None
