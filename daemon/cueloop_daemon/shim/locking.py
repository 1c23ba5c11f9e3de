"""The queue lock as the run's orders ask for it: "make it so", and say how things stand. Standard library only."""

from __future__ import annotations

import errno
import os

from cueloop_daemon.shim import queuelock
from cueloop_daemon.shim.wire import Lock, encode, owner_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cueloop_daemon.shim.launch import Place
    from cueloop_daemon.shim.record import Record


class Locking:
    """Whether this run has the queue lock."""

    def __init__(self, place: Place, record: Record) -> None:
        self.held: queuelock.Made | None = None
        self._n = -1
        self._place = place
        self._record = record

    def lock(self, wish: Lock, is_cancelled: bool) -> bytes:
        """Take it, or say who has it. One that is ours already is made."""
        try:
            found = self._take(wish, is_cancelled)
        except OSError as exc:
            return encode("error", to="lock", n=wish.n, errno=exc.errno or 0)
        place: dict[str, object] = {"dev": found.device, "ino": found.inode}
        if isinstance(found, queuelock.Made):
            self.held, self._n = found, wish.n
            return encode("made", to="lock", n=wish.n, **place, owner=owner_text(found.owner))
        owner = None if found.owner is None else owner_text(found.owner)
        return encode("held", to="lock", n=wish.n, **place, owner=owner, names=list(found.names))

    def unlock(self, n: int) -> bytes:
        """Let it go. What is not ours stays."""
        if self.held is None:
            return encode("absent", to="unlock", n=n)
        try:
            outcome = queuelock.release(self._place.root, self.held)
        except OSError as exc:
            return encode("error", to="unlock", n=n, errno=exc.errno or 0)
        self.held = None
        self._record.add("unlock", n=n)
        match outcome:
            case queuelock.Released(left=left):
                return encode("unlocked", to="unlock", n=n, left=list(left))
            case queuelock.Absent():
                return encode("absent", to="unlock", n=n)
        return encode("foreign", to="unlock", n=n)

    def records(self) -> list[bytes]:
        """What a new record must say of it."""
        return [] if self.held is None else [_record(self._n, self.held)]

    def _take(self, wish: Lock, is_cancelled: bool) -> queuelock.Made | queuelock.Held:
        if is_cancelled:
            raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
        root = self._place.root
        standing = queuelock.look(root)
        if self.held is not None and standing is not None and standing.is_same(self.held):
            return self.held
        self.held = None
        if wish.clear is not None:
            queuelock.clear(root, wish.clear)
        owner = queuelock.owner_file(os.getpid(), wish.started_at, wish.command, wish.label)
        taken: queuelock.Made | queuelock.Held | None = None
        ours = os.umask(self._place.umask)  # other users' tools read the lock as they read one that anybody made
        try:
            taken = queuelock.take(root, queuelock.aside_name(self._place.spec.run_id, os.getpid()), owner, self._note(wish.n))
            return taken
        finally:
            os.umask(ours)
            if not isinstance(taken, queuelock.Made):
                self._record.add("unlock", n=wish.n)  # the inode that was noted may be given to another's lock

    def _note(self, n: int) -> Callable[[queuelock.Made], None]:
        def making(made: queuelock.Made) -> None:
            self._record.add("lock", n=n, dev=made.device, ino=made.inode, owner=owner_text(made.owner))

        return making


def _record(n: int, made: queuelock.Made) -> bytes:
    return encode("lock", n=n, dev=made.device, ino=made.inode, owner=owner_text(made.owner))
