"""Our `dataclass` beside the library's: the same in all that anybody can see of them."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from pydantic import TypeAdapter

from cueloop_protocol import values

T = TypeVar("T")
Maker = Callable[..., Any]


def made(dataclass: Any) -> Any:
    """The same classes, by one decorator."""

    @dataclass(frozen=True, slots=True)
    class Point:
        """A place."""

        kind: ClassVar[str] = "point"
        x: int
        y: float = 1.5
        tags: list[str] = field(default_factory=list)
        secret: str = field(default="s", repr=False)
        note: str = field(default="n", compare=False)

        @property
        def sum(self) -> float:
            return self.x + self.y

    @dataclass(frozen=True, slots=True)
    class Nothing:
        pass

    @dataclass(frozen=True, slots=True)
    class One(Generic[T]):
        value: T

        def __repr__(self) -> str:
            return "own"

        def __post_init__(self) -> None:
            if self.value is None:
                raise ValueError("no value")

    return Point, Nothing, One


OURS, THEIRS = made(values.dataclass), made(dataclasses.dataclass)


@values.dataclass(frozen=True, slots=True)
class Kept:
    """At the top of a module, as pickle wants it."""

    a: int
    b: tuple[str, ...] = ()


@pytest.mark.parametrize("which", range(3))
def test_the_same_is_said_of_the_class(which: int) -> None:
    ours, theirs = OURS[which], THEIRS[which]
    assert is_dataclass(ours)
    assert [(one.name, one.type, one.default, one.repr, one.compare) for one in fields(ours)] == [
        (one.name, one.type, one.default, one.repr, one.compare) for one in fields(theirs)
    ]
    assert ours.__match_args__ == theirs.__match_args__
    assert ours.__slots__ == theirs.__slots__
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    assert (ours.__dataclass_params__.frozen, ours.__dataclass_params__.eq) == (True, True)
    assert ours.__module__ == __name__


def test_values_are_compared_hashed_shown_and_replaced_alike() -> None:
    for point, nothing, one in (OURS, THEIRS):
        first, second = point(1), point(x=1, note="other")
        assert (first == second, first == point(2), first == (1, 1.5, [], "s"), first != point(1, 2.0)) == (
            True,
            False,
            False,
            True,
        )
        assert repr(first).endswith("Point(x=1, y=1.5, tags=[], note='n')")
        assert first.tags is not second.tags
        assert replace(first, y=3.0).sum == 4.0
        assert dataclasses.asdict(first)["tags"] == []
        assert hash(one("a")) == hash(one("a"))
        assert (nothing() == nothing(), repr(nothing()).endswith("Nothing()")) == (True, True)
        assert repr(one(1)) == "own"
        match first:
            case point(x, y):
                assert (x, y) == (1, 1.5)
        with pytest.raises(TypeError):
            hash(first)  # it holds a list
        with pytest.raises(ValueError, match="no value"):
            one(None)


@pytest.mark.parametrize("made_by", [OURS, THEIRS])
def test_nothing_is_set_or_deleted(made_by: Any) -> None:
    point = made_by[0](1)
    for wrong in (lambda: setattr(point, "x", 2), lambda: setattr(point, "z", 2), lambda: delattr(point, "x")):
        with pytest.raises((FrozenInstanceError, TypeError)):
            wrong()
    assert point.x == 1


@pytest.mark.parametrize("wrong", [(), (1, 2, [], "", "", 6)])
def test_a_wrong_number_of_values_is_refused(wrong: tuple[object, ...]) -> None:
    for point, _, _ in (OURS, THEIRS):
        with pytest.raises(TypeError, match="__init__"):
            point(*wrong)


def test_copies_and_pickles() -> None:
    kept = Kept(1, ("x",))
    for other in (copy.copy(kept), copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        assert other == kept
        assert hash(other) == hash(kept)


def test_pydantic_takes_it_for_a_dataclass() -> None:
    codec = TypeAdapter(Kept)
    assert codec.validate_json(codec.dump_json(Kept(1, ("x",)))) == Kept(1, ("x",))


def test_what_is_unusual_is_made_by_the_library() -> None:
    @values.dataclass(frozen=True, slots=True)
    class Heir(Kept):
        c: int = 0

    @values.dataclass(frozen=True, slots=True)
    class Late:
        a: int
        b: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "b", self.a + 1)

    @values.dataclass(slots=True)
    class Open:
        a: int

    assert (Heir(1, c=3).c, Heir(1) == Heir(1), Late(1).b) == (3, True, 2)
    thing = Open(1)
    thing.a = 2
    assert thing == Open(2)
