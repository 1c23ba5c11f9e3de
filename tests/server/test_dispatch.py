"""Looking up a method and reading its parameters."""

from __future__ import annotations

import logging

import pytest
from pydantic import model_validator

from cueloop_daemon.server.dispatch import MOST_KNOWN, Bound, Dispatcher, told
from cueloop_daemon.server.envelope import Message, message
from cueloop_daemon.server.requests import Entry, Reply
from cueloop_protocol import codes
from cueloop_protocol.base import Wire
from cueloop_protocol.codes import RpcError
from server.world import TABLE

DISPATCHER = Dispatcher(TABLE)


def asked(method: str, params: object = None, **more: object) -> Message:
    value = {"jsonrpc": "2.0", "id": 1, "method": method, **({} if params is None else {"params": params}), **more}
    found = message(value)
    assert isinstance(found, Message)
    return found


@pytest.mark.parametrize("params", [{"text": "a"}, [{"text": "a"}], {"text": "a", "times": 1}])
def test_parameters_are_read_by_the_model(params: object) -> None:
    bound = DISPATCHER.bind(asked("echo", params))
    assert isinstance(bound, Bound)
    assert bound.method == "echo"
    assert bound.entry is TABLE["echo"]
    assert bound.params == TABLE["echo"].params.model_validate(params[0] if isinstance(params, list) else params)


@pytest.mark.parametrize("params", [None, {}, []])
def test_no_parameters_may_be_left_out(params: object) -> None:
    assert isinstance(DISPATCHER.bind(asked("ping", params)), Bound)


@pytest.mark.parametrize(
    ("method", "params", "paths"),
    [
        ("echo", {}, ["text"]),
        ("echo", {"text": 1}, ["text"]),
        ("echo", {"text": "a", "times": True}, ["times"]),
        ("echo", {"text": "a", "times": 2.0}, ["times"]),
        ("echo", {"text": 1, "times": "2", "more": 1}, ["text", "times", "more"]),
        ("echo", {"text": "a", "slot": 1, "self": 2}, ["slot", "self"]),
        ("ping", {"x": 1}, ["x"]),
        ("echo", ["a"], [""]),
        ("echo", [{"text": "a"}, 1], [""]),
        ("ping", [[]], [""]),
    ],
)
def test_parameters_that_do_not_fit_are_named(method: str, params: object, paths: list[str]) -> None:
    error = DISPATCHER.bind(asked(method, params))
    assert isinstance(error, RpcError)
    assert error.code == codes.INVALID_PARAMS
    assert [problem["path"] for problem in error.data["problems"]] == paths
    assert all(problem["message"] for problem in error.data["problems"])


def test_a_parameter_of_any_name_is_no_trouble_for_the_library() -> None:
    for name in ("slot", "context", "self", "request", "", "a b", "__class__"):
        error = DISPATCHER.bind(asked("ping", {name: 1}))
        assert isinstance(error, RpcError)
        assert [problem["path"] for problem in error.data["problems"]] == [name]


@pytest.mark.parametrize("method", ["nope", "", "__init__", "rpc.discover.x", "$/unknown"])
def test_an_unknown_method_is_named(method: str) -> None:
    error = DISPATCHER.bind(asked(method))
    assert isinstance(error, RpcError)
    assert error.code == codes.METHOD_NOT_FOUND


def test_a_model_that_breaks_is_an_error_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Wire):
        @model_validator(mode="before")
        @classmethod
        def breaks(cls, value: object) -> object:
            raise RuntimeError("secret")

    error = Dispatcher({"odd": Entry(Odd, lambda call, params: Reply(b"{}"))}).bind(asked("odd", {"x": 1}))
    assert isinstance(error, RpcError)
    assert error.code == codes.INTERNAL_ERROR
    assert "secret" not in str(error.to_wire())
    assert "dispatch_failed" in caplog.text


def test_a_notification_is_bound_like_a_request() -> None:
    found = message({"jsonrpc": "2.0", "method": "echo", "params": {"text": "a"}})
    assert isinstance(found, Message)
    bound = DISPATCHER.bind(found)
    assert isinstance(bound, Bound)
    assert not bound.wants_answer


def test_which_calls_are_durable() -> None:
    assert DISPATCHER.is_durable("durable")
    assert not DISPATCHER.is_durable("ping")
    assert not DISPATCHER.is_durable("nope")


def test_an_error_that_is_meant_is_told_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    meant = codes.conflict("x")
    assert told(meant, "m") is meant
    assert told(ExceptionGroup("", [ExceptionGroup("", [meant])]), "m") is meant
    assert not caplog.records


@pytest.mark.parametrize(
    "error", [ValueError("secret"), RecursionError(), ExceptionGroup("", [codes.conflict("a"), OSError("b")])]
)
def test_any_other_error_is_logged_and_told_without_its_text(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    answer = told(error, "m")
    assert answer.code == codes.INTERNAL_ERROR
    assert "secret" not in str(answer.to_wire())
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def short(method: str, params: object) -> Message:
    found = message({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, is_short=True)
    assert isinstance(found, Message)
    return found


def test_the_same_parameters_are_read_once() -> None:
    dispatcher = Dispatcher(TABLE)
    first, again = (dispatcher.bind(short("echo", {"text": "a"})) for _ in range(2))
    assert isinstance(first, Bound)
    assert isinstance(again, Bound)
    assert again.params is first.params
    other = dispatcher.bind(short("echo", {"text": "b"}))
    assert isinstance(other, Bound)
    assert other.params == TABLE["echo"].params(text="b")


@pytest.mark.parametrize("times", [True, 1.0, "1", [1]])
def test_what_only_looks_the_same_is_still_refused(times: object) -> None:
    dispatcher = Dispatcher(TABLE)
    assert isinstance(dispatcher.bind(short("echo", {"text": "a", "times": 1})), Bound)
    assert isinstance(dispatcher.bind(short("echo", {"text": "a", "times": times})), RpcError)


def test_the_same_parameters_of_another_method_are_its_own() -> None:
    class Other(Wire):
        text: str

    entry = TABLE["echo"]
    dispatcher = Dispatcher({"echo": entry, "other": Entry(Other, lambda call, params: Reply({}))})
    assert isinstance(dispatcher.bind(short("echo", {"text": "a"})), Bound)
    bound = dispatcher.bind(short("other", {"text": "a"}))
    assert isinstance(bound, Bound)
    assert type(bound.params) is Other


def test_parameters_of_durable_calls_and_of_long_requests_are_not_kept() -> None:
    dispatcher = Dispatcher({"start": Entry(TABLE["echo"].params, lambda call, params: Reply({}), durable=True), **TABLE})
    for asks in (short("start", {"text": "secret"}), asked("echo", {"text": "a"})):
        assert isinstance(dispatcher.bind(asks), Bound)
    assert not dispatcher._known


def test_no_more_parameters_are_kept_than_the_bound() -> None:
    dispatcher = Dispatcher(TABLE)
    for number in range(MOST_KNOWN + 3):
        assert isinstance(dispatcher.bind(short("echo", {"text": str(number)})), Bound)
    assert 0 < len(dispatcher._known) <= MOST_KNOWN
