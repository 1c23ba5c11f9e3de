"""What every watcher must do, asked of each of them on asyncio and trio. No safety poll helps here: the events must suffice."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from cueloop_daemon.watch.choose import ChosenWatcher
from cueloop_daemon.watch.fallback import WatchfilesWatcher
from cueloop_daemon.watch.inotify import InotifyWatcher
from cueloop_daemon.watch.polling import PollingWatcher
from cueloop_daemon.watch.watcher import Watcher
from hearing import NEVER, listening

MAKERS: dict[str, Callable[[], Watcher]] = {
    "inotify": lambda: InotifyWatcher(safety_poll=NEVER),
    "watchfiles": lambda: WatchfilesWatcher(safety_poll=NEVER),
    "polling": lambda: PollingWatcher(interval=0.02),
    "chosen": lambda: ChosenWatcher(lambda: InotifyWatcher(safety_poll=NEVER)),
}


@pytest.fixture(params=MAKERS)
def watcher(request: pytest.FixtureRequest) -> Watcher:
    return MAKERS[request.param]()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".cueloop" / "cache").mkdir(parents=True)
    return tmp_path / "repo"


@pytest.fixture
def session(repo: Path) -> Path:
    path = repo / ".cueloop" / "cache" / "session.jsonc"
    path.write_text("first")
    return path


def replace(path: Path, text: str) -> None:
    """A rename-style save."""
    temporary = path.with_name("4913")
    temporary.write_text(text)
    temporary.rename(path)


def vim_backup(path: Path, text: str) -> None:
    """How vim saves with backupcopy=no: the old file is moved away and a new one is made."""
    backup = path.with_name(f"{path.name}~")
    path.rename(backup)
    path.write_text(text)
    backup.unlink()


def vim_copy(path: Path, text: str) -> None:
    """How vim saves with backupcopy=yes: a copy is kept, and the file is written in place."""
    backup = path.with_name(f"{path.name}~")
    shutil.copy(path, backup)
    path.write_text(text)
    backup.unlink()


@pytest.mark.parametrize("save", [replace, vim_backup, vim_copy])
async def test_c01_every_save_is_seen(watcher: Watcher, session: Path, save: Callable[[Path, str], None]) -> None:
    watcher.set_paths([], [str(session)])
    async with listening(watcher, session) as listener:
        for number in range(5):
            save(session, f"save {number}")
            await listener.until(f"save {number}")
        session.unlink()
        await listener.until(None)


@pytest.mark.parametrize("gap", [0, 0.001, 0.05])
async def test_c06_a_folder_made_anew_is_watched_again(watcher: Watcher, session: Path, gap: float) -> None:
    watcher.set_paths([], [str(session)])
    async with listening(watcher, session) as listener:
        for number in range(4):
            shutil.rmtree(session.parent)
            if gap:
                await anyio.sleep(gap)
            session.parent.mkdir()
            session.write_text(f"anew {number}")
            await listener.until(f"anew {number}")
            replace(session, f"after {number}")
            await listener.until(f"after {number}")


async def test_c06_a_folder_gone_for_seconds(session: Path) -> None:
    watcher = InotifyWatcher(safety_poll=NEVER)
    watcher.set_paths([], [str(session)])
    async with listening(watcher, session) as listener:
        shutil.rmtree(session.parent.parent)
        await listener.until(None)
        await anyio.sleep(3)
        session.parent.mkdir(parents=True)
        session.write_text("back")
        await listener.until("back")


async def test_c06_the_repository_is_renamed_and_another_takes_its_place(watcher: Watcher, repo: Path, session: Path) -> None:
    if watcher.backend == "watchfiles":
        watcher = WatchfilesWatcher(safety_poll=0.1)  # it has no event for this
    watcher.set_paths([], [str(session)])
    async with listening(watcher, session) as listener:
        repo.rename(repo.with_name("away"))
        await listener.until(None)
        session.parent.mkdir(parents=True)
        session.write_text("another")
        await listener.until("another")
        shutil.rmtree(repo)
        await listener.until(None)
        repo.with_name("away").rename(repo)
        await listener.until("first")
        replace(session, "and on")
        await listener.until("and on")


def git(repo: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments], cwd=repo, check=True, capture_output=True)


async def test_c06_git_clean_checkout_and_stash(repo: Path, session: Path) -> None:
    git(repo, "init", "-q", "-b", "main")
    git(repo, "commit", "-q", "--allow-empty", "-m", "empty")
    git(repo, "branch", "bare")
    queue = repo / ".cueloop" / "queue.jsonc"
    queue.write_text("queue")
    git(repo, "add", "-f", str(queue))
    git(repo, "commit", "-q", "-m", "queue")
    watcher = InotifyWatcher(safety_poll=NEVER)
    watcher.set_paths([], [str(session), str(queue)])
    async with listening(watcher, session) as listener:
        for number in range(3):
            git(repo, "stash", "-u")
            await listener.until(None)
            git(repo, "stash", "pop")
            await listener.until("first")
            git(repo, "clean", "-fdxq")
            await listener.until(None)
            git(repo, "checkout", "-q", "bare")
            git(repo, "checkout", "-q", "main")
            session.parent.mkdir(parents=True)
            session.write_text(f"round {number}")
            await listener.until(f"round {number}")
            session.write_text("first")
            await listener.until("first")


async def test_what_does_not_exist_yet_is_seen_when_it_comes(watcher: Watcher, tmp_path: Path) -> None:
    path = tmp_path / "home" / ".config" / "cueloop" / "config.jsonc"
    watcher.set_paths([], [str(path)])
    async with listening(watcher, path) as listener:
        path.parent.mkdir(parents=True)
        path.write_text("global")
        await listener.until("global")
        replace(path, "changed")
        await listener.until("changed")


async def test_b11_links_are_watched_at_both_ends(watcher: Watcher, repo: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "queue.jsonc").write_text("shared")
    (tmp_path / "other.jsonc").write_text("other")
    queue = repo / ".cueloop" / "queue.jsonc"
    queue.symlink_to(shared / "queue.jsonc")
    watcher.set_paths([], [str(queue)])
    async with listening(watcher, queue) as listener:
        (shared / "queue.jsonc").write_text("in place")
        await listener.until("in place")
        replace(shared / "queue.jsonc", "replaced")
        await listener.until("replaced")
        queue.unlink()
        queue.symlink_to(tmp_path / "other.jsonc")
        await listener.until("other")
        (tmp_path / "other.jsonc").write_text("more")
        await listener.until("more")
        shutil.rmtree(repo / ".cueloop")
        (repo / ".cueloop").symlink_to(shared)
        await listener.until("replaced")
        replace(shared / "queue.jsonc", "by the folder's link")
        await listener.until("by the folder's link")


async def test_of_a_watched_folder_every_entry_counts(watcher: Watcher, repo: Path) -> None:
    plugins = repo / ".cueloop" / "plugins"
    watcher.set_paths([str(plugins)])
    async with listening(watcher, plugins / "a") as listener:
        plugins.mkdir()
        (plugins / "a").write_text("1")
        await listener.until("1")
        (plugins / "a").write_text("22")
        await listener.until("22")
        (plugins / "a").unlink()
        await listener.until(None)


async def test_c09_reading_gives_no_hint(watcher: Watcher, session: Path) -> None:
    watcher.set_paths([str(session.parent)], [str(session)])
    async with listening(watcher, session) as listener:
        for _ in range(300):
            session.read_text()
            os.listdir(session.parent)
            session.stat()
        await anyio.sleep(0.15)  # three steps of the slowest: were there a hint, it would be here
        assert listener.hints == 0
        session.write_text("written")
        await listener.until("written")


async def test_paths_are_changed_while_it_runs(watcher: Watcher, session: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "queue.jsonc"
    watcher.set_paths([], [str(session)])
    async with listening(watcher, other) as listener:
        watcher.set_paths([], [str(other)])
        other.parent.mkdir()
        other.write_text("there")
        await listener.until("there")
        shutil.rmtree(other.parent)
        await listener.until(None)


async def test_a_root_below_an_ignored_name_is_watched(watcher: Watcher, tmp_path: Path) -> None:
    path = tmp_path / "node_modules" / ".git" / ".venv" / "session.jsonc"
    path.parent.mkdir(parents=True)
    watcher.set_paths([], [str(path)])
    async with listening(watcher, path) as listener:
        path.write_text("seen")
        await listener.until("seen")


async def test_a_name_that_is_no_text_does_no_harm(watcher: Watcher, session: Path) -> None:
    watcher.set_paths([str(session.parent)], [str(session)])
    async with listening(watcher, session) as listener:
        for number in range(3):
            with open(os.fsencode(session.parent) + b"/\xff%d" % number, "wb") as file:
                file.write(b"x")
            replace(session, f"after {number}")
            await listener.until(f"after {number}")


async def test_cancelling_is_quick_and_gives_everything_back(watcher: Watcher, session: Path) -> None:
    watcher.set_paths([], [str(session)])
    await anyio.to_thread.run_sync(int)  # what the loop itself keeps open for threads
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        async with listening(watcher, session):
            started = time.monotonic()
        assert time.monotonic() - started < 1
    with anyio.fail_after(2):
        while len(os.listdir("/dev/fd")) > before:  # the library closes its own in its own thread
            await anyio.sleep(0.01)
