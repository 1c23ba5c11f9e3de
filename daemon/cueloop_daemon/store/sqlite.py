"""SQLite's errors by whose fault they are, and the files of a database as things to be moved. For all databases of ours."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from urllib.parse import quote

KEPT_ASIDE = 5
"""Damaged files that are kept for a person to look at; the oldest goes when one more comes."""

_WORLD = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_AUTH,
        sqlite3.SQLITE_NOLFS,
    }
)
_OURS_NO_MORE = frozenset({sqlite3.SQLITE_READONLY_DBMOVED, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS})


class DbError(Exception):
    """Base: the database could not do what it was asked. The text is one clause, fit for people."""


class DbUnwritable(DbError):
    """The world is in the way (no space, no access, locked by somebody): the same may work later."""


class DbDamaged(DbError):
    """The file is not, or no longer, one of ours: waiting does not help. `moved_to` is where it lies, once it was moved."""

    moved_to: str | None = None


class DbTooNew(DbError):
    """A newer version wrote the file. Nothing of it was touched."""


Connect = Callable[[str, str], sqlite3.Connection]
"""Opens a database that exists: its path, and how, as parameters of SQLite's file names."""

WRITING, READING, LOOKING = "mode=rw", "mode=ro", "mode=ro&immutable=1"
"""The last makes no file beside it, and does not see a write-ahead log."""

_BUSY_SECONDS = 0.25


def connect(path: str, how: str) -> sqlite3.Connection:
    """A connection in autocommit mode that any thread may use, one at a time."""
    uri = f"file:{quote(os.fsencode(path))}?{how}"
    return sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def pragma(db: sqlite3.Connection, name: str) -> int:
    """The value of a numeric pragma."""
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


@contextlib.contextmanager
def translated(*, with_values: bool = True) -> Iterator[None]:
    """Turn SQLite's and the system's exceptions into `DbError`s; `with_values`: a ValueError, too, is the file's fault."""
    try:
        yield
    except sqlite3.Error as exc:
        code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        is_world = (code & 0xFF) in _WORLD and code not in _OURS_NO_MORE
        raise (DbUnwritable if is_world else DbDamaged)(str(exc)) from exc
    except (OverflowError, UnicodeError, ValueError) as exc:
        if not with_values:
            raise
        raise DbDamaged(f"a value in it makes no sense ({exc})") from exc
    except OSError as exc:
        raise DbUnwritable(os.strerror(exc.errno) if exc.errno else str(exc)) from exc


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All or nothing. The connection is in autocommit mode outside."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            if db.in_transaction:
                db.execute("ROLLBACK")
        raise


def identity(path: str) -> tuple[int, int] | None:
    """(device, inode) of a path that is a regular file and no link; None if there is nothing or something else."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def probe(path: str, connect: Connect, application_id: int, newest: int, what: str) -> None:
    """Look without writing: a read-only connection does not copy the write-ahead log into the file when it is closed.

    Returns where there is nothing, or a database of this id and at most this `user_version`. DbTooNew: a newer one. DbDamaged:
    no `what` of ours.
    """
    if identity(path) is None or size(path) == 0:
        if any(os.path.lexists(path + suffix) for suffix in ("", "-wal", "-journal")):
            raise DbDamaged("it is empty, or no file")
        return
    try:
        with contextlib.closing(connect(path, READING if size(path + "-wal") > 0 else LOOKING)) as db:
            is_ours = pragma(db, "application_id") == application_id
            version = pragma(db, "user_version")
    finally:
        remove(path + "-shm")  # made by the look; we never use one
    if is_ours and version > newest:
        raise DbTooNew(f"a newer version wrote it (format {version}, this one knows {newest})")
    if not is_ours:
        raise DbDamaged(f"it is not {what}")


def create_private(path: str) -> bool:
    """Whether there was no file. SQLite would make it readable by others, and its other files like it."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        return True
    return False


def remove(path: str) -> None:
    """Unlink, if that can be."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def size(path: str) -> int:
    """Bytes of what is at `path`, 0 if there is nothing."""
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def set_aside(path: str) -> str | None:
    """Rename the database and the files beside it to the next free name, byte for byte. The new name; None if nothing was there.

    To be called *before* the connection is closed: SQLite notices that the file has moved, and then leaves its bytes and its
    write-ahead log alone when it closes. OSError if the folder does not allow it.
    """
    taken = sorted(set(_numbers(path)))
    target = f"{path}.damaged-{taken[-1] + 1 if taken else 1}"
    moved = False
    for suffix in ("", "-wal", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.rename(path + suffix, target + suffix)
            moved = True
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path + "-shm")
    for number in taken[: len(taken) + 1 - KEPT_ASIDE] if moved and len(taken) >= KEPT_ASIDE else ():
        for suffix in ("", "-wal", "-journal"):
            with contextlib.suppress(OSError):
                os.unlink(f"{path}.damaged-{number}{suffix}")
    return target if moved else None


def _numbers(path: str) -> Iterator[int]:
    folder, name = os.path.split(path)
    try:
        entries = os.listdir(folder)
    except FileNotFoundError:
        return
    for entry in entries:
        number = entry.removeprefix(f"{name}.damaged-").split("-")[0]
        if entry.startswith(f"{name}.damaged-") and number.isascii() and number.isdigit() and len(number) < 10:
            yield int(number)
