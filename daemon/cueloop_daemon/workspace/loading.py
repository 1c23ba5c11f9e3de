"""Files → a Snapshot: what one caller's configuration makes of the repository. Blocking; run in a worker thread or a command."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import replace

from cueloop_daemon.core.model import QueueFile, QueueLock, QueueMissing, SessionCorrupt, SessionFile, Unusable
from cueloop_daemon.store.config_files import ConfigState, load_config
from cueloop_daemon.store.queue_file import pack_queue, parse_queue, unpack_queue
from cueloop_daemon.store.queue_lock import read_queue_lock
from cueloop_daemon.store.session_file import read_session
from cueloop_daemon.workspace.files import (
    FileCache,
    Input,
    Signature,
    forget_all_but,
    is_unsettled,
    read_regular,
    sign,
    sign_link,
)
from cueloop_protocol.documents.config import Config
from cueloop_protocol.roots import Caller, Root, expand
from cueloop_protocol.values import dataclass

SETTLE_NS = 300_000_000
"""A session file that cannot be read is taken for half-written until it has stood this long unchanged (nanoseconds).

Editors and shells write in place in several steps; measured pauses between truncating and the last write stay under this.
"""

MOST_QUEUES = 16
"""Queue and done files that are remembered from one load to the next: two for each of eight callers."""

QueueState = QueueFile | QueueMissing | Unusable


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where a queue or done file is: for system calls and for people."""

    io: str
    shown: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """Everything read for one caller, and what must still be as it was for it to be current."""

    config: ConfigState
    session: SessionFile
    queue: QueueState
    done: QueueState
    lock: QueueLock | None
    queue_digest: str
    """Changes when the tasks of queue or done file do."""
    inputs: tuple[Input, ...]
    unsettled: bool
    settles_at_ns: int | None
    """Wall time at which a session file caught half-written counts as settled; None when it is whole."""


def unusable_file(error: OSError, shown: str, what: str) -> Unusable:
    """What is said of a queue or done file that cannot be read at all."""
    if isinstance(error, PermissionError):
        return Unusable(
            "permission_denied",
            f"The {what} file {shown} cannot be read: permission denied.",
            f"Give yourself read access to it (chmod u+r {shown}).",
            shown,
        )
    if isinstance(error, IsADirectoryError):
        return Unusable("queue_corrupted", f"The {what} file {shown} is a folder.", "Move it away or restore the file.", shown)
    return Unusable("queue_corrupted", f"The {what} file {shown} cannot be read: {error.strerror}.", None, shown)


@dataclass(frozen=True, slots=True)
class Packed:
    """A queue or done file as a worker process read it.

    `content` is the digest of its bytes; None where nothing could be read. `body` is for `unpack_queue`; None also where the
    bytes are those that the asker knows. `digest` comes with a `body`: of its tasks, which takes tens of milliseconds for a big one.
    """

    signature: Signature
    read_at_ns: int
    content: bytes | None
    body: bytes | None
    digest: str = ""


def pack_file(io: str, shown: str, known: bytes | None) -> Packed:
    """Read a big queue file and, unless its content is `known`, parse it. Runs in a worker process.

    A file that was just written is read twice, as its stat may not tell a second write; the second time costs no parsing. What
    cannot be read is left to the reading in the asker's process.
    """
    read_at = time.time_ns()
    try:
        data, signature = read_regular(io)
    except OSError:
        return Packed((), read_at, None, None)
    if data is None:
        return Packed(signature, read_at, None, None)
    content = hashlib.sha256(data).digest()
    if content == known:
        return Packed(signature, read_at, content, None)
    body = pack_queue(data, shown)
    return Packed(signature, read_at, content, body, _digest(unpack_queue(body)))


@dataclass(frozen=True, slots=True)
class _KeptQueue:
    signature: Signature
    unsettled: bool
    state: QueueState
    digest: str
    """Equal as long as the tasks are; what the watch compares."""
    content: bytes | None = None
    """Of the file's bytes, where a worker process read them."""


def _digest(state: QueueState) -> str:
    match state:
        case QueueFile():
            return hashlib.sha256(state.rendered).hexdigest()
        case QueueMissing():
            return "missing"
        case Unusable():
            return f"unusable {state.message} {state.detail}"


