"""The portable watcher when its library fails, is deaf, or is cancelled."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import pytest

from cueloop_daemon.watch import fallback
from cueloop_daemon.watch.choose import ChosenWatcher, native_watcher
from cueloop_daemon.watch.fallback import ATTEMPTS, WatchfilesWatcher, open_notify
from cueloop_daemon.watch.inotify import InotifyWatcher
from cueloop_daemon.watch.polling import PollingWatcher
from cueloop_daemon.watch.watcher import Watcher
from hearing import NEVER, listening


class Fake:
    """The library's lower half: gives what was prepared, then blocks until it is told to stop."""

    def __init__(self, *given: set[tuple[int, str]] | Exception) -> None:
        self.given = list(given)
        self.closed = False

    def watch(self, debounce_ms: int, step_ms: int, timeout_ms: int, stop_event: threading.Event) -> set[tuple[int, str]] | str:
        assert step_ms > 0  # 0 burns a whole processor
        assert timeout_ms == 0
        if not self.given:
            assert stop_event.wait(10)
            return "stop"
        one = self.given.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonc"
    path.write_text("first")
    return path


async def test_a_failure_is_survived_with_a_new_start(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "RETRY", 0.0)
    made: list[Fake] = []

    def notify(folders: list[str]) -> Fake:
        made.append(Fake(RuntimeError("broken")) if len(made) < ATTEMPTS - 1 else Fake({(2, str(session))}))
        return made[-1]

    watcher = WatchfilesWatcher(notify, safety_poll=NEVER)
    watcher.set_paths([], [str(session)])
    async with listening(watcher, session):
        with anyio.fail_after(2):
            while len(made) < ATTEMPTS or made[-1].given:
                await anyio.sleep(0.001)
    assert all(fake.closed for fake in made)


async def test_c04_after_repeated_failures_it_polls_and_says_so(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "RETRY", 0.0)

    def notify(folders: list[str]) -> Fake:
        raise OSError("OS file watch limit reached")

    watcher = ChosenWatcher(lambda: WatchfilesWatcher(notify), interval=0.02)
    watcher.set_paths([], [str(session)])
    async with listening(watcher, session) as listener:
        assert watcher.backend == "polling"
        assert watcher.degraded is not None
        assert "OS file watch limit reached" in watcher.degraded
        session.write_text("second")
        await listener.until("second")


async def test_c07_a_deaf_library_is_helped_by_looking(session: Path) -> None:
    watcher = WatchfilesWatcher(lambda folders: Fake(), safety_poll=0.05)
    watcher.set_paths([], [str(session)])
    async with listening(watcher, session) as listener:
        session.write_text("second")
        await listener.until("second")


async def test_only_entries_that_matter_give_a_hint_and_unknown_folders_do(session: Path) -> None:
    folder = session.parent
    fake = Fake({(1, f"{folder}/other")}, {(2, f"/private{session}")}, {(2, f"{folder}/other")})
    watcher = WatchfilesWatcher(lambda folders: fake, safety_poll=NEVER)
    watcher.set_paths([], [str(session)])
    async with listening(watcher, session) as listener:
        with anyio.fail_after(2):
            while fake.given or not listener.hints:
                await anyio.sleep(0.001)
    assert listener.hints == 1


def test_a_missing_folder_is_an_error_and_not_silence(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_notify([str(tmp_path / "missing")])


@pytest.mark.parametrize(("system", "kind"), [("linux", InotifyWatcher), ("darwin", WatchfilesWatcher)])
def test_each_system_has_its_watcher(monkeypatch: pytest.MonkeyPatch, system: str, kind: type[Watcher]) -> None:
    monkeypatch.setattr("cueloop_daemon.watch.choose.sys.platform", system)
    assert type(native_watcher()) is kind


async def test_a_native_watcher_that_ends_is_no_end_of_watching(session: Path) -> None:
    class Ending(PollingWatcher):
        async def run(self, on_hint: object, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
            task_status.started()

    watcher = ChosenWatcher(Ending, interval=0.02)
    watcher.set_paths([], [str(session)])
    async with listening(watcher, session) as listener:
        await listener.hint()
        assert watcher.degraded == "the watcher ended by itself"
        session.write_text("second")
        await listener.until("second")
