"""The files of a service put in place and taken away again, and what became of each. Standard library only."""

from __future__ import annotations

import os
from contextlib import suppress

from cueloop_client.failures import Failure
from cueloop_client.service.sealed import Sealed, read, standing, state_of, write
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.roots import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cueloop_client.service.sealed import State


class Placed(Frozen):
    """One file. `done`: `written`, `unchanged`, `kept` (somebody changed it), `removed`, `replaced` (with --force) or `missing`."""

    path: str
    done: str

    @property
    def is_kept(self) -> bool:
        """Whether something of somebody else stands there."""
        return self.done == "kept"

    def line(self) -> str:
        """For people."""
        why = {"kept": "kept: it was changed, or is not ours (--force takes it all the same)"}
        return f"{why.get(self.done, self.done)}: {shown(self.path)}"


def place(files: Sequence[Sealed], *, force: bool) -> list[Placed]:
    """Write what is missing or older. A file that somebody changed stays as it is, unless `force`. Raises Failure."""
    placed = []
    for file in files:
        state = state_of(file)
        if state == "current":
            placed.append(Placed(file.path, "unchanged"))
        elif state in ("changed", "foreign") and not force:
            placed.append(Placed(file.path, "kept"))
        else:
            _write(file)
            placed.append(Placed(file.path, "replaced" if state in ("changed", "foreign") else "written"))
    return placed


def take_away(paths: Sequence[str], *, force: bool) -> list[Placed]:
    """Remove what we wrote, and folders that are empty then. A file that somebody changed stays, unless `force`. Raises Failure."""
    placed = []
    for path in paths:
        content = read(path)
        if content is None and not os.path.lexists(path):
            placed.append(Placed(path, "missing"))
        elif not force and (content is None or standing(content) != "older"):
            placed.append(Placed(path, "kept"))
        else:
            try:
                os.unlink(path)
            except OSError as exc:
                raise Failure(f"{shown(path)} cannot be removed: {exc.strerror}.", word="permission_denied") from exc
            placed.append(Placed(path, "removed"))
            if path.endswith(".conf"):
                with suppress(OSError):  # somebody's own drop-ins are in it
                    os.rmdir(os.path.dirname(path))
    return placed


def states(files: Sequence[Sealed]) -> list[tuple[str, State]]:
    """Path and state of each."""
    return [(file.path, state_of(file)) for file in files]


def _write(file: Sealed) -> None:
    try:
        write(file)
    except OSError as exc:
        raise Failure(
            f"{shown(file.path)} cannot be written: {exc.strerror}.", "Make its folder writable.", word="permission_denied"
        ) from exc
