"""Views: current before each answer, swapped whole, one for each caller, at most eight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from itertools import count
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_process
import pytest

from cueloop_daemon.core.model import QueueFile, QueueMissing, SessionCorrupt, SessionLoaded, SessionMissing, Unusable
from cueloop_daemon.store.git import Git
from cueloop_daemon.workspace import Workspace
from cueloop_daemon.workspace.files import FileCache
from cueloop_daemon.workspace.loading import Loader, QueueCache
from cueloop_daemon.workspace.workspace import BIG_QUEUE, MAX_VIEWS
from cueloop_protocol.roots import Caller, Root
from fake_clock import FakeClock
from support.repository import Repository, queue, session, task


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path.resolve() / "repo").lay()


@pytest.fixture
def clock() -> FakeClock:
    """Far from every file's own time, so that each counts as settled."""
    return FakeClock()


@pytest.fixture
def home(tmp_path: Path) -> Caller:
    (tmp_path / "home").mkdir()
    return Caller(str(tmp_path / "home"), None)


@pytest.fixture
def workspace(repository: Repository, clock: FakeClock, home: Caller) -> Workspace:
    root = Root(str(repository.path), str(repository.path))
    numbers = count(1)
    return Workspace(root, home, clock=clock, next_revision=lambda: next(numbers), git=Git({"PATH": os.environ["PATH"]}))


async def test_a_view_is_read_when_an_input_changed_and_not_otherwise(workspace: Workspace, repository: Repository) -> None:
    swaps: list[int] = []
    workspace.changed = lambda: swaps.append(1)
    view = workspace.view(None)
    assert not workspace.is_current(view)
    await workspace.refresh(view)
    assert isinstance(view.snapshot.session, SessionMissing)
    before = view.snapshot
    assert workspace.is_current(view)
    await workspace.refresh(view)
    assert view.snapshot is before
    repository.put(repository.session, session())
    assert not workspace.is_current(view)
    count_before = len(swaps)
    await workspace.refresh(view)
    assert isinstance(view.snapshot.session, SessionLoaded)
    assert view.snapshot.revision > before.revision
    assert len(swaps) == count_before + 1


async def test_what_changes_no_answer_keeps_the_revision(workspace: Workspace, repository: Repository) -> None:
    view = workspace.view(None)
    await workspace.refresh(view)
    before = view.snapshot
    os.utime(repository.queue)
    await workspace.refresh(view)
    assert view.snapshot is before
    assert workspace.is_current(view)


@pytest.mark.parametrize("name", ["queue.jsonc", "done.jsonc", "config.jsonc", "trust.jsonc", "cache/session.jsonc", "lock"])
async def test_every_input_is_looked_at(workspace: Workspace, repository: Repository, name: str) -> None:
    view = workspace.view(None)
    await workspace.refresh(view)
    assert workspace.is_current(view)
    path = repository.folder / name
    if name == "lock":
        path.mkdir()
    else:
        repository.put(path, b"{}")
    assert not workspace.is_current(view)


async def test_the_global_configuration_is_looked_at_too(workspace: Workspace, home: Caller) -> None:
    view = workspace.view(None)
    await workspace.refresh(view)
    folder = Path(home.home) / ".config/cueloop"
    folder.mkdir(parents=True)
    (folder / "config.jsonc").write_text('{"version": 2, "agent": {"session_timeout_hours": 7}}')
    assert not workspace.is_current(view)
    await workspace.refresh(view)
    assert not isinstance(view.snapshot.config, Unusable)
    assert view.snapshot.config.agent.session_timeout_hours == 7


