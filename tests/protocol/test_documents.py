"""Run events, summary, stop and error document: the closed words, the per-kind rules, the limit of an event."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cueloop_protocol.base import JsonObject, dump
from cueloop_protocol.documents.envelope import (
    EVENT,
    MAX_EVENT_CHARACTERS,
    EventTooLong,
    RunnerOutput,
    TextPayload,
    event_bytes,
)
from cueloop_protocol.documents.error import ErrorDocument
from cueloop_protocol.documents.stop import StopDocument
from cueloop_protocol.documents.summary import Summary
from cueloop_protocol.example_values import ERROR, EVENTS, IDLE, RESUMING, STALLED, STOP

OPTIONAL_EVERYWHERE = {"run_mode"}
OPTIONAL = {
    "run_started": {"task_id"},
    "resume_decision": set(),
    "task_selected": set(),
    "phase_entered": {"task_id"},
    "phase_completed": {"task_id"},
    "runner_output": {"task_id", "phase"},
    "blocked_state_changed": {"task_id", "exit_code"},
    "blocked_state_cleared": {"task_id"},
    "queue_snapshot": set(),
    "config_resolved": set(),
    "warning": {"task_id", "phase", "exit_code"},
}
VALUES: dict[str, object] = {
    "run_mode": "one",
    "task_id": "CL-0001",
    "phase": "plan",
    "exit_code": 3,
    "message": "m",
    "stream": "combined",
    "payload": {"text": "t"},
}


@pytest.mark.parametrize("kind", EVENTS)
def test_each_key_of_a_kind_is_needed_optional_or_refused(kind: str) -> None:
    event = EVENTS[kind]
    for key in VALUES:
        if key in OPTIONAL[kind] | OPTIONAL_EVERYWHERE:
            without = {k: v for k, v in event.items() if k != key}
            assert key not in dump(EVENT.validate_python(without))
            assert dump(EVENT.validate_python({**without, key: VALUES[key]}))[key] == VALUES[key]
        elif key in event:
            if key != "stream":  # a constant, filled in
                with pytest.raises(ValidationError):
                    EVENT.validate_python({k: v for k, v in event.items() if k != key})
        else:
            with pytest.raises(ValidationError):
                EVENT.validate_python({**event, key: VALUES[key]})


@pytest.mark.parametrize("kind", [kind for kind, event in EVENTS.items() if "payload" in event])
def test_a_payload_has_no_null_and_nothing_more(kind: str) -> None:
    payload = EVENTS[kind]["payload"]
    assert isinstance(payload, dict)
    with pytest.raises(ValidationError):
        EVENT.validate_python({**EVENTS[kind], "payload": {**payload, "surplus": 1}})
    for key in ("config", "text", "paths"):
        if key in payload:
            with pytest.raises(ValidationError):
                EVENT.validate_python({**EVENTS[kind], "payload": {key: None}})


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "run_finished"},
        {"kind": "other"},
        {"kind": None},
        {"version": 2},
        {"version": True},
        {"version": 3.0},
        {"run_mode": "resume"},
        {"timestamp": None},
        {"phase": "planning"},
    ],
)
def test_words_outside_the_lists_are_refused(change: JsonObject) -> None:
    with pytest.raises(ValidationError):
        EVENT.validate_python({**EVENTS["phase_entered"], **change})


@pytest.mark.parametrize("change", [{"task_id": "CL-0002"}, {"task_id": None}, {"message": "other"}])
def test_a_resume_decision_repeats_its_payload(change: JsonObject) -> None:
    with pytest.raises(ValidationError, match="repeat the payload"):
        EVENT.validate_python({**EVENTS["resume_decision"], **change})


def test_a_resume_decision_without_a_task_repeats_that() -> None:
    payload = {key: value for key, value in RESUMING.items() if key != "task_id"}
    event = {key: value for key, value in EVENTS["resume_decision"].items() if key != "task_id"} | {"payload": payload}
    assert "task_id" not in dump(EVENT.validate_python(event))


def output(text: str) -> RunnerOutput:
    return RunnerOutput(timestamp="2026-04-26T06:00:00Z", payload=TextPayload(text=text))


OVERHEAD = len(event_bytes(output("")))


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600"], ids=["one-byte", "two-bytes", "four-bytes"])
def test_an_event_stays_under_a_million_characters_whatever_their_size(letter: str) -> None:
    room = MAX_EVENT_CHARACTERS - OVERHEAD - 1
    assert len(event_bytes(output(letter * room)).decode()) == MAX_EVENT_CHARACTERS - 1
    with pytest.raises(EventTooLong, match="runner_output event"):
        event_bytes(output(letter * (room + 1)))


@given(st.text())
def test_an_event_is_one_line(text: str) -> None:
    line = event_bytes(output(text))
    assert b"\n" not in line
    assert json.loads(line)["payload"]["text"] == text


def test_e07_escapes_count_as_they_are_written() -> None:
    with pytest.raises(EventTooLong):
        event_bytes(output("\0" * (MAX_EVENT_CHARACTERS // 6)))


@pytest.mark.parametrize(
    ("outcome", "task_id", "fits"),
    [
        ("ran", "CL-1", True),
        ("ran", None, False),
        ("completed", "CL-1", False),
        ("completed", None, True),
        ("failed", "CL-1", False),
    ],
)
def test_a_summary_names_a_task_exactly_when_it_ran(outcome: str, task_id: str | None, fits: bool) -> None:
    value = {"version": 2, "task_id": task_id, "exit_code": 0, "outcome": outcome}
    if fits:
        assert dump(Summary.model_validate(value)) == value
    else:
        with pytest.raises(ValidationError, match="exactly when the outcome is ran"):
            Summary.model_validate(value)


@pytest.mark.parametrize(
    "change",
    [
        {"exit_code": -1},
        {"exit_code": 256},
        {"exit_code": True},
        {"outcome": "ok"},
        {"version": 1},
        {"blocking": {}},
        {"extra": 1},
    ],
)
def test_a_summary_is_strict(change: JsonObject) -> None:
    with pytest.raises(ValidationError):
        Summary.model_validate({"version": 2, "task_id": None, "exit_code": 0, "outcome": "failed", **change})


def test_a_summary_always_prints_its_task() -> None:
    assert dump(Summary(task_id=None, exit_code=1, outcome="failed")) == {
        "version": 2,
        "task_id": None,
        "exit_code": 1,
        "outcome": "failed",
    }
    with pytest.raises(ValidationError, match="task_id"):
        Summary.model_validate({"exit_code": 1, "outcome": "failed"})


POSSIBLE = {
    ("would_create", True, False, False),
    ("created", False, False, True),
    ("already_present", True, True, True),
    ("already_present", False, True, True),
}


@pytest.mark.parametrize("action", ["would_create", "created", "already_present"])
def test_a_stop_document_cannot_contradict_itself(action: str) -> None:
    for dry_run, before, after in itertools.product([True, False], repeat=3):
        marker = {"path": "/m", "existed_before": before, "exists_after": after}
        value = {**STOP, "action": action, "dry_run": dry_run, "marker": marker}
        if (action, dry_run, before, after) in POSSIBLE:
            assert dump(StopDocument.model_validate(value)) == value
        else:
            with pytest.raises(ValidationError, match="contradicts"):
                StopDocument.model_validate(value)


@pytest.mark.parametrize("blocking", [IDLE, STALLED])
def test_a_stop_document_may_say_what_blocks(blocking: JsonObject) -> None:
    value = {**STOP, "blocking": blocking}
    assert dump(StopDocument.model_validate(value))["blocking"] == blocking


@pytest.mark.parametrize("change", [{"code": "other"}, {"retryable": 0}, {"version": True}, {"message": None}, {"extra": 1}])
def test_an_error_document_is_strict(change: JsonObject) -> None:
    with pytest.raises(ValidationError):
        ErrorDocument.model_validate({**ERROR, **change})
