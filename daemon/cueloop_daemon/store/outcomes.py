"""What became of a write, a removal or a quarantine of the session file. Standard library only."""

from __future__ import annotations

from cueloop_daemon.store.exchange import Kind, Sight
from cueloop_daemon.store.history import HistoryEntry
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Saved:
    """Ours is in place and on the medium, and replaced exactly what was expected. `kept` is that, where it was to be kept."""

    etag: str
    kept: HistoryEntry | None = None


@dataclass(frozen=True, slots=True)
class SavedOver:
    """Ours is in place and on the medium; somebody else had written or removed the file. Their bytes are in the history."""

    etag: str
    foreign: tuple[HistoryEntry, ...]
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Conflict:
    """Somebody else's state of the file stands: `found` is its etag, None if they removed it. Nothing of ours is there.

    `kept` are bytes of theirs that they themselves overtook while we looked.
    """

    found: str | None
    kept: tuple[HistoryEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Removed:
    """The file is gone from its place, durably, and kept as `entry`. `foreign`: it was not the one expected."""

    entry: HistoryEntry
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class Missing:
    """There was no file."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """The file is gone from its place, durably, and byte for byte at `path` (as people see it)."""

    path: str


SaveResult = Saved | SavedOver | Conflict
RemoveResult = Removed | Missing | Conflict
QuarantineResult = Quarantined | Missing | Conflict

_REFUSALS: dict[Kind, tuple[str, str]] = {
    "link": ("is a symbolic link, and a linked session is never replaced", "Replace the link by the file itself."),
    "folder": ("is a folder", "Move the folder away."),
    "special": ("is not a regular file", "Move it away."),
    "unreadable": ("cannot be read by this user", "Check its owner and mode."),
}


class SessionRefused(NotWritable):
    """What stands at the session's path is never touched: a link, a folder, a FIFO, or a file that we may not read."""

    def __init__(self, path: str, kind: Kind) -> None:
        why, remedy = _REFUSALS[kind]
        super().__init__(f"{path} {why}.", remedy, path=path, code="permission_denied" if kind == "unreadable" else "unknown")
        self.kind = kind


class OwnershipLost(NotWritable):
    """Another daemon may own the repository by now, so nothing was written."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} was not written: this daemon no longer holds the repository's lock.",
            "Run the command again; it finds or starts the right daemon.",
            path=path,
        )


def refuse(seen: Sight | None, shown: str) -> None:
    """Raise `SessionRefused` unless there is a regular file that we may read, or nothing."""
    if seen is not None and seen.kind != "file":
        raise SessionRefused(shown, seen.kind)
