"""The active run as it is told: in snapshots at once, in `active.json` while its shim lives, kept for the next daemon."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import pytest

from cueloop_daemon.core.model import ActiveRun, ShimProcess
from cueloop_daemon.runs.active import active_bytes, active_path, read_active, remove_active, view_from
from cueloop_daemon.runs.face import Face
from cueloop_protocol.identity import boot_id, process_start_time
from cueloop_protocol.roots import Root
from decision_world import STAMP

RUN = ActiveRun("r-1", "loop", None, None, "starting", STAMP, None)


def me() -> ShimProcess:
    return ShimProcess(os.getpid(), process_start_time(os.getpid()) or "", boot_id())


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / ".cueloop" / "cache" / "cueloopd").mkdir(parents=True)
    return Root(str(tmp_path), str(tmp_path))


def test_every_change_is_shown_at_once_and_a_wish_goes_before_it() -> None:
    shown: list[ActiveRun | None] = []
    face = Face(shown.append, lambda run: None)
    face.change(state="running")  # without a run there is nothing to change
    assert face.run is None
    face.begin(RUN)
    face.change(state="running", task_id="T", phase="plan")
    face.wish(stopping=True)
    face.change(state="waiting")
    face.change(state="running")
    face.wish(cancelling=True)
    face.end()
    states = [None if run is None else run.state for run in shown]
    assert states == ["starting", "running", "stopping", "waiting", "stopping", "cancelling", None]
    assert view_from(face.view()).state == "starting"


def test_what_a_next_life_needs_is_kept_and_anything_else_is_the_plainest() -> None:
    face = Face(lambda run: None, lambda run: None)
    face.begin(RUN)
    face.change(state="asking", task_id="T", phase="review")
    kept = view_from(face.view())
    assert (kept.state, kept.task_id, kept.phase) == ("asking", "T", "review")
    for other in (None, b"", b"{", b"[]", b'{"state": 3}'):
        assert view_from(other).state == "starting"


async def test_the_file_is_written_before_who_waits_for_it_goes_on_and_once_for_several_changes() -> None:
    written: list[ActiveRun | None] = []
    face = Face(lambda run: None, written.append)
    face.begin(RUN)
    face.change(state="running")
    await face.written()
    await face.written()
    assert [run.state for run in written if run] == ["running"]
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(face.keep_written)
            face.end()
            while written[-1] is not None:
                await anyio.sleep(0)
            tasks.cancel_scope.cancel()


async def test_a_file_that_cannot_be_written_stops_nothing() -> None:
    def write(run: ActiveRun | None) -> None:
        raise PermissionError("no")

    face = Face(lambda run: None, write)
    face.begin(RUN)
    await face.written()


def test_f01_the_file_is_believed_while_that_very_shim_lives(root: Root) -> None:
    path = Path(active_path(root))
    assert read_active(root) is None
    mine = ActiveRun("r-1", "one", "T", "implement", "running", STAMP, None, me())
    path.write_bytes(active_bytes(mine))
    assert read_active(root) == mine
    start, boot = me().start_time, me().boot_id
    for shim in (None, (os.getpid(), "other", boot), (os.getpid(), start, "other boot"), (2**31 - 1, start, boot)):
        other = ActiveRun("r-1", "one", "T", None, "running", STAMP, None, None if shim is None else ShimProcess(*shim))
        path.write_bytes(active_bytes(other))
        assert read_active(root) is None
    for pid in (0, 1, -1):
        changed = json.loads(active_bytes(mine))
        changed["shim"]["pid"] = pid
        path.write_text(json.dumps(changed))
        assert read_active(root) is None
    for data in (b"", b"\0\0", b"{}", b"[" * 5000, b"\xff"):
        path.write_bytes(data)
        assert read_active(root) is None
    remove_active(root)
    remove_active(root)
    assert not path.exists()
    path.mkdir()
    assert read_active(root) is None
