"""The OpenRPC document: built from the method table, whole, and without a reference into nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from pydantic import ConfigDict, Field

from cueloop_protocol import codes, examples
from cueloop_protocol.base import Items, JsonObject, Maybe, Wire
from cueloop_protocol.methods import ALWAYS, METHODS
from cueloop_protocol.notifications import NOTIFICATIONS
from cueloop_protocol.openrpc import openrpc_document
from cueloop_protocol.results import DiscoverResult
from cueloop_protocol.schema import REF, schemas


@pytest.fixture(scope="module")
def document() -> JsonObject:
    return openrpc_document("1.2.3")


class Named(Wire):
    """A content descriptor of OpenRPC."""

    name: str
    required: Maybe[bool] = None
    schema_: JsonObject = Field(alias="schema")


class Fault(Wire):
    code: int
    message: str


class Method(Wire):
    """The part of an OpenRPC method that is used here."""

    name: str
    summary: str
    param_structure: Literal["by-name"] = Field(alias="paramStructure")
    params: Items[Named]
    result: Named
    errors: Items[Fault]
    x_planned: Maybe[Literal[True]] = Field(default=None, alias="x-planned")


class Info(Wire):
    title: str
    version: Literal["1.2.3"]
    description: str


class OpenRpc(Wire):
    """The shape that the OpenRPC specification, 1.3, asks for."""

    model_config = ConfigDict(extra="allow")

    openrpc: Annotated[str, Field(pattern=r"^1\.3\.\d+$")]
    info: Info
    methods: Items[Method]
    components: JsonObject


def test_it_has_the_shape_of_an_openrpc_document(document: JsonObject) -> None:
    read = OpenRpc.model_validate(json.loads(json.dumps(document)))
    assert [method.name for method in read.methods] == list(METHODS)
    assert [method.name for method in read.methods if method.x_planned] == [n for n, s in METHODS.items() if s.is_planned]
    for method in read.methods:
        assert [fault.code for fault in method.errors] == [*METHODS[method.name].errors, *ALWAYS]
        assert all(fault.message == codes.NAMES[fault.code] for fault in method.errors)
    assert DiscoverResult.model_validate(document)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (item for key, item in value.items() if key == "$ref")
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_every_reference_leads_somewhere_and_every_schema_is_one(document: Any) -> None:
    shapes = document["components"]["schemas"]
    assert {ref.removeprefix(REF) for ref in references(document)} <= set(shapes)
    for shape in shapes.values():
        jsonschema.Draft202012Validator.check_schema(shape)
        assert shape["description"]


def test_params_are_told_apart_by_whether_they_are_required(document: Any) -> None:
    (start,) = [method for method in document["methods"] if method["name"] == "session.clear"]
    assert [(param["name"], param["required"]) for param in start["params"]] == [("etag", True)]
    (resolve,) = [method for method in document["methods"] if method["name"] == "config.resolve"]
    assert [(param["name"], param["required"]) for param in resolve["params"]] == [
        ("task_id", False),
        ("resume", False),
        ("exact", False),
        ("caller", False),
    ]


def test_notifications_are_listed_beside_the_methods(document: Any) -> None:
    assert [note["name"] for note in document["x-notifications"]] == list(NOTIFICATIONS)
    assert [note["name"] for note in document["x-notifications"] if note["x-sender"] == "client"] == ["$/cancelRequest"]


@pytest.mark.parametrize("name", METHODS)
def test_each_param_of_an_example_fits_its_own_schema(name: str, document: Any) -> None:
    (method,) = [method for method in document["methods"] if method["name"] == name]
    given = examples.CALLS[name].params
    for param in method["params"]:
        assert param["name"] in given or not param["required"]
        if param["name"] in given:
            schema = {"allOf": [param["schema"]], "components": document["components"]}
            jsonschema.Draft202012Validator(schema).validate(given[param["name"]])


class Leaf(Wire):
    """A leaf."""

    kind: Literal["leaf"] = "leaf"
    either: Maybe[int | str] = None
    null_or: int | None
    free: Maybe[JsonObject] = None
    anything: Any = None


def test_what_may_be_left_out_is_not_called_nullable() -> None:
    names, shapes = schemas([Leaf, Leaf])
    shape = shapes[names[Leaf]]
    assert shape["properties"]["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert shape["properties"]["null_or"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert shape["properties"]["free"] == {"type": "object", "additionalProperties": {}}
    assert shape["properties"]["anything"] == {}
    assert shape["properties"]["kind"] == {"const": "leaf", "type": "string"}
    assert shape["required"] == ["kind", "null_or"]
