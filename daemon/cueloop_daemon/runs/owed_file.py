"""`owed.json`: what `runs.db` says of accepted work, for those who answer without a daemon. A derived copy."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from pydantic import TypeAdapter

from cueloop_daemon.core.model import OwedTask
from cueloop_daemon.workspace.files import read_regular
from cueloop_protocol.place import FOLDER
from cueloop_protocol.roots import Root

OWED: TypeAdapter[tuple[OwedTask, ...]] = TypeAdapter(tuple[OwedTask, ...])


def owed_path(root: Root) -> str:
    """The file, for system calls. There is none while nothing is owed."""
    return root.join(FOLDER, "owed.json")


def write_owed(root: Root, owed: tuple[OwedTask, ...], write: Callable[[str, bytes], None]) -> None:
    """Make the file say so, through `write(path, data)`. Raises OSError."""
    if owed:
        write(owed_path(root), OWED.dump_json(owed, indent=2) + b"\n")
        return
    with suppress(FileNotFoundError):
        os.unlink(owed_path(root))


def read_owed(root: Root) -> tuple[OwedTask, ...]:
    """What is owed; nothing, where the file cannot be used. Blocking. Never raises."""
    try:
        data, _ = read_regular(owed_path(root))
        return () if data is None else OWED.validate_json(data)
    except (OSError, ValueError):
        return ()
