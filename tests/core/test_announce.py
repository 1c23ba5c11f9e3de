"""What is announced between two standings: order, silence, and what stays owed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.core.announce import (
    Announcement,
    DecisionChanged,
    DocumentChanged,
    FaultAppeared,
    QueueChanged,
    Standing,
    announced,
    announcements,
    fault_of,
    standing_from_json,
    standing_to_json,
)
from cueloop_daemon.core.model import Unusable
from cueloop_protocol.documents.decision import Decision


def decision(reason: str = "session_valid", message: str = "Resume.") -> Decision:
    return Decision.model_validate(
        {"status": "resuming_same_session", "scope": "run_session", "reason": reason, "message": message, "detail": ""}
    )


VALID = decision()
BEFORE = Standing(VALID, "document", "settings", "queue", None)
STALE = decision("session_stale")


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (BEFORE, []),
        (replace(BEFORE, queue="other"), [QueueChanged()]),
        (replace(BEFORE, document="other"), [DocumentChanged()]),
        (replace(BEFORE, decision=STALE, document="other"), [DecisionChanged(STALE), DocumentChanged()]),
        (
            replace(BEFORE, decision=STALE, document="other", queue="other"),
            [QueueChanged(), DecisionChanged(STALE), DocumentChanged()],
        ),
        (replace(BEFORE, decision=None, document="other"), [DocumentChanged()]),
        (Standing(None, None, None, "queue", "It is broken."), [FaultAppeared("It is broken.")]),
        (Standing(None, None, None, "other", "It is broken."), [QueueChanged(), FaultAppeared("It is broken.")]),
    ],
)
def test_each_difference_in_its_order(now: Standing, said: list[Announcement]) -> None:
    assert announcements(BEFORE, now, mute_decisions=False) == said


def test_while_somebody_runs_the_settings_alone_are_announced_and_the_rest_stays_owed() -> None:
    during = Standing(None, "without preview", "settings", "queue", None)
    assert announcements(BEFORE, during, mute_decisions=True) == []
    said = announced(BEFORE, during, mute_decisions=True)
    changed = Standing(None, "other", "other settings", "queue", None)
    assert announcements(said, changed, mute_decisions=True) == [DocumentChanged()]
    said = announced(said, changed, mute_decisions=True)
    after = Standing(STALE, "after", "other settings", "queue", None)
    assert announcements(said, after, mute_decisions=False) == [DecisionChanged(STALE), DocumentChanged()]


def test_a_run_that_changes_nothing_leaves_nothing_to_say() -> None:
    during = Standing(None, "without preview", "settings", "queue", None)
    said = announced(BEFORE, during, mute_decisions=True)
    assert announcements(said, BEFORE, mute_decisions=False) == []


def test_a_fault_that_goes_leaves_what_was_said_before_it() -> None:
    broken = Standing(None, None, None, "queue", "It is broken.")
    said = announced(BEFORE, broken, mute_decisions=False)
    assert announcements(said, broken, mute_decisions=False) == []
    assert announcements(said, replace(broken, fault="Otherwise."), mute_decisions=False) == [FaultAppeared("Otherwise.")]


@pytest.mark.parametrize("mute", [False, True])
def test_a_fault_that_is_mended_is_over_for_whoever_heard_of_it_and_may_come_again(mute: bool) -> None:
    broken = Standing(None, None, None, "queue", "It is broken.")
    said = announced(BEFORE, broken, mute_decisions=mute)
    assert announcements(said, BEFORE, mute_decisions=mute) == [DocumentChanged()]
    said = announced(said, BEFORE, mute_decisions=mute)
    assert announcements(said, broken, mute_decisions=mute) == [FaultAppeared("It is broken.")]


standings = st.builds(
    Standing,
    st.sampled_from([None, VALID, STALE, decision(message="Another sentence.")]),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from([None, "It is broken.", "Otherwise."]),
)


@given(standings, standings, st.booleans())
def test_nothing_is_announced_twice(before: Standing, now: Standing, mute: bool) -> None:
    said = announced(before, now, mute_decisions=mute)
    assert announcements(said, now, mute_decisions=mute) == []


@given(standings, standings)
def test_a_decision_is_followed_by_the_document_that_has_it(before: Standing, now: Standing) -> None:
    kinds = [type(one) for one in announcements(before, now, mute_decisions=False)]
    assert kinds == sorted(kinds, key=[QueueChanged, FaultAppeared, DecisionChanged, DocumentChanged].index)
    assert len(set(kinds)) == len(kinds)


@given(standings)
def test_a_standing_survives_being_written_down(standing: Standing) -> None:
    assert standing_from_json(json.loads(json.dumps(standing_to_json(standing)))) == standing


@pytest.mark.parametrize(
    "data", [{}, {"decision": {"status": "unheard of"}, "document": None, "settings": None, "fault": None, "queue": ""}]
)
def test_what_another_version_wrote_is_no_standing(data: dict[str, object]) -> None:
    assert standing_from_json(data) is None


def test_the_first_document_that_cannot_be_used_is_the_fault() -> None:
    config = Unusable("config_incompatible", "The config is broken.", "Mend it.", "config.jsonc")
    queue = Unusable("queue_corrupted", "The queue is broken.", None, "queue.jsonc")
    assert fault_of(None, queue) == "The queue is broken."
    assert fault_of(config, queue) == "The config is broken. Mend it."
    assert fault_of("fine") is None
