"""Records without dataclasses behave like frozen dataclasses."""

from __future__ import annotations

import pickle

import pytest

from cueloop_protocol.frozen import Frozen


class Point(Frozen):
    x: int
    y: int = 7


class Named(Point):
    name: str = ""


def test_fields_by_place_by_name_and_by_default() -> None:
    assert Point(1, 2) == Point(y=2, x=1)
    assert Point(1).y == 7
    assert Named(1, name="a").y == 7
    assert repr(Named(1, 2, "a")) == "Named(x=1, y=2, name='a')"


def test_equal_by_value_and_type_only() -> None:
    assert Point(1, 2) != Point(1, 3)
    assert Point(1, 2) != Named(1, 2)
    assert Point(1, 2) != (1, 2)
    assert len({Point(1, 2), Point(1, 2), Named(1, 2)}) == 2


def test_nothing_can_be_set_or_deleted() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match="frozen"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del point.x
    assert point.x == 1


@pytest.mark.parametrize(
    "values", [((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})], ids=["none", "many", "twice", "unknown"]
)
def test_wrong_arguments_are_type_errors(values: tuple[tuple[int, ...], dict[str, int]]) -> None:
    with pytest.raises(TypeError):
        Point(*values[0], **values[1])


def test_survives_pickle() -> None:
    assert pickle.loads(pickle.dumps(Named(1, 2, "a"))) == Named(1, 2, "a")