class QueueCache:
    """Parsed queue and done files by path; parsing happens once for each version of a file, whoever asks."""

    def __init__(self, wall_ns: Callable[[], int]) -> None:
        self._wall_ns = wall_ns
        self._kept: dict[str, _KeptQueue] = {}

    def lookup(self, place: QueuePlace) -> QueueState | None:
        """What the file is, if it stands as it was read; None when it must be read."""
        kept = self._kept.get(place.io)
        if kept is None or kept.unsettled or kept.signature != sign(place.io):
            return None
        self._put(place, kept)
        return kept.state

    def forget_oldest(self) -> None:
        """Keep the MOST_QUEUES files that were used last. Not within a load, which asks for what it has read."""
        forget_all_but(self._kept, MOST_QUEUES)

    def _put(self, place: QueuePlace, kept: _KeptQueue) -> None:
        """Behind those that were not used since."""
        self._kept.pop(place.io, None)
        self._kept[place.io] = kept

    def keep(self, place: QueuePlace, signature: Signature, read_at_ns: int, state: QueueState) -> None:
        """Take what was read at this wall time (nanoseconds)."""
        self._put(place, _KeptQueue(signature, is_unsettled(signature, read_at_ns), state, _digest(state)))

    def content(self, place: QueuePlace) -> bytes | None:
        """The digest of the file's bytes as a worker process read them last; None where it was not the last to read."""
        kept = self._kept.get(place.io)
        return None if kept is None else kept.content

    def keep_packed(self, place: QueuePlace, packed: Packed) -> None:
        """Take what a worker process read, if it could."""
        kept = self._kept.get(place.io)
        unsettled = is_unsettled(packed.signature, packed.read_at_ns)
        if packed.body is not None:
            state = unpack_queue(packed.body)
            self._put(place, _KeptQueue(packed.signature, unsettled, state, packed.digest, packed.content))
        elif packed.content is not None and kept is not None and kept.content == packed.content:
            self._put(place, replace(kept, signature=packed.signature, unsettled=unsettled))

    def signature(self, place: QueuePlace) -> Signature:
        """Of the version that was read last."""
        return self._kept[place.io].signature

    def unsettled(self, place: QueuePlace) -> bool:
        """Whether the file must be read again although its stat may be the same."""
        return self._kept[place.io].unsettled

    def digest(self, place: QueuePlace) -> str:
        """Of the version that was read last."""
        return self._kept[place.io].digest

    def read(self, place: QueuePlace, what: str) -> QueueState:
        """The file parsed here and now, whatever its size. Never raises for what the file is."""
        known = self.lookup(place)
        if known is not None:
            return known
        read_at = self._wall_ns()
        signature = sign(place.io)
        state: QueueState
        try:
            data, signature = read_regular(place.io)
        except OSError as error:
            state = unusable_file(error, place.shown, what)
        else:
            state = QueueMissing(place.shown) if data is None else parse_queue(data, place.shown)
        self.keep(place, signature, read_at, state)
        return state


def queue_places(config: ConfigState, root: Root, caller: Caller) -> tuple[QueuePlace, QueuePlace]:
    """Queue and done file as the configuration places them; the defaults while it cannot be used."""
    if isinstance(config.config, Config):
        names = (config.config.queue.file, config.config.queue.done_file)
    else:
        names = (".cueloop/queue.jsonc", ".cueloop/done.jsonc")
    queue, done = (expand(name, root, caller) for name in names)
    return QueuePlace(queue.io, config.paths.queue_path), QueuePlace(done.io, config.paths.done_path)


def session_path(root: Root) -> str:
    return root.join(".cueloop", "cache", "session.jsonc")


def lock_paths(root: Root) -> tuple[str, str]:
    return root.join(".cueloop", "lock"), root.join(".cueloop", "lock", "owner")


class Loader:
    """Reads everything that one caller's answers depend on. One call at a time."""

    def __init__(self, root: Root, cache: FileCache, queues: QueueCache, wall_ns: Callable[[], int]) -> None:
        self._root = root
        self._cache = cache
        self._queues = queues
        self._wall_ns = wall_ns

    def config(self, caller: Caller) -> ConfigState:
        """The configuration alone."""
        return load_config(self._root, caller, self._cache.read)

    def load(self, caller: Caller) -> Loaded:
        """Everything, queue files parsed in this thread unless `QueueCache` has them already."""
        root = self._root
        self._cache.forget_oldest()
        self._queues.forget_oldest()
        config = self.config(caller)
        inputs = [Input(path, sign(path), is_folder=os.path.isdir(path)) for path in config.inputs]
        # Read after signing: a change in between leaves the older signature, and the next look sees it.
        session_input = Input(session_path(root), sign_link(session_path(root)), is_link_itself=True)
        read_at = self._wall_ns()
        session = read_session(session_input.path)
        queue_place, done_place = queue_places(config, root, caller)
        queue = self._queues.read(queue_place, "queue")
        done = self._queues.read(done_place, "done")
        inputs += [Input(place.io, self._queues.signature(place)) for place in (queue_place, done_place)]
        inputs += [Input(path, sign(path)) for path in lock_paths(root)]
        lock = queue_lock(root)
        settles_at = _settles_at(session, session_input.signature, read_at)
        unsettled = (
            any(self._cache.unsettled(path) for path in config.inputs)
            or self._queues.unsettled(queue_place)
            or self._queues.unsettled(done_place)
            or is_unsettled(session_input.signature, read_at)
        )
        digest = f"{self._queues.digest(queue_place)} {self._queues.digest(done_place)}"
        return Loaded(config, session, queue, done, lock, digest, (session_input, *inputs), unsettled, settles_at)


def queue_lock(root: Root) -> QueueLock | None:
    """Who holds the queue lock; somebody unknown where it cannot be looked into."""
    try:
        return read_queue_lock(root, os.getpid())
    except OSError:
        return QueueLock(label=None, pid=None, started_at=None, live=False)


def _settles_at(session: SessionFile, signature: Signature, now_ns: int) -> int | None:
    if not isinstance(session, SessionCorrupt) or len(signature) != 5:
        return None
    # A stamp far ahead of the clock (which was set back, or the file was given one) does not say when it was written.
    stamps = [stamp for stamp in signature[3:] if stamp - now_ns <= SETTLE_NS]
    settles_at = max(stamps, default=0) + SETTLE_NS
    return settles_at if settles_at > now_ns else None


def is_settling(settles_at_ns: int, now_ns: int) -> bool:
    """Whether that moment is still to come; it lies further ahead only where the clock was set back since."""
    return 0 < settles_at_ns - now_ns <= 2 * SETTLE_NS


def size_of(path: str) -> int:
    """Size in bytes of what `path` leads to, 0 when it cannot be looked at."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
