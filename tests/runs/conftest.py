"""A record for each test: in memory, or the real one on disk, under the same laws."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest

from cueloop_daemon.runs.db import RunsPlace
from cueloop_daemon.runs.lane import DbLane
from runs.records import DiskRecord, MemoryRecord, Record

NewRecord = Callable[[], Awaitable[Record]]


@pytest.fixture
def place(tmp_path: Path) -> RunsPlace:
    return RunsPlace(str(tmp_path / "runs.db"), lambda: None)


@pytest.fixture
async def lane(place: RunsPlace) -> AsyncIterator[DbLane]:
    lane = DbLane(place)
    await lane.open()
    yield lane
    await lane.close()


@pytest.fixture(params=["memory", "disk"])
async def new_record(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[NewRecord]:
    """Gives a record of a run that has just begun, as many as are asked for."""
    lanes: list[DbLane] = []
    numbers = count()

    async def make() -> Record:
        if request.param == "memory":
            return MemoryRecord()
        lane = DbLane(RunsPlace(str(tmp_path / f"record{next(numbers)}.db"), lambda: None))
        lanes.append(lane)
        await lane.open()
        return await DiskRecord.begun(lane)

    yield make
    for lane in lanes:
        await lane.close()


@pytest.fixture
async def record(new_record: NewRecord) -> Record:
    return await new_record()
