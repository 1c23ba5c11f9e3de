"""What is owed, for those who answer without a daemon: a derived copy that nobody has to believe."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from cueloop_daemon.core.model import OwedTask
from cueloop_daemon.runs.kept import OwedRows
from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.owed_file import owed_path, read_owed, write_owed
from cueloop_daemon.runs.types import OwedRow
from cueloop_protocol.roots import Root
from runs.engines import Office
from runs.test_engine import quick
from runs.test_kept import row

OWED = (OwedTask("RQ-0001", "etag"), OwedTask("RQ-0002", None))


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / ".cueloop" / "cache" / "cueloopd").mkdir(parents=True)
    return Root(str(tmp_path), str(tmp_path))


def write(path: str, data: bytes) -> None:
    Path(path).write_bytes(data)


def test_what_was_written_is_read_and_nothing_is_no_file(root: Root) -> None:
    assert read_owed(root) == ()
    write_owed(root, OWED, write)
    assert read_owed(root) == OWED
    write_owed(root, (), write)
    write_owed(root, (), write)
    assert not Path(owed_path(root)).exists()


@pytest.mark.parametrize("data", [b"", b"\0", b"{}", b'[["a"]]', b'[{"task_id": 3}]', b"[" * 3000])
def test_what_makes_no_sense_owes_nothing(root: Root, data: bytes) -> None:
    Path(owed_path(root)).write_bytes(data)
    assert read_owed(root) == ()


async def test_a_new_daemon_says_what_is_owed_when_it_has_read_the_record(tmp_path: Path) -> None:
    office = Office(tmp_path, quick)

    async def untold(rows: tuple[OwedRow, ...]) -> None:
        """The daemon ends before it can say so."""

    async with office.life() as life:
        lane: DbLane = life.engine._around.lane
        await OwedRows(lane, untold).accept(row("RQ-0001"))
    assert office.owed == [()]
    async with office.life():
        await anyio.sleep(0)
    assert [[one.task_id for one in rows] for rows in office.owed] == [[], ["RQ-0001"]]
