"""The session of a run: ours stands, theirs is kept and told, in this life and the next."""

from __future__ import annotations

import errno
import json
from datetime import datetime, timedelta
from pathlib import Path

import anyio
import pytest

from cueloop_daemon.runs.types import SessionWrite
from cueloop_daemon.store.etag import etag_of_bytes
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.outcomes import OwnershipLost, SessionRefused
from cueloop_daemon.store.session_writer import ATTEMPTS, RunSessionWriter
from cueloop_daemon.store.system import System
from cueloop_protocol.documents.session import Session
from faults.systems import Call, Hooked, Unhurried, failing_where
from faults.world import START, World

FOREIGN = b'{"version": 1, "by": "somebody else"}'
KEPT = 2
"""As many etags as `runs.db` remembers."""


def session(task_id: str = "RQ-0001", **more: object) -> Session:
    fields: dict[str, object] = {
        "version": 1,
        "session_id": "550e8400-e29b-41d4-a716-446655440000",
        "task_id": task_id,
        "run_started_at": "2026-02-07T09:00:00.000000000Z",
        "last_updated_at": "2026-02-07T09:00:00.000000000Z",
        "iterations_planned": 1,
        "iterations_completed": 0,
        "current_phase": 2,
        "runner": "claude",
        "model": "sonnet",
        "tasks_completed_in_loop": 0,
        "max_tasks": 1,
    }
    return Session.model_validate({**fields, **more})


class Run:
    """The writer's lives: what is remembered outlives each of them."""

    def __init__(self, path: Path, system: System | None = None) -> None:
        self.world = World(path, system or Unhurried())
        self.etags: tuple[str, ...] = ()
        self.now = START
        self.writer = self.life()

    def life(self) -> RunSessionWriter:
        """The writer of a new life."""
        self.writer = RunSessionWriter(self.world.store, self.world.system, lambda: self.now, self.etags, self.remember)
        return self.writer

    def remember(self, etag: str | None) -> None:
        self.etags = () if etag is None else (*self.etags, etag)[-KEPT:]

    def read(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.world.file.read_bytes())
        return found

    async def begin(self, action: str = "NOTHING", seen: str | None = None, reason: str = "session_declined") -> SessionWrite:
        return await self.writer.begin(session(), action, seen=seen, reason=reason)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


async def test_the_life_of_a_session(run: Run) -> None:
    first = await run.begin()
    assert first == SessionWrite(etag_of_bytes(run.world.file.read_bytes()))
    run.now += timedelta(minutes=1)
    second = await run.writer.save(session(current_phase=3))
    assert run.read()["current_phase"] == 3
    assert run.read()["last_updated_at"] == "2026-02-07T10:01:00.000000000Z"
    assert run.etags == (first.etag, second.etag)
    assert await run.writer.clear("finished") == SessionWrite(second.etag)
    assert not run.world.file.exists()
    assert list(run.world.kept().values()) == ["finished"]
    assert run.etags == ()
    assert await run.writer.clear("finished") is None


async def test_a23_the_clock_was_set_back(run: Run) -> None:
    run.now = datetime.fromisoformat("2026-02-07T08:00:00+00:00")
    await run.begin()
    assert run.read()["last_updated_at"] == "2026-02-07T09:00:00.000000000Z"


@pytest.mark.parametrize(
    ("action", "why"), [("KEEP", None), ("REPLACE", "session_declined"), ("TO_HISTORY", "session_declined"), ("NOTHING", None)]
)
async def test_what_becomes_of_the_old_file(action: str, why: str | None, run: Run) -> None:
    seen = run.world.put(FOREIGN)
    written = await run.begin(action, seen)
    assert written == SessionWrite(written.etag)
    assert run.world.kept() == ({} if why is None else {FOREIGN: why})


async def test_a26_a_corrupt_file_goes_to_quarantine(run: Run) -> None:
    seen = run.world.put(b"\0" * 642)
    written = await run.begin("QUARANTINE", seen)
    assert written == SessionWrite(written.etag)
    assert run.world.quarantined() == [b"\0" * 642]


async def test_a_file_that_is_no_longer_corrupt_is_not_put_into_quarantine(run: Run) -> None:
    seen = run.world.put(b"{")
    run.world.put(FOREIGN)
    written = await run.begin("QUARANTINE", seen)
    assert (run.world.quarantined(), run.world.kept()) == ([], {FOREIGN: "foreign"})
    assert len(written.foreign) == 1


@pytest.mark.parametrize("action", ["KEEP", "REPLACE", "NOTHING"])
async def test_a06_what_came_after_the_decision_is_kept_and_told(action: str, run: Run) -> None:
    seen = run.world.put(b'{"version": 1, "the": "decided one"}') if action != "NOTHING" else None
    run.world.put(FOREIGN)
    written = await run.begin(action, seen)
    assert len(written.foreign) == 1
    assert FOREIGN in run.world.kept()
    assert run.read()["task_id"] == "RQ-0001"


async def test_a_file_that_vanished_after_the_decision(run: Run) -> None:
    seen = run.world.put(FOREIGN)
    run.world.file.unlink()
    assert (await run.begin("KEEP", seen)).deleted


async def test_a06_theirs_is_kept_and_told_while_the_run_goes_on(run: Run) -> None:
    await run.begin()
    run.world.put(FOREIGN)
    written = await run.writer.save(session(current_phase=3))
    assert [Path(path).name for path in written.foreign] == ["00000001.jsonc"]
    assert run.world.kept() == {FOREIGN: "foreign"}
    assert not (await run.writer.save(session())).foreign


