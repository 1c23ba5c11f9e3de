"""Linux events: overflow, limits, silence, nonsense, and that only what matters wakes the daemon."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.watch import inotify_calls as calls
from cueloop_daemon.watch import limits
from cueloop_daemon.watch.choose import ChosenWatcher
from cueloop_daemon.watch.inotify import InotifyWatcher
from cueloop_daemon.watch.inotify_calls import Event, InotifyCalls, parse
from cueloop_daemon.watch.watcher import WatchFailed
from hearing import NEVER, listening


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "repo" / ".cueloop" / "cache" / "session.jsonc"
    path.parent.mkdir(parents=True)
    path.write_text("first")
    return path


class Counting(InotifyCalls):
    """The real calls, counted; `refuse` names a call and the error that it gives."""

    def __init__(self, refuse: dict[str, int] | None = None) -> None:
        self.refuse = refuse or {}
        self.queues = 0
        self.added: list[str] = []

    def _maybe(self, call: str) -> None:
        if call in self.refuse:
            raise OSError(self.refuse[call], os.strerror(self.refuse[call]))

    def init(self) -> int:
        self._maybe("init")
        self.queues += 1
        return super().init()

    def add(self, fd: int, path: str, mask: int) -> int:
        self._maybe("add")
        self.added.append(os.readlink(path))
        return super().add(fd, path, mask)


class Silent(Counting):
    """A file system without events: the calls succeed and nothing ever comes."""

    def add(self, fd: int, path: str, mask: int) -> int:
        self.added.append(os.readlink(path))
        return len(self.added)


async def test_c05_an_overflow_is_a_new_start_and_the_last_edit_is_seen(session: Path) -> None:
    system = Counting()
    watcher = InotifyWatcher(system, safety_poll=NEVER)
    watcher.set_paths([str(session.parent)], [str(session)])
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    async with listening(watcher, session) as listener:
        for number in range(limit // 2 + 10):  # the loop stands still meanwhile, as under SIGSTOP; two events each
            (session.parent / f"f{number}").touch()
        session.write_text("last")
        with anyio.fail_after(30):
            while system.queues < 2:
                await listener.hint()
        assert listener.seen == "last"
        session.write_text("and on")
        await listener.until("and on")


async def test_c07_without_events_the_safety_poll_finds_an_edit(session: Path) -> None:
    watcher = InotifyWatcher(Silent(), safety_poll=0.05)
    watcher.set_paths([], [str(session)])
    async with listening(watcher, session) as listener:
        for number in range(3):
            session.write_text(f"edit {number}")
            await listener.until(f"edit {number}")


async def test_c07_paths_set_later_are_polled_too(session: Path, tmp_path: Path) -> None:
    other = tmp_path / "queue.jsonc"
    watcher = InotifyWatcher(Silent(), safety_poll=0.05)
    async with listening(watcher, other) as listener:
        watcher.set_paths([], [str(other)])
        await listener.hint()
        other.write_text("there")
        await listener.until("there")


async def test_a_write_without_a_close_and_a_new_mode_are_found_by_looking(session: Path) -> None:
    watcher = InotifyWatcher(safety_poll=0.05)
    watcher.set_paths([], [str(session)])
    async with listening(watcher, session) as listener:
        with open(session, "a") as file:
            file.write(" and more")
            file.flush()
            await listener.until("first and more")
            hints = listener.hints
            session.chmod(0o640)
            await listener.hint()
            assert listener.hints > hints


async def test_a_rename_far_above_is_found_by_the_kernel_and_a_link_far_above_by_looking(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "repo" / ".cueloop").mkdir(parents=True)
        (tmp_path / name / "repo" / ".cueloop" / "queue.jsonc").write_text(name)
    (tmp_path / "link").symlink_to("one")
    path = tmp_path / "link" / "repo" / ".cueloop" / "queue.jsonc"
    watcher = InotifyWatcher(safety_poll=0.05)
    watcher.set_paths([], [str(path)])
    async with listening(watcher, path) as listener:
        (tmp_path / "new").symlink_to("two")
        (tmp_path / "new").rename(tmp_path / "link")
        await listener.until("two")
    watcher = InotifyWatcher(safety_poll=NEVER)
    watcher.set_paths([], [str(path)])
    async with listening(watcher, path) as listener:
        (tmp_path / "two").rename(tmp_path / "three")
        await listener.until(None)


async def test_only_entries_that_matter_give_a_hint(session: Path) -> None:
    """Our own folder, the tool's files and whatever an agent does in the repository wake nobody above the watcher."""
    watcher = InotifyWatcher(safety_poll=NEVER)
    watcher.set_paths([], [str(session)])
    repo = session.parents[2]
    async with listening(watcher, session) as listener:
        (session.parent / "cueloopd").mkdir()
        (session.parent / "cueloopd" / "events.db").touch()
        (session.parent / "plan.md").write_text("plan")
        (repo / "main.py").write_text("x")
        (repo / "build").mkdir()
        (repo / "build").rename(repo / "dist")
        session.write_text("second")
        await listener.until("second")
        assert listener.hints == 1


