"""A big queue file that a worker process reads: parsed once for each content, looked at as often as its stat is in doubt."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from cueloop_daemon.core.model import QueueFile, QueueMissing, Unusable
from cueloop_daemon.workspace.files import TICK_NS, Input, telling
from cueloop_daemon.workspace.loading import MOST_QUEUES, Packed, QueueCache, QueuePlace, pack_file

STAMP = "2026-01-01T00:00:00Z"


def text(title: str) -> str:
    task = {"id": "RQ-0001", "title": title, "created_at": STAMP, "updated_at": STAMP}
    return json.dumps({"version": 1, "tasks": [task]})


@pytest.fixture
def place(tmp_path: Path) -> QueuePlace:
    file = tmp_path / "queue.jsonc"
    file.write_text(text("first"))
    return QueuePlace(str(file), str(file))


def read(place: QueuePlace, cache: QueueCache, read_at_ns: int | None = None) -> Packed:
    packed = pack_file(place.io, place.shown, cache.content(place))
    if read_at_ns is not None:
        packed = replace(packed, read_at_ns=read_at_ns)
    cache.keep_packed(place, packed)
    return packed


def just_after_the_write(place: QueuePlace) -> int:
    return os.stat(place.io).st_mtime_ns + TICK_NS // 2


def long_after_the_write(place: QueuePlace) -> int:
    return os.stat(place.io).st_mtime_ns + 10 * TICK_NS


def test_the_same_content_is_not_parsed_again_and_counts_as_settled_then(place: QueuePlace) -> None:
    cache = QueueCache(lambda: 0)
    first = read(place, cache, just_after_the_write(place))
    assert first.body is not None
    assert cache.unsettled(place)
    assert cache.lookup(place) is None
    state, digest = cache._kept[place.io].state, cache.digest(place)
    again = read(place, cache, long_after_the_write(place))
    assert again.body is None
    assert cache.lookup(place) is state
    assert isinstance(state, QueueFile)
    assert cache.digest(place) == digest


def test_another_content_with_the_same_stat_is_parsed(place: QueuePlace) -> None:
    cache = QueueCache(lambda: 0)
    read(place, cache, just_after_the_write(place))
    was = os.stat(place.io)
    before = cache.digest(place)
    Path(place.io).write_text(text("again"))
    os.utime(place.io, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert read(place, cache, long_after_the_write(place)).body is not None
    assert cache.digest(place) != before


def test_a_file_that_cannot_be_used_is_remembered_by_its_content_too(place: QueuePlace) -> None:
    Path(place.io).write_text("{broken")
    cache = QueueCache(lambda: 0)
    read(place, cache)
    assert read(place, cache, long_after_the_write(place)).body is None
    assert isinstance(cache.lookup(place), Unusable)


def test_what_this_process_read_last_is_parsed_by_the_worker(place: QueuePlace) -> None:
    cache = QueueCache(lambda: 0)
    read(place, cache)
    Path(place.io).write_text(text("another"))
    cache.read(place, "queue")
    assert cache.content(place) is None
    assert read(place, cache).body is not None


@pytest.mark.parametrize("gone", ["missing", "folder"])
def test_what_the_worker_cannot_read_changes_nothing(place: QueuePlace, gone: str) -> None:
    cache = QueueCache(lambda: 0)
    read(place, cache)
    kept = cache._kept[place.io]
    os.unlink(place.io)
    if gone == "folder":
        os.mkdir(place.io)
    packed = read(place, cache)
    assert (packed.content, packed.body) == (None, None)
    assert cache._kept[place.io] is kept
    assert cache.lookup(place) is None


def test_what_lies_in_a_missing_folder_is_not_looked_at() -> None:
    lock, owner, other = Input("/r/lock", ()), Input("/r/lock/owner", ()), Input("/r/queue.jsonc", ())
    assert telling((lock, owner, other)) == (lock, other)


def test_what_lies_in_a_folder_that_is_there_is_looked_at() -> None:
    inputs = (Input("/r/lock", (1, 2, 3, 4, 5)), Input("/r/lock/owner", ()))
    assert telling(inputs) == inputs


def test_what_lies_in_a_folder_that_cannot_be_looked_at_is_looked_at() -> None:
    inputs = (Input("/r/lock", (-13,)), Input("/r/lock/owner", (-13,)))
    assert telling(inputs) == inputs


def test_the_files_that_were_used_last_are_kept(place: QueuePlace) -> None:
    cache = QueueCache(lambda: long_after_the_write(place))
    others = [QueuePlace(f"{place.io}.{number}", f"{place.shown}.{number}") for number in range(MOST_QUEUES)]
    read(place, cache, long_after_the_write(place))
    for other in others:
        assert isinstance(cache.read(other, "queue"), QueueMissing)
    assert cache.lookup(place) is not None  # used again
    cache.forget_oldest()
    assert [name in cache._kept for name in (place.io, others[0].io, others[1].io)] == [True, False, True]
    assert len(cache._kept) == MOST_QUEUES