async def test_a_session_that_vanished_is_written_again_and_told(run: Run) -> None:
    await run.begin()
    run.world.file.unlink()
    assert (await run.writer.save(session())).deleted
    assert run.world.file.exists()


async def test_a_foreign_session_is_not_cleared_and_is_told(run: Run) -> None:
    await run.begin()
    run.world.put(FOREIGN)
    assert await run.writer.clear("finished") == SessionWrite("", stays=True)
    assert run.world.file.read_bytes() == FOREIGN


async def test_clearing_the_session_of_another_run(run: Run) -> None:
    etag = run.world.put(FOREIGN)
    assert await run.writer.clear("finished", "0" * 64) == SessionWrite("", stays=True)
    assert await run.writer.clear("finished", etag) == SessionWrite(etag)
    assert run.world.kept() == {FOREIGN: "finished"}


class TestLives:
    """A daemon dies at the worst moment; the next life tells ours from theirs."""

    async def test_before_the_write(self, run: Run) -> None:
        written = await run.begin()
        run.remember("f" * 64)  # it was about to write these bytes
        assert not (await run.life().save(session(current_phase=3))).foreign
        assert run.world.kept() == {}
        assert run.etags[0] == "f" * 64 or run.etags[0] == written.etag

    async def test_after_the_write(self, run: Run) -> None:
        await run.begin()
        await run.writer.save(session(current_phase=3))
        written = await run.life().save(session(current_phase=3))
        assert (written.foreign, written.deleted, run.world.kept()) == ((), False, {})

    async def test_after_the_first_write_the_old_file_is_not_kept_twice(self, run: Run) -> None:
        seen = run.world.put(FOREIGN)
        await run.begin("REPLACE", seen)
        run.life()
        written = await run.begin("REPLACE", seen)
        assert written == SessionWrite(written.etag)
        assert run.world.kept() == {FOREIGN: "session_declined"}

    async def test_after_quarantine_and_before_the_write(self, run: Run) -> None:
        seen = run.world.put(b"{")
        run.world.store.quarantine(seen)
        written = await run.begin("QUARANTINE", seen)
        assert (written.foreign, written.deleted) == ((), False)

    async def test_after_the_removal(self, run: Run) -> None:
        await run.begin()
        run.world.file.unlink()
        assert await run.life().clear("finished") is None

    async def test_theirs_is_theirs_in_the_next_life_too(self, run: Run) -> None:
        await run.begin()
        run.world.put(FOREIGN)
        assert len((await run.life().save(session())).foreign) == 1

    async def test_a_failed_write_pushes_nothing_out_of_what_is_remembered(self, tmp_path: Path) -> None:
        full = False
        run = Run(tmp_path, failing_where(lambda call: full and call.name == "write", errno.ENOSPC))
        await run.begin()
        full = True
        for _ in range(3):
            with pytest.raises(NotWritable, match="the disk is full"):
                await run.writer.save(session(current_phase=3))
        full = False
        assert not (await run.life().save(session(current_phase=3))).foreign
        assert run.world.kept() == {}
        assert run.world.leftovers() == []


async def test_a04_a_full_disk_leaves_the_old_file_and_a_later_save_works(tmp_path: Path) -> None:
    full = False
    run = Run(tmp_path, failing_where(lambda call: full and call.name == "write", errno.ENOSPC))
    await run.begin()
    before = run.world.file.read_bytes()
    full = True
    with pytest.raises(NotWritable) as raised:
        await run.writer.save(session(current_phase=3))
    assert raised.value.errno == errno.ENOSPC
    assert (run.world.file.read_bytes(), run.world.leftovers()) == (before, [])
    full = False
    assert not (await run.writer.save(session(current_phase=3))).foreign


async def test_nothing_is_written_without_ownership(run: Run) -> None:
    await run.begin()
    run.world.owned = False
    with pytest.raises(OwnershipLost):
        await run.writer.save(session())


async def test_b11_a_link_is_refused(run: Run) -> None:
    run.world.file.symlink_to("/nowhere")
    with pytest.raises(SessionRefused):
        await run.begin()


async def test_a_link_that_comes_and_goes_each_time_is_given_up(tmp_path: Path) -> None:
    """Whenever ours is about to go in, a link stands there; whenever it is looked at, a file."""
    path = tmp_path / ".cueloop/cache/session.jsonc"
    turns = 0

    def before(call: Call) -> None:
        nonlocal turns
        if call.name == "exchange" and str(path) in call.args:
            turns += 1
            path.unlink()
            if turns % 2:
                path.symlink_to("/nowhere")
            else:
                path.write_bytes(FOREIGN)

    run = Run(tmp_path)
    await run.begin()
    run.world.system = Hooked(before)
    run.life()
    with pytest.raises(NotWritable, match=r"another program keeps writing the file|symbolic link"):
        await run.writer.save(session())
    assert turns >= 1
    assert ATTEMPTS > 1


async def test_one_lane(run: Run) -> None:
    """Writes from several tasks come one after the other, each seeing the one before as ours."""
    await run.begin()
    told: list[SessionWrite] = []

    async def save(phase: int) -> None:
        told.append(await run.writer.save(session(current_phase=phase)))

    async with anyio.create_task_group() as tasks:
        for phase in (1, 2, 3, 1, 2, 3):
            tasks.start_soon(save, phase)
    assert [one.foreign for one in told] == [()] * 6
    assert run.world.kept() == {}