async def test_a_holder_of_the_queue_lock_that_dies_is_noticed_although_no_file_changes(
    workspace: Workspace, repository: Repository
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as holder:
        repository.take_lock("run one", holder.pid)
        view = workspace.view(None)
        await workspace.refresh(view)
        assert view.snapshot.lock is not None
        assert view.snapshot.lock.live
        assert workspace.is_current(view)
        holder.communicate(b"\n")
    assert not workspace.is_current(view)
    await workspace.refresh(view)
    assert view.snapshot.lock is not None
    assert not view.snapshot.lock.live


async def test_a_damaged_session_settles(workspace: Workspace, repository: Repository, clock: FakeClock) -> None:
    repository.session.write_bytes(b"{")
    moment = clock.now().timestamp()
    os.utime(repository.session, (moment, moment))
    view = workspace.view(None)
    await workspace.refresh(view)
    assert isinstance(view.snapshot.session, SessionCorrupt)
    assert view.snapshot.settling
    later = Repository(repository.path).session.stat().st_ctime + 1
    clock.set(clock.now() + timedelta(seconds=later - clock.now().timestamp()))
    assert not workspace.is_current(view)
    await workspace.refresh(view)
    assert not view.snapshot.settling
    assert workspace.is_current(view)


async def test_views_are_kept_for_eight_callers_and_for_our_own_always(workspace: Workspace, home: Caller) -> None:
    own = workspace.view(None)
    callers = [Caller(f"/home/{number}", None) for number in range(MAX_VIEWS + 3)]
    views = [workspace.view(caller) for caller in callers]
    assert len(workspace.views()) == MAX_VIEWS
    assert workspace.view(home) is own
    assert workspace.view(callers[-1]) is views[-1]
    assert workspace.view(callers[0]) is not views[0]


async def test_an_answer_is_made_once_until_the_snapshot_or_the_clock_can_change_it(
    workspace: Workspace, repository: Repository, clock: FakeClock
) -> None:
    made: list[int] = []

    def make(_: object) -> bytes:
        made.append(1)
        return b"answer"

    moment = (clock.now() - timedelta(minutes=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    repository.put(repository.session, session(last_updated_at=moment))
    view = workspace.view(None)
    await workspace.refresh(view)
    for _ in range(3):
        assert view.answer("key", clock.now(), make) == b"answer"
    assert len(made) == 1
    assert view.has_answer("key", clock.now() + timedelta(minutes=29))
    assert not view.has_answer("key", clock.now() + timedelta(minutes=30))
    assert not view.has_answer("key", clock.now() - timedelta(seconds=1))
    repository.put(repository.session, session(last_updated_at=moment, current_phase=3))
    await workspace.refresh(view)
    assert not view.has_answer("key", clock.now())


async def test_an_answer_from_an_older_snapshot_is_not_kept(
    workspace: Workspace, repository: Repository, clock: FakeClock
) -> None:
    view = workspace.view(None)
    await workspace.refresh(view)
    older = view.snapshot
    repository.put(repository.session, session())
    await workspace.refresh(view)
    view.keep("key", older, clock.now(), b"old")
    assert not view.has_answer("key", clock.now())


async def test_answers_are_bounded(workspace: Workspace, clock: FakeClock) -> None:
    view = workspace.view(None)
    await workspace.refresh(view)
    for number in range(100):
        view.answer(number, clock.now(), lambda _: b"x")
    assert sum(view.has_answer(number, clock.now()) for number in range(100)) <= 16


async def test_a_big_queue_is_parsed_elsewhere_with_the_same_outcome(
    workspace: Workspace, repository: Repository, home: Caller
) -> None:
    tasks = [task(number, "todo", notes=["x" * 200]) for number in range(1, 1500)]
    repository.put(repository.queue, queue(*tasks) + b"// by hand\n")
    assert repository.queue.stat().st_size > BIG_QUEUE
    view = workspace.view(None)
    await workspace.refresh(view)
    found = view.snapshot.queue
    here = Loader(workspace.root, FileCache(lambda: 0), QueueCache(lambda: 0), lambda: 0).load(home).queue
    assert isinstance(found, QueueFile)
    assert isinstance(here, QueueFile)
    assert (found.rows, dict(found.index), found.rendered) == (here.rows, dict(here.index), here.rendered)
    repository.put(repository.queue, b"[" * BIG_QUEUE)
    await workspace.refresh(view)
    assert isinstance(view.snapshot.queue, Unusable)
    repository.queue.unlink()
    await workspace.refresh(view)
    assert isinstance(view.snapshot.queue, QueueMissing)


async def test_a_view_that_was_never_refreshed_has_no_snapshot(workspace: Workspace) -> None:
    with pytest.raises(RuntimeError, match="never refreshed"):
        workspace.view(None).snapshot  # noqa: B018


async def test_git_is_asked_once_in_two_seconds_unless_exactly(
    workspace: Workspace, repository: Repository, clock: FakeClock
) -> None:
    view = workspace.view(None)
    await workspace.refresh(view)
    assert view.dirt is not None
    first = view.dirt
    assert not workspace.dirt_is_old(view)
    clock.advance(1.9)
    await workspace.refresh(view)
    assert view.dirt is first
    await workspace.refresh(view, exact=True)
    assert view.dirt is not first
    clock.advance(2.1)
    assert workspace.dirt_is_old(view)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", json.dumps({"version": 1}).encode() * 2])
async def test_a_queue_that_cannot_be_used_is_a_value(workspace: Workspace, repository: Repository, data: bytes) -> None:
    repository.put(repository.queue, data)
    view = workspace.view(None)
    await workspace.refresh(view)
    assert isinstance(view.snapshot.queue, Unusable)
    assert str(repository.queue) in view.snapshot.queue.message


async def test_the_view_of_whoever_listens_stays(workspace: Workspace, home: Caller) -> None:
    callers = [Caller(f"/home/{number}", None) for number in range(MAX_VIEWS + 3)]
    workspace.listened = frozenset(callers)
    views = [workspace.view(caller) for caller in callers]
    assert [workspace.view(caller) for caller in callers] == views
    workspace.listened = frozenset()
    workspace.view(Caller("/home/other", None))
    assert len(workspace.views()) == MAX_VIEWS
    assert workspace.view(callers[0]) is not views[0]


async def test_a_view_that_went_while_it_was_read_is_there_when_it_was(workspace: Workspace, home: Caller) -> None:
    """Whoever asked goes on with the caller's view, straight after."""
    caller = Caller("/home/slow", None)
    view = workspace.view(caller)
    async with anyio.create_task_group() as tasks, view.lock:
        tasks.start_soon(workspace.refresh, view)
        await anyio.lowlevel.checkpoint()
        for number in range(MAX_VIEWS):
            workspace.view(Caller(f"/home/{number}", None))
        assert workspace.view(caller) is not view
    assert workspace.view(caller) is view
    assert view.snapshot.revision
    assert len(workspace.views()) == MAX_VIEWS


async def test_a_damaged_session_from_the_future_is_not_taken_for_half_written(
    workspace: Workspace, repository: Repository, clock: FakeClock
) -> None:
    repository.session.write_bytes(b"{")
    moment = clock.now().timestamp() + 3600
    os.utime(repository.session, (moment, moment))
    view = workspace.view(None)
    await workspace.refresh(view)
    assert isinstance(view.snapshot.session, SessionCorrupt)
    assert not view.snapshot.settling


async def test_a_damaged_session_settles_although_the_clock_is_set_back(
    workspace: Workspace, repository: Repository, clock: FakeClock
) -> None:
    repository.session.write_bytes(b"{")
    moment = clock.now().timestamp()
    os.utime(repository.session, (moment, moment))
    view = workspace.view(None)
    await workspace.refresh(view)
    assert view.snapshot.settling
    clock.set(clock.now() - timedelta(hours=1))
    await workspace.refresh(view)
    assert not view.snapshot.settling


async def test_a_worker_process_that_is_killed_costs_no_answer(
    workspace: Workspace, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(*_: object, **__: object) -> None:
        raise anyio.BrokenWorkerProcess

    monkeypatch.setattr(anyio.to_process, "run_sync", killed)
    repository.put(repository.queue, queue(*[task(number, "todo", notes=["x" * 200]) for number in range(1, 1500)]))
    view = workspace.view(None)
    await workspace.refresh(view)
    assert isinstance(view.snapshot.queue, QueueFile)


def test_files_that_are_not_configured_any_more_are_forgotten(
    repository: Repository, home: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cueloop_daemon.workspace.loading.MOST_QUEUES", 2)
    monkeypatch.setattr("cueloop_daemon.workspace.files.MOST_FILES", 3)
    files, queues = FileCache(lambda: 0), QueueCache(lambda: 0)
    loader = Loader(Root(str(repository.path), str(repository.path)), files, queues, lambda: 0)
    for number in range(6):
        config = {"version": 2, "queue": {"file": f".cueloop/queue-{number}.jsonc"}}
        (repository.folder / "config.jsonc").write_text(json.dumps(config))
        loaded = loader.load(home)
        assert isinstance(loaded.queue, QueueMissing)
    asked = len(files._kept)
    assert len(queues._kept) <= 2 + 2, "those of two loads"
    for number in range(20):
        files.read(str(repository.path / f"plugin-{number}"))
    loader.load(home)
    assert len(files._kept) <= 3 + asked