async def test_nothing_is_watched_recursively_and_each_folder_once(session: Path) -> None:
    system = Counting()
    watcher = InotifyWatcher(system, safety_poll=NEVER)
    for number in range(20):
        (session.parents[2] / f"src{number}").mkdir()
    names = ["queue.jsonc", "done.jsonc", "config.jsonc", "trust.jsonc"]
    watcher.set_paths([], [str(session), *(str(session.parents[1] / name) for name in names)])
    async with listening(watcher, session):
        assert sorted(system.added) == sorted({str(folder) for folder in session.parents})


@pytest.mark.parametrize(
    ("refuse", "setting"),
    [
        ({"init": errno.EMFILE}, "fs.inotify.max_user_instances"),
        ({"add": errno.ENOSPC}, "fs.inotify.max_user_watches"),
        ({"init": errno.ENFILE}, "ulimit -n"),
        ({"init": errno.ENOSYS}, "gives no events"),
        ({"add": errno.ENOMEM}, "gives no events"),
    ],
    ids=str,
)
async def test_c04_at_a_limit_it_polls_and_says_which(session: Path, refuse: dict[str, int], setting: str) -> None:
    system = Counting(refuse)
    watcher = ChosenWatcher(lambda: InotifyWatcher(system, safety_poll=NEVER), interval=0.02)
    assert watcher.backend == "none"
    assert watcher.degraded is None
    watcher.set_paths([], [str(session)])
    async with listening(watcher, session) as listener:
        assert watcher.backend == "polling"
        assert watcher.degraded is not None
        assert setting in watcher.degraded
        session.write_text("second")
        await listener.until("second")


async def test_c04_a_limit_reached_while_running_degrades_and_recovers(session: Path, tmp_path: Path) -> None:
    system = Counting()
    watcher = ChosenWatcher(lambda: InotifyWatcher(system, safety_poll=NEVER), retry=0.1, interval=0.02)
    watcher.set_paths([], [str(session)])
    other = tmp_path / "plugins"
    other.mkdir()
    async with listening(watcher, session) as listener:
        assert (watcher.backend, watcher.degraded) == ("inotify", None)
        system.refuse = {"add": errno.ENOSPC}
        watcher.set_paths([str(other)], [str(session)])
        await listener.hint()
        assert watcher.backend == "polling"
        assert watcher.degraded is not None
        session.write_text("polled")
        await listener.until("polled")
        system.refuse = {}
        with anyio.fail_after(5):
            while watcher.backend != "inotify":
                await listener.hint()
        assert watcher.degraded is None
        session.write_text("by events again")
        await listener.until("by events again")


