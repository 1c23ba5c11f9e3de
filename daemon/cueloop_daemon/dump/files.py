"""What the files of interest are: kinds, sizes, modes, etags, never contents. Blocking."""

from __future__ import annotations

import hashlib
import os
import stat
from datetime import UTC, datetime

from cueloop_daemon.core.stamps import format_stamp
from cueloop_daemon.workspace.files import read_regular
from cueloop_protocol.dump_results import FileFact
from cueloop_protocol.place import FOLDER
from cueloop_protocol.roots import Caller, Root, global_config_path, settings_path, shown

LARGEST = 32 * 1024 * 1024
"""Bytes of a file whose etag is told."""

WITH_ETAG = {
    name: f".cueloop/{name}"
    for name in (
        "queue.jsonc",
        "queue.json",
        "done.jsonc",
        "done.json",
        "config.jsonc",
        "config.json",
        "trust.jsonc",
        "trust.json",
    )
} | {"session": ".cueloop/cache/session.jsonc", "stop marker": ".cueloop/cache/stop_requested"}
WITHOUT = {
    ".cueloop": ".cueloop",
    "cache": ".cueloop/cache",
    "queue lock": ".cueloop/lock",
    "queue lock's owner": ".cueloop/lock/owner",
    "our folder": FOLDER,
    **{
        name: f"{FOLDER}/{name}"
        for name in ("lock", "locator.json", "events.db", "events.db-wal", "runs.db", "runs.db-wal", "runs.db.ballast", "active.json",
                     "daemon.log", "daemon.log.1", "stopped", "runs", "history")
    },
}  # fmt: skip


def file_facts(root: Root, caller: Caller) -> list[FileFact]:
    """Every file of interest, whether or not it is there. Never raises."""
    seen = Root(root.path, root.path)
    facts = [_fact(name, root.join(path), shown(seen.join(path)), has_etag=True) for name, path in WITH_ETAG.items()]
    facts += [_fact(name, root.join(path), shown(seen.join(path)), has_etag=False) for name, path in WITHOUT.items()]
    for name, path in (("global configuration", global_config_path(caller)), ("settings", settings_path(caller))):
        facts.append(_fact(name, path, shown(path), has_etag=True))
    return facts


def _fact(name: str, io: str, path: str, *, has_etag: bool) -> FileFact:
    try:
        found = os.lstat(io)
    except (FileNotFoundError, NotADirectoryError):
        return FileFact(name=name, path=path, kind="missing")
    except OSError as exc:
        return FileFact(name=name, path=path, kind="unreadable", reason=exc.strerror)
    fact = FileFact(
        name=name,
        path=path,
        kind="file" if stat.S_ISREG(found.st_mode) else "folder" if stat.S_ISDIR(found.st_mode)
        else "link" if stat.S_ISLNK(found.st_mode) else "other",
        size=found.st_size,
        mode=f"{stat.S_IMODE(found.st_mode):04o}",
        is_ours=found.st_uid == os.getuid(),
        modified_at=_stamp(found.st_mtime),
    )  # fmt: skip
    if fact.kind != "file" or not has_etag or found.st_size > LARGEST:
        return fact
    try:
        data = read_regular(io)[0]
    except OSError as exc:
        return fact.model_copy(update={"kind": "unreadable", "reason": exc.strerror})
    return fact if data is None else fact.model_copy(update={"etag": hashlib.sha256(data).hexdigest()})


def _stamp(seconds: float) -> str | None:
    try:
        return format_stamp(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError):
        return None
