"""Results and notifications that contradict themselves are refused where they are made."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from cueloop_protocol import examples
from cueloop_protocol.base import JsonObject, Wire, dump
from cueloop_protocol.documents.session import Session
from cueloop_protocol.example_values import ACTIVE_RUN, DOCUMENT, ERROR, RECORD, RESUMING, SESSION, SNAPSHOT
from cueloop_protocol.methods import METHODS
from cueloop_protocol.notifications import NOTIFICATIONS
from cueloop_protocol.results import SessionGetResult, Snapshot
from cueloop_protocol.run_results import RunRecord

HEAD = {"revision": 1, "observed_at": "t", "path": "/r/.cueloop/cache/session.jsonc", "settling": False}
WHOLE = {
    "missing": {},
    "loaded": {"session": SESSION, "etag": "e"},
    "corrupt": {"etag": "e", "detail": "d"},
    "too_large": {"etag": "e", "detail": "d"},
    "too_new": {"etag": "e", "detail": "d"},
    "unreadable": {"detail": "d"},
}
EXTRAS: dict[str, object] = {"session": SESSION, "etag": "e", "detail": "d", "age_seconds": 3}


@pytest.mark.parametrize("state", WHOLE)
def test_a_session_file_has_what_its_state_has(state: str) -> None:
    value = {**HEAD, "state": state, **WHOLE[state]}
    assert dump(SessionGetResult.model_validate(value)) == value


@pytest.mark.parametrize("state", WHOLE)
@pytest.mark.parametrize("key", EXTRAS)
def test_a_session_file_has_nothing_else(state: str, key: str) -> None:
    value = {**HEAD, "state": state, **WHOLE[state]}
    changed = {k: v for k, v in value.items() if k != key} if key in value else {**value, key: EXTRAS[key]}
    if (state, key) == ("loaded", "age_seconds"):
        assert SessionGetResult.model_validate(changed).age_seconds == 3
    else:
        with pytest.raises(ValidationError, match="do not fit the state"):
            SessionGetResult.model_validate(changed)


def test_there_is_a_decision_or_what_prevents_it() -> None:
    value = {**HEAD, "state": "missing"}
    for beside in ({"decision": RESUMING}, {"error": ERROR}, {"queue_lock": {"live": True}}, {"active_run": ACTIVE_RUN}):
        assert dump(SessionGetResult.model_validate({**value, **beside})) == {**value, **beside}
    with pytest.raises(ValidationError, match="not both"):
        SessionGetResult.model_validate({**value, "decision": RESUMING, "error": ERROR})


def test_a_session_is_printed_without_nulls() -> None:
    result = SessionGetResult.model_validate({**HEAD, "state": "loaded", "etag": "e", "session": Session.model_validate(SESSION)})
    assert dump(result)["session"] == SESSION


@pytest.mark.parametrize("key", ["finished_at", "summary"])
def test_a_finished_run_has_its_end(key: str) -> None:
    with pytest.raises(ValidationError, match="exactly when the state is finished"):
        RunRecord.model_validate({k: v for k, v in RECORD.items() if k != key})


def test_a_run_that_goes_on_has_no_end() -> None:
    running = {k: v for k, v in RECORD.items() if k not in ("finished_at", "summary")} | {"state": "running"}
    assert RunRecord.model_validate(running).summary is None
    with pytest.raises(ValidationError, match="exactly when the state is finished"):
        RunRecord.model_validate({**RECORD, "state": "running"})


def test_a_snapshot_has_a_document_or_says_why_not() -> None:
    bare = {key: value for key, value in SNAPSHOT.items() if key != "document"}
    assert Snapshot.model_validate({**bare, "error": ERROR}).document is None
    for wrong in (bare, {**bare, "error": ERROR, "document": DOCUMENT}):
        with pytest.raises(ValidationError, match="has a document or the error"):
            Snapshot.model_validate(wrong)


RESULTS = [(METHODS[name].result, call.result) for name, call in examples.CALLS.items()]
NOTES = [(NOTIFICATIONS[name].params, value) for name, value in examples.NOTED.items()]


@pytest.mark.parametrize(("model", "value"), [case for case in RESULTS + NOTES if "revision" in case[1]])
def test_a_revision_is_a_counter(model: type[Wire], value: JsonObject) -> None:
    for wrong in (-1, True, 1.0, "1", None):
        with pytest.raises(ValidationError, match="revision"):
            model.model_validate({**value, "revision": wrong})


WITHOUT_REVISION = {
    "ping": "says nothing of the repository",
    "client.state": "says nothing of the repository",
    "events.subscribe": "has it in the snapshot",
    "events.unsubscribe": "says nothing of the repository",
    "daemon.shutdown": "says nothing of the repository",
    "daemon.dump": "tells of the process",
    "daemon.handover": "says nothing of the repository",
    "rpc.discover": "says nothing of the repository",
    "gap": "has it in the snapshot",
    "daemon.closing": "says nothing of the repository",
    "$/cancelRequest": "is the client's",
}


def test_a_revision_is_in_all_that_tells_of_the_repository() -> None:
    models = {name: spec.result for name, spec in METHODS.items()} | {name: spec.params for name, spec in NOTIFICATIONS.items()}
    assert {name for name, model in models.items() if "revision" not in model.model_fields} == set(WITHOUT_REVISION)