def test_c04_a_process_out_of_descriptors_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str, flags: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    exc = OSError(errno.EMFILE, "Too many open files")
    assert "max_user_instances" in limits.explain(exc)
    monkeypatch.setattr(limits.os, "open", full)
    assert "ulimit -n" in limits.explain(exc)


async def test_a_folder_that_may_not_be_watched_is_tried_again(session: Path) -> None:
    system = Counting({"add": errno.EACCES})
    watcher = InotifyWatcher(system, safety_poll=0.05)
    watcher.set_paths([], [str(session)])
    async with listening(watcher, session) as listener:
        assert system.added == []
        session.write_text("by looking")
        await listener.until("by looking")
        system.refuse = {}
        with anyio.fail_after(2):
            while str(session.parent) not in system.added:
                await listener.hint()
        session.write_text("by events")
        await listener.until("by events")


def head(watch: int, mask: int, name: bytes = b"") -> bytes:
    padded = name + b"\0" * (-len(name) % 16) if name else b""
    return struct.pack("iIII", watch, mask, 0, len(padded)) + padded


EVENTS = st.builds(Event, st.integers(-1, 8), st.integers(0, 2**32 - 1), st.text("abc/é", max_size=8))


@given(st.lists(EVENTS, max_size=20))
def test_events_survive_the_parser(events: list[Event]) -> None:
    assert list(parse(b"".join(head(event.watch, event.mask, event.name.encode()) for event in events))) == events


WRONG: list[Callable[[int], bytes]] = [
    lambda watch: head(watch, calls.CREATE, b"session.jsonc") * 3,
    lambda watch: head(watch, calls.DELETE, b"session.jsonc") + head(watch, calls.MOVED_TO, b"session.jsonc"),
    lambda watch: head(watch, calls.DELETE_SELF) + head(watch, calls.IGNORED),
    lambda watch: head(watch, calls.IGNORED),
    lambda watch: head(watch, calls.UNMOUNT),
    lambda watch: head(watch, calls.MOVE_SELF) * 2,
    lambda watch: head(-1, calls.OVERFLOW) + head(watch, calls.CLOSE_WRITE, b"session.jsonc"),
    lambda watch: head(watch + 100, calls.CLOSE_WRITE, b"session.jsonc"),
    lambda watch: head(watch, 0, b"session.jsonc"),
]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
async def test_c10_old_doubled_and_wrong_events_do_no_harm(
    session: Path, monkeypatch: pytest.MonkeyPatch, wrong: Callable[[int], bytes]
) -> None:
    """Whatever an event claims, the watch goes on and the next edit is seen."""
    real, lies = os.read, [wrong(watch) for watch in range(1, 9)]

    def read(fd: int, size: int) -> bytes:
        data = real(fd, size)
        return lies.pop() if lies and size > 100_000 else data

    watcher = InotifyWatcher(safety_poll=NEVER)
    watcher.set_paths([], [str(session)])
    with monkeypatch.context() as patch:
        async with listening(watcher, session) as listener:
            patch.setattr("cueloop_daemon.watch.inotify.os.read", read)
            while lies:
                left = len(lies)
                session.write_text(f"lie {left}")
                with anyio.fail_after(2):
                    while len(lies) == left:
                        await anyio.sleep(0.001)
            await wait_all_tasks_blocked()
            session.write_text("truth")
            await listener.until("truth")


async def test_failures_come_as_one_type() -> None:
    watcher = InotifyWatcher(Counting({"init": errno.EMFILE}))
    with pytest.raises(WatchFailed, match="sudo sysctl"):
        await watcher.run(lambda: None)


def test_the_calls_raise_what_the_kernel_says(tmp_path: Path) -> None:
    system = InotifyCalls()
    fd = system.init()
    assert not os.get_inheritable(fd)
    with pytest.raises(FileNotFoundError):
        system.add(fd, str(tmp_path / "missing"), calls.CONTENT_MASK)
    with pytest.raises(OSError, match="Invalid argument"):
        system.remove(fd, 7)
    os.close(fd)
