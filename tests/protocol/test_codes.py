"""Error codes: names, the words of error documents, and errors over the wire and back."""

from __future__ import annotations

import json
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_protocol import codes
from cueloop_protocol.codes import RpcError
from cueloop_protocol.documents.error import ErrorCode, ErrorData, ErrorDocument

DECISION = {
    "status": "refusing_to_resume",
    "scope": "run_session",
    "reason": "resume_confirmation_required",
    "task_id": "CL-0001",
    "message": "Resume: confirm first.",
    "detail": "Say which.",
}

ERRORS = [
    pytest.param(codes.parse_error("at byte 3"), -32700, "parse_error", "unknown", id="parse_error"),
    pytest.param(codes.invalid_request("id"), -32600, "invalid_request", "unknown", id="invalid_request"),
    pytest.param(codes.method_not_found("x"), -32601, "method_not_found", "unknown", id="method_not_found"),
    pytest.param(codes.invalid_params([{"path": "a.b", "message": "no"}]), -32602, "invalid_params", "parse_error", id="params"),
    pytest.param(codes.internal_error(), -32603, "internal_error", "unknown", id="internal_error"),
    pytest.param(codes.cancelled(), -32800, "cancelled", "unknown", id="cancelled"),
    pytest.param(
        codes.document_unusable("queue_corrupted", "bad"), -32001, "document_unusable", "queue_corrupted", id="document_unusable"
    ),
    pytest.param(
        codes.confirmation_required(DECISION, "e1", ["resume", "fresh"], {"task_id": "CL-0001"}),
        -32002,
        "confirmation_required",
        "unknown",
        id="confirmation_required",
    ),
    pytest.param(
        codes.confirmation_stale("e2", DECISION), -32003, "confirmation_stale", "task_mutation_conflict", id="confirmation_stale"
    ),
    pytest.param(codes.confirmation_stale(None), -32003, "confirmation_stale", "task_mutation_conflict", id="stale_no_file"),
    pytest.param(codes.run_active("r1"), -32004, "run_active", "resource_busy", id="run_active"),
    pytest.param(codes.no_such_run("r1"), -32005, "no_such_run", "unknown", id="no_such_run"),
    pytest.param(
        codes.version_mismatch("no", {"daemon": 1, "client": 2}, "upgrade"),
        -32006,
        "version_mismatch",
        "version_mismatch",
        id="version_mismatch",
    ),
    pytest.param(codes.shutting_down(), -32007, "shutting_down", "unknown", id="shutting_down"),
    pytest.param(codes.conflict("changed", session_etag="e3"), -32008, "conflict", "task_mutation_conflict", id="conflict"),
    pytest.param(codes.lock_held("run one", 12, "now"), -32009, "lock_held", "resource_busy", id="lock_held"),
    pytest.param(codes.lock_held(None, None, None), -32009, "lock_held", "resource_busy", id="lock_held_unknown"),
    pytest.param(codes.limit_exceeded("too many"), -32010, "limit_exceeded", "unknown", id="limit_exceeded"),
    pytest.param(codes.runner_unavailable("no claude"), -32011, "runner_unavailable", "cli_unavailable", id="runner_unavailable"),
    pytest.param(codes.not_writable("read-only"), -32012, "not_writable", "permission_denied", id="not_writable"),
    pytest.param(codes.not_writable("full", full=True), -32012, "not_writable", "unknown", id="not_writable_full"),
]


@pytest.mark.parametrize(("error", "code", "name", "word"), ERRORS)
def test_each_error_has_its_code_name_and_document(error: RpcError, code: int, name: str, word: str) -> None:
    assert (error.code, error.name, error.document["code"]) == (code, name, word)
    assert error.document["retryable"] is (word == "resource_busy")
    assert str(error) == error.message == error.document["message"]
    assert "detail" not in error.document or isinstance(error.document["detail"], str)


@pytest.mark.parametrize(("error", "code", "name", "word"), ERRORS)
def test_each_error_fits_the_wire_model(error: RpcError, code: int, name: str, word: str) -> None:
    ErrorData.model_validate(error.data)
    ErrorDocument.model_validate(error.document)


