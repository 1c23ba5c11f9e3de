"""Every example is read by its model, comes out as it went in, and fits the published schema; none is missing."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module

import jsonschema
import pytest
from _pytest.mark import ParameterSet
from pydantic import ValidationError

from cueloop_protocol import codes, examples
from cueloop_protocol.base import JsonObject, Wire, dump
from cueloop_protocol.documents.envelope import EVENT, EventKind
from cueloop_protocol.documents.error import ErrorData
from cueloop_protocol.example_values import DOCUMENTS, EVENTS
from cueloop_protocol.methods import METHODS
from cueloop_protocol.notifications import NOTIFICATIONS
from cueloop_protocol.openrpc import openrpc_document

MODULES = ("resolve", "overview", "session", "decision", "blocking", "summary", "stop", "error", "doctor")
UNPUBLISHED = ("StopDocument", "DoctorDocument")
"""Documents of the command line alone: no method answers with them."""


def document_model(name: str) -> type[Wire]:
    """The model of a document by its name."""
    for module in MODULES:
        model = getattr(import_module(f"cueloop_protocol.documents.{module}"), name, None)
        if model is not None:
            return typing.cast("type[Wire]", model)
    raise LookupError(name)


def cases() -> Iterator[ParameterSet]:
    for name, call in examples.CALLS.items():
        yield pytest.param(METHODS[name].params, call.params, id=f"{name}-params")
        yield pytest.param(METHODS[name].result, call.result, id=f"{name}-result")
    for name, params in examples.NOTED.items():
        yield pytest.param(NOTIFICATIONS[name].params, params, id=name)
    for name, document in DOCUMENTS.items():
        yield pytest.param(document_model(name), document, id=name)


CASES = list(cases())


def pairs(value: object) -> object:
    """The same with every object as a list of its members, so that a comparison sees their order."""
    if isinstance(value, dict):
        return [(key, pairs(item)) for key, item in value.items()]
    return [pairs(item) for item in value] if isinstance(value, list) else value


def holds(written: object, example: object) -> bool:
    """Whether all of the example is in what was written; params gain their defaults."""
    if isinstance(example, dict):
        return isinstance(written, dict) and all(key in written and holds(written[key], value) for key, value in example.items())
    return written == example


@pytest.mark.parametrize(("model", "example"), CASES)
def test_an_example_is_read_and_written(model: type[Wire], example: JsonObject) -> None:
    written = dump(model.model_validate(example))
    if model in [spec.params for spec in METHODS.values()]:
        assert holds(written, example)
    else:
        assert written == example
    assert dump(model.model_validate(written)) == written


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_keeps_its_order_of_keys(name: str) -> None:
    assert pairs(dump(document_model(name).model_validate(DOCUMENTS[name]))) == pairs(DOCUMENTS[name])


@pytest.mark.parametrize("kind", EVENTS)
def test_an_event_keeps_its_order_of_keys(kind: str) -> None:
    assert pairs(dump(EVENT.validate_python(EVENTS[kind]))) == pairs(EVENTS[kind])


@pytest.mark.parametrize(("model", "example"), CASES)
def test_an_example_with_a_surplus_key_is_refused_unless_the_model_is_open(model: type[Wire], example: JsonObject) -> None:
    surplus = {**example, "surplus": 1}
    if model.model_config["extra"] == "forbid":
        with pytest.raises(ValidationError, match="surplus"):
            model.model_validate(surplus)
    else:
        assert model.model_validate(surplus)


def test_nothing_is_without_an_example() -> None:
    assert list(examples.CALLS) == list(METHODS)
    assert list(examples.NOTED) == list(NOTIFICATIONS)
    assert list(EVENTS) == list(typing.get_args(EventKind))
    assert [error.code for error in examples.ERRORS] == list(codes.NAMES)


@pytest.mark.parametrize("error", examples.ERRORS, ids=lambda error: error.name)
def test_error_data_is_read_and_written(error: codes.RpcError) -> None:
    assert dump(ErrorData.model_validate(error.data)) == error.data


@cache
def validator() -> Callable[[str, object], None]:
    document = openrpc_document("0")
    kinds = jsonschema.Draft202012Validator

    def check(name: str, value: object) -> None:
        kinds({"$ref": f"#/components/schemas/{name}", "components": document["components"]}).validate(value)

    return check


@pytest.mark.parametrize(("model", "example"), [case for case in CASES if case.id not in UNPUBLISHED])
def test_an_example_fits_the_published_schema(model: type[Wire], example: JsonObject) -> None:
    validator()(model.__name__, example)


@pytest.mark.parametrize("kind", EVENTS)
def test_an_event_fits_the_published_schema(kind: str) -> None:
    check = validator()
    check(type(EVENT.validate_python(EVENTS[kind])).__name__, EVENTS[kind])
    with pytest.raises(jsonschema.ValidationError):
        check("EventNotification", {**examples.NOTED["event"], "event": {**EVENTS[kind], "payload": None}})
