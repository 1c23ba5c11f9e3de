"""Each way to cut a connection, under a run that talks: nothing stays behind, and no event is lost or told twice."""

from __future__ import annotations

from remote.cuts import BEATS, LEAVE, WAYS, cuts


def test_every_way_to_cut_a_connection() -> None:
    told = cuts(len(WAYS))
    assert (told.lost, told.doubled, told.left) == (0, 0, 0)
    assert told.notes > len(WAYS)
    for way, times in told.gone.items():
        assert max(times) < LEAVE + (BEATS.idle if way == "stall" else 0.0), told.line()