@pytest.mark.parametrize(("error", "code", "name", "word"), ERRORS)
def test_each_error_comes_back_as_it_went(error: RpcError, code: int, name: str, word: str) -> None:
    back = RpcError.from_wire(json.loads(json.dumps(error.to_wire())))
    assert back.to_wire() == error.to_wire()


def test_every_code_is_tried_above() -> None:
    assert {param.values[1] for param in ERRORS} == set(codes.NAMES)


def test_the_lists_of_words_agree() -> None:
    assert typing.get_args(ErrorCode) == codes.DOCUMENT_CODES


def test_names_of_our_codes_are_the_constants() -> None:
    assert all(getattr(codes, name.upper()) == code for code, name in codes.NAMES.items())


def test_d12_a_mismatch_names_both_sides_and_the_remedy() -> None:
    error = codes.version_mismatch("no common protocol", {"daemon": [1, 1], "client": [2, 3]}, "cueloop daemon restart")
    assert error.data["versions"] == {"daemon": [1, 1], "client": [2, 3]}
    assert error.document["detail"] == "cueloop daemon restart"


def test_f_lock_held_says_queue_lock_and_who() -> None:
    assert codes.lock_held("run loop", 7, "10:00").message == "The queue lock is held by run loop, pid 7, since 10:00."
    assert "queue lock" in codes.lock_held(None, None, None).message


def test_params_without_a_place_are_named_as_a_whole() -> None:
    assert codes.invalid_params([{"path": "", "message": "no"}]).document["detail"] == "params: no"
    assert codes.invalid_params([]).data["problems"] == []


def test_a_long_name_is_not_sent_back_whole() -> None:
    assert len(codes.method_not_found("m" * 10_000).document["detail"]) < 200
    assert len(codes.no_such_run("r" * 10_000).message) < 200


def test_only_words_of_the_closed_list() -> None:
    with pytest.raises(ValueError, match="is no error document code"):
        codes.error_document("oops", "message")


def test_what_the_number_alone_does_not_decide() -> None:
    assert codes.document_code(codes.DOCUMENT_UNUSABLE) == "unknown"
    assert codes.document_code(-1) == "unknown"
    assert RpcError(-1, "m").name == "unknown"


GOOD_DOCUMENT = {"version": 1, "code": "unknown", "message": "m", "retryable": False}


@pytest.mark.parametrize(
    ("sent", "code", "message", "name"),
    [
        (None, codes.INTERNAL_ERROR, "The daemon sent an error without a message.", "internal_error"),
        ([], codes.INTERNAL_ERROR, "The daemon sent an error without a message.", "internal_error"),
        ({"code": True, "message": "m"}, codes.INTERNAL_ERROR, "m", "internal_error"),
        ({"code": -5, "message": "m", "data": []}, -5, "m", "unknown"),
        ({"code": -5, "message": "m", "data": {"name": "later", "error": GOOD_DOCUMENT}}, -5, "m", "later"),
        ({"code": -5, "message": "m", "data": {"name": 1, "error": {**GOOD_DOCUMENT, "code": "no"}}}, -5, "m", "unknown"),
        ({"code": -5, "message": "m", "data": {"error": {**GOOD_DOCUMENT, "message": 1}}}, -5, "m", "unknown"),
        ({"code": -5, "message": "m", "data": {"error": {**GOOD_DOCUMENT, "later": 0}}}, -5, "m", "unknown"),
        ({"code": -5, "message": "m", "data": {"error": {**GOOD_DOCUMENT, "detail": None}}}, -5, "m", "unknown"),
        ({"code": -5, "message": "m", "data": {"error": {**GOOD_DOCUMENT, "code": []}}}, -5, "m", "unknown"),
    ],
)
def test_an_odd_error_from_a_peer_still_makes_a_document(sent: object, code: int, message: str, name: str) -> None:
    error = RpcError.from_wire(sent)
    assert (error.code, error.message, error.name) == (code, message, name)
    ErrorDocument.model_validate(error.document)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)
MEMBERS = st.fixed_dictionaries(
    {}, optional={"code": JSON, "message": JSON, "data": JSON | st.fixed_dictionaries({"error": JSON})}
)


@given(JSON | MEMBERS)
def test_no_answer_of_a_peer_breaks_the_reader(sent: object) -> None:
    ErrorDocument.model_validate(RpcError.from_wire(sent).document)
