"""`.cueloop/cache/cueloopd/history/`: every session file that was replaced or removed, whole. Standard library only.

An entry is `NNNNNNNN.jsonc`, the bytes as they were, and `NNNNNNNN.json`, a note of when and why. Numbers only rise, so that a
clock set back does not make the newest entry the oldest. A note is written before its bytes are moved: as `NNNNNNNN.pending`
while it is not known whose bytes they are. So a crash leaves nothing, or bytes with a note that says what was going on.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from datetime import UTC, datetime

from cueloop_daemon.store.atomic import Author, discard, temp_paths, write_all, write_file, write_temp
from cueloop_daemon.store.exchange import ATTEMPTS, Held, look, place_new
from cueloop_daemon.store.folder import OURS, ensure_folder, private_folder, shown_path
from cueloop_daemon.store.system import System
from cueloop_protocol.roots import Root
from cueloop_protocol.values import dataclass

KEPT = 200
FOLDER = (*OURS, "history")
_NAME = re.compile(r"([0-9]{8})\.(jsonc|json|pending)", re.ASCII)
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Note:
    """When and why bytes came into the history, their etag, and the task they name where that is known.

    `why` is a reason of the resume decision, or `cleared`, `finished`, `foreign`, `quarantine`, `left_behind`, `unknown`.
    """

    when: datetime
    why: str
    etag: str
    task_id: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """Bytes that are kept. `path` is as people see it. A note that was lost is made up from the file, its `why` is `unknown`."""

    number: int
    path: str
    note: Note


class History:
    """The folder and its entries. One writer at a time: the owner of the repository.

    Every writing method makes the folder if it is missing, and raises `NotWritable` or `OSError`.
    """

    def __init__(self, root: Root, system: System, author: Author, uid: int, kept: int = KEPT) -> None:
        self._root = root
        self._system = system
        self._author = author
        self._uid = uid
        self._kept = kept
        self._folder = root.join(*FOLDER)

    def take(self, source: str, note: Note) -> HistoryEntry:
        """Move the file at `source` in, as it is. The caller makes the removal from its folder durable."""
        number = self._claim(note, "json")
        self._move_in(source, number, "json")
        return self._kept_entry(number, note)

    def copy(self, held: Held, note: Note) -> HistoryEntry:
        """Keep the content of an open file, as much of it as there is now."""
        number = self._claim(note, "json")
        try:
            self._copy_in(held, self._path(number, "jsonc"))
        except BaseException:
            discard(self._system, self._path(number, "json"))
            raise
        return self._kept_entry(number, note)

    def withdraw(self, entry: HistoryEntry) -> None:
        """Forget what `copy` kept: the file it was made of has not been replaced after all."""
        for ending in ("jsonc", "json"):
            discard(self._system, self._path(entry.number, ending))

    def begin(self, source: str, note: Note) -> int:
        """Move the file at `source` in, its owner still in doubt; then `settle`, `give_back` or `forget`. Its number."""
        number = self._claim(note, "pending")
        self._move_in(source, number, "pending")
        return number

    def bytes_path(self, number: int) -> str:
        """The I/O path of an entry's bytes."""
        return self._path(number, "jsonc")

    def settle(self, number: int, note: Note) -> HistoryEntry:
        """What `begin` took stays, under this note."""
        write_file(self._system, self._path(number, "json"), _note_bytes(note), self._author)
        discard(self._system, self._path(number, "pending"))
        return self._kept_entry(number, note)

    def give_back(self, number: int, target: str) -> bool:
        """Move what `begin` took to `target`; False, and it stays in doubt, if there is something there by now."""
        if not place_new(self._system, self._path(number, "jsonc"), target):
            return False
        self._system.fsync_folder(os.path.dirname(target))
        discard(self._system, self._path(number, "pending"))
        self._system.fsync_folder(self._folder)
        return True

    def forget(self, number: int) -> None:
        """What `begin` took was moved on to a place of its own."""
        discard(self._system, self._path(number, "pending"))

    def entries(self) -> tuple[HistoryEntry, ...]:
        """What is kept, newest first. Makes nothing; an empty history if there is no folder."""
        numbers = sorted((number for number, ending in self._listing() if ending == "jsonc"), reverse=True)
        return tuple(HistoryEntry(number, self._shown(number), self._note(number) or self._made_up(number)) for number in numbers)

    def recover(self, session: str, now: datetime) -> tuple[HistoryEntry, ...]:
        """After a crash: finish what `begin` started. Bytes that were not the ones meant go back to `session` if that is free.

        Gives the entries of foreign bytes that had to stay. Call it only as the owner of the repository.
        """
        foreign: list[HistoryEntry] = []
        for number in sorted(number for number, ending in self._listing() if ending == "pending"):
            note = self._note(number, "pending")
            found = look(self._system, self._path(number, "jsonc"))
            if found is None or self._note(number) is not None:
                discard(self._system, self._path(number, "pending"))
            elif note is not None and found.etag == note.etag:
                self.settle(number, note)
            elif not self.give_back(number, session):
                foreign.append(self.settle(number, Note(now, "foreign", found.etag)))
        return tuple(foreign)

    def _claim(self, note: Note, ending: str) -> int:
        """The next free number, taken by its note."""
        ensure_folder(self._root, self._uid, self._author, self._system)
        private_folder(self._system, self._folder, shown_path(self._root, *FOLDER), self._uid)
        number = max((number for number, _ in self._listing()), default=0) + 1
        temp = write_temp(self._system, self._path(number, ending), _note_bytes(note), self._author)
        try:
            for candidate in range(number, number + ATTEMPTS):
                if place_new(self._system, temp, self._path(candidate, ending)):
                    return candidate
        except BaseException:
            discard(self._system, temp)
            raise
        discard(self._system, temp)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._shown(number))

    def _move_in(self, source: str, number: int, ending: str) -> None:
        try:
            if not place_new(self._system, source, self._path(number, "jsonc")):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._shown(number))
        except BaseException:
            discard(self._system, self._path(number, ending))
            raise
        try:
            self._system.fsync_folder(self._folder)
        except BaseException:
            if place_new(self._system, self._path(number, "jsonc"), source):
                discard(self._system, self._path(number, ending))
            raise

    def _copy_in(self, held: Held, target: str) -> None:
        temp = next(temp_paths(target, self._author, ".tmp"))
        fd = self._system.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            try:
                offset = 0
                while piece := self._system.pread(held.fd, _CHUNK, offset):
                    write_all(self._system, fd, piece)
                    offset += len(piece)
                self._system.fsync(fd)
            finally:
                self._system.close(fd)
            self._system.replace(temp, target)
        except BaseException:
            discard(self._system, temp)
            raise
        self._system.fsync_folder(self._folder)

    def _kept_entry(self, number: int, note: Note) -> HistoryEntry:
        self._prune()
        return HistoryEntry(number, self._shown(number), note)

    def _prune(self) -> None:
        """Drop the oldest. Bytes go first: a note alone goes with the next pruning, bytes alone would look kept for ever."""
        listing = self._listing()
        kept = set(sorted({number for number, ending in listing if ending == "jsonc"}, reverse=True)[: self._kept])
        oldest = min(kept, default=0)
        for number, ending in sorted(listing, key=lambda item: (item[0], item[1] != "jsonc")):
            if number < oldest and ending != "pending":
                discard(self._system, self._path(number, ending))

    def _listing(self) -> list[tuple[int, str]]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = (_NAME.fullmatch(name) for name in self._system.listdir(self._folder))
            return [(int(match[1]), match[2]) for match in found if match]
        return []

    def _note(self, number: int, ending: str = "json") -> Note | None:
        try:
            seen = look(self._system, self._path(number, ending))
        except OSError:
            return None
        return None if seen is None or seen.data is None else _parse_note(seen.data)

    def _made_up(self, number: int) -> Note:
        status = self._system.lstat(self._path(number, "jsonc"))
        seen = look(self._system, self._path(number, "jsonc"))
        return Note(datetime.fromtimestamp(status.st_mtime, UTC), "unknown", "" if seen is None else seen.etag)

    def _path(self, number: int, ending: str) -> str:
        return f"{self._folder}/{number:08d}.{ending}"

    def _shown(self, number: int) -> str:
        return shown_path(self._root, *FOLDER, f"{number:08d}.jsonc")


def _note_bytes(note: Note) -> bytes:
    fields = {"when": note.when.astimezone(UTC).isoformat(), "why": note.why, "etag": note.etag, "task_id": note.task_id}
    return json.dumps({key: value for key, value in fields.items() if value is not None}, indent=2).encode() + b"\n"


def _parse_note(data: bytes) -> Note | None:
    try:
        fields = json.loads(data)
        when, why, etag = datetime.fromisoformat(fields["when"]), fields["why"], fields["etag"]
        task_id = fields.get("task_id")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if not (isinstance(why, str) and isinstance(etag, str) and isinstance(task_id, str | None) and when.tzinfo is not None):
        return None
    return Note(when, why, etag, task_id)
