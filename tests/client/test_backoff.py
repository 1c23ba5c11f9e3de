"""After failed starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cueloop_client.backoff import Backoff, pause_after
from cueloop_client.failures import StartFailed


class Wall:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("count", "pause"), [(1, 1.0), (2, 2.0), (3, 4.0), (5, 16.0), (6, 30.0), (1000, 30.0)])
def test_pauses_double_up_to_the_longest(count: int, pause: float) -> None:
    assert pause_after(count) == pause


def test_d27_the_same_reason_is_told_during_the_pause_and_a_start_tried_after_it(tmp_path: Path) -> None:
    wall = Wall()
    backoff = Backoff(str(tmp_path / "x.failed"), wall)
    backoff.check()
    backoff.record(StartFailed("No room.", "On the disk.", word="permission_denied"))
    wall.now += 0.999
    with pytest.raises(StartFailed, match="No room") as caught:
        backoff.check()
    assert caught.value.word == "permission_denied"
    assert caught.value.detail is not None
    assert "On the disk." in caught.value.detail
    assert "once" in caught.value.detail
    wall.now += 0.001
    backoff.check()
    backoff.record(StartFailed("No room."))
    wall.now += 1.5
    with pytest.raises(StartFailed) as caught:
        backoff.check()
    assert caught.value.detail is not None
    assert "2 times in a row" in caught.value.detail
    backoff.clear()
    backoff.check()
    backoff.clear()


def test_a_clock_set_back_does_not_prolong_the_pause(tmp_path: Path) -> None:
    wall = Wall()
    backoff = Backoff(str(tmp_path / "x.failed"), wall)
    backoff.record(StartFailed("No room."))
    wall.now -= 3600
    backoff.check()


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", "{}", "[" * 100_000, '{"count": 0, "at": 1000.0, "word": "unknown", "message": "m", "detail": null}',
     '{"count": true, "at": 1000.0, "word": "unknown", "message": "m", "detail": null}',
     '{"count": 1, "at": "x", "word": "unknown", "message": "m", "detail": null}',
     '{"count": 1, "at": 1000.0, "word": 3, "message": "m", "detail": null}',
     '{"count": 1, "at": 1000.0, "word": "unknown", "message": "m", "detail": 4}'],
)  # fmt: skip
def test_a_record_that_is_none_stops_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.failed").write_text(text)
    Backoff(str(tmp_path / "x.failed"), Wall()).check()


def test_a_record_that_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    backoff = Backoff(str(tmp_path / "missing/x.failed"), Wall())
    backoff.record(StartFailed("No room."))
    backoff.check()
