"""Joining output for one who lags: no text is lost without a word, and nothing but output is touched."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.events.model import NewEvent, Row
from cueloop_daemon.events.output import LONGEST_TEXT, join_output
from events.hubs import output, warning


def rows(*events: NewEvent) -> list[Row]:
    return [Row(seq, e.method, e.kind, e.run_id, e.audience, e.params) for seq, e in enumerate(events, 1)]


def text(row: Row) -> str:
    found = json.loads(row.params)["event"]["payload"]["text"]
    assert isinstance(found, str)
    return found


def test_neighbours_become_one_with_the_last_ones_seq_and_time() -> None:
    (joint,) = join_output(rows(output("a"), output("b"), output("c")))
    assert joint.seq == 3
    assert text(joint) == "abc"
    assert json.loads(joint.params)["event"]["timestamp"] == "c"


def test_a_revision_that_rose_in_between_does_not_part_them_and_the_last_one_is_told() -> None:
    first, second = rows(output("a"), output("b"))
    later = second._replace(params=second.params.replace(b'"revision": 1', b'"revision": 2'))
    (joint,) = join_output([first, later])
    assert (json.loads(joint.params)["revision"], text(joint)) == (2, "ab")


def test_other_runs_phases_and_kinds_are_not_mixed() -> None:
    pieces = rows(output("a"), output("b", run_id="run-2"), output("c", run_id="run-2", phase="plan"), warning(), output("d"))
    assert join_output(pieces) == tuple(pieces)


def test_an_unknown_shape_is_passed_on_as_it_is() -> None:
    shapes = [
        b"{}",
        b'{"event":{}}',
        b'{"event":{"payload":{"text":5}}}',
        b'{"event":[]}',
        b'{"event":{"payload":null}}',
        b"{broken}",
    ]
    odd = [Row(seq, "event", "runner_output", "r", None, shape) for seq, shape in enumerate(shapes, 1)]
    assert join_output(odd) == tuple(odd)


def test_what_is_too_long_says_how_much_is_missing_and_keeps_the_end() -> None:
    (joint,) = join_output(rows(output("a" * LONGEST_TEXT), output("b" * 10)))
    marker, _, kept = text(joint).partition("\n")
    assert marker == "[10 characters left out here; the log of the run has them]"
    assert kept == "a" * (LONGEST_TEXT - 10) + "b" * 10
    assert len(joint.params) < 1_000_000


def test_the_longest_joint_event_stays_under_a_million_characters_when_escaped() -> None:
    (joint,) = join_output(
        rows(output("\U0001f600" * LONGEST_TEXT), output("\x01" * LONGEST_TEXT), output("\U0001f600" * LONGEST_TEXT))
    )
    assert len(joint.params) < 1_000_000


def test_a_single_event_is_never_shortened() -> None:
    alone = rows(output("a" * (LONGEST_TEXT * 2)))
    assert join_output(alone) == tuple(alone)


EVENTS = st.lists(
    st.builds(output, st.text(max_size=5), run_id=st.sampled_from(["r1", "r2"])) | st.builds(warning, st.text(max_size=5)),
    max_size=30,
)


@given(EVENTS)
def test_state_events_pass_untouched_and_every_text_arrives_once_in_order(events: list[NewEvent]) -> None:
    before = rows(*events)
    after = join_output(before)

    assert [row for row in after if row.kind == "warning"] == [row for row in before if row.kind == "warning"]
    assert [row.seq for row in after] == sorted({row.seq for row in after})
    assert {row.seq for row in after} <= {row.seq for row in before}
    for run in ("r1", "r2"):
        told = [text(row) for row in after if row.run_id == run]
        assert "".join(told) == "".join(text(row) for row in before if row.run_id == run)
    for row in after:  # what a joint event covers ends with it: no state event was passed over
        assert row.kind == before[row.seq - 1].kind
