"""SIGKILL of the daemon at every write-ahead place of a run over real processes; one that is added is tried by itself."""

from __future__ import annotations

from faults.runs_places import Shape, apart, kill_at_each, telling


def test_a24_the_next_daemon_neither_repeats_nor_skips_a_step() -> None:
    """A24: agent, gate and commit once each, each event once, the task in one file, the session true at the moment of death."""
    killed, there = kill_at_each(Shape("one", 1), apart)
    assert 40 <= killed <= there


def test_only_places_that_nothing_lies_between_are_left_out() -> None:
    places = ["a before", "a result", "b before", "b intent", "b acted", "b result", "c before", "c acted", "c result"]
    assert telling(places) == [0, 1, 3, 4, 5, 7, 8]
    assert apart(places) == [0, 1, 3, 4, 5, 7, 8]


def test_of_entries_without_an_act_the_last_end_is_tried() -> None:
    places = ["a before", "a result", "b before", "b result", "checkpoint/open before", "checkpoint/open result", "c before"]
    places += ["c result", "d before", "d acted", "d result", "e before", "e result"]
    wanted = ["a before", "b result", "checkpoint/open result", "c result", "d acted", "e result"]
    assert [places[number] for number in apart(places)] == wanted
