"""What all wire models have in common."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from cueloop_protocol.base import (
    MAX_PROBLEMS,
    Exactly,
    Items,
    Maybe,
    OpenWire,
    Wire,
    dump,
    path_text,
    problems,
    to_json_bytes,
)


class Inner(Wire):
    number: int
    note: Maybe[str] = None


class Outer(Wire):
    version: Exactly[Literal[1]] = 1
    ratio: float
    inner: Maybe[Inner] = None
    items: Items[Inner] = ()
    nullable: int | None
    from_: Maybe[str] = Field(default=None, alias="from")


class Open(OpenWire):
    number: int


def test_absent_is_absent_and_null_is_null() -> None:
    model = Outer(ratio=1, nullable=None, inner=Inner(number=1), items=(Inner(number=2, note="n"),))
    expected = {
        "version": 1,
        "ratio": 1.0,
        "inner": {"number": 1},
        "items": [{"number": 2, "note": "n"}],
        "nullable": None,
    }
    assert dump(model) == expected
    assert (
        to_json_bytes(model)
        == b'{"version":1,"ratio":1.0,"inner":{"number":1},"items":[{"number":2,"note":"n"}],"nullable":null}'
    )
    assert to_json_bytes(Inner(number=1), indent=2) == b'{\n  "number": 1\n}'


def test_null_on_the_way_in_means_absent() -> None:
    assert dump(Inner.model_validate({"number": 1, "note": None})) == {"number": 1}


def test_an_alias_is_what_the_wire_has() -> None:
    assert dump(Outer.model_validate({"ratio": 1, "nullable": 1, "from": "x"}))["from"] == "x"
    assert Outer(ratio=1, nullable=1, from_="x").from_ == "x"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"version": True}, "version"),
        ({"version": 1.0}, "version"),
        ({"version": "1"}, "version"),
        ({"version": 2}, "version"),
        ({"nullable": True}, "nullable"),
        ({"nullable": 2.0}, "nullable"),
        ({"nullable": "2"}, "nullable"),
        ({"ratio": "1"}, "ratio"),
        ({"ratio": float("nan")}, "ratio"),
        ({"ratio": float("inf")}, "ratio"),
        ({"items": {}}, "items"),
        ({"items": "xy"}, "items"),
        ({"items": [{"number": 1}, {"number": True}]}, "items[1].number"),
        ({"inner": {"number": 1, "x": 1}}, "inner.x"),
        ({"inner": []}, "inner"),
        ({"surplus": 1}, "surplus"),
    ],
)
def test_b12_nothing_is_converted_and_the_path_is_named(change: dict[str, object], path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate({"ratio": 1, "nullable": 1, **change})
    assert [problem["path"] for problem in problems(caught.value)] == [path]


def test_problems_speak_plainly_and_never_repeat_the_value() -> None:
    with pytest.raises(ValidationError) as caught:
        Inner.model_validate({"note": 5, "secret-key": "hunter2"})
    assert problems(caught.value) == [
        {"path": "number", "message": "This key is required"},
        {"path": "note", "message": "Input should be a valid string"},
        {"path": "secret-key", "message": "This key is not known here"},
    ]


@given(st.text())
def test_a_value_is_in_no_problem(value: str) -> None:
    secret = f"<{value}>"
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate({"ratio": secret, "nullable": secret, "version": secret, "items": secret, "inner": secret})
    assert all(secret not in problem["message"] for problem in problems(caught.value))


def test_the_list_of_problems_has_an_end() -> None:
    with pytest.raises(ValidationError) as caught:
        Inner.model_validate({"number": 1, **{f"key{number}": 1 for number in range(1000)}})
    assert len(problems(caught.value)) == MAX_PROBLEMS


def test_a_model_that_is_open_drops_what_it_does_not_know() -> None:
    assert dump(Open.model_validate({"number": 1, "later": 2})) == {"number": 1}
    with pytest.raises(ValidationError):
        Open.model_validate({"number": "1", "later": 2})


def test_models_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Inner(number=1).number = 2


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ((), ""),
        (("a",), "a"),
        (("a", "b"), "a.b"),
        (("a", 0, "b"), "a[0].b"),
        ((0, 1), "[0][1]"),
        ((0, "a"), "[0].a"),
        (("env", "A=", "[key]"), "env.A="),
    ],
)
def test_paths_in_words(location: tuple[int | str, ...], text: str) -> None:
    assert path_text(location) == text
