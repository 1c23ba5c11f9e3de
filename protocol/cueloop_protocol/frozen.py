"""Frozen records without `dataclasses`, whose import takes half as long as the whole warm command may. Standard library only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**_: object):
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Frozen:
    """Base of immutable records: the annotated fields in order, compared and hashed by value, type checked like a dataclass.

    A field's default is the class attribute of its name. Assigning to a field raises AttributeError, a missing or surplus
    argument TypeError.
    """

    def __init__(self, *values: object, **named: object) -> None:
        fields = _fields(type(self))
        if len(values) > len(fields):
            raise TypeError(f"{type(self).__name__} takes {len(fields)} values, not {len(values)}")
        given = dict(zip(fields, values, strict=False))
        for name, value in named.items():
            if name in given or name not in fields:
                raise TypeError(f"{type(self).__name__}: unexpected or repeated {name!r}")
            given[name] = value
        for name in fields:
            if name not in given:
                if not hasattr(type(self), name):
                    raise TypeError(f"{type(self).__name__} needs {name!r}")
                given[name] = getattr(type(self), name)
        self.__dict__.update((name, given[name]) for name in fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


def _fields(cls: type) -> tuple[str, ...]:
    return tuple(name for base in reversed(cls.__mro__) for name in getattr(base, "__annotations__", ()))
