"""What every wire shape has in common: strictness on the way in, and "absent is absent" on the way out.

A field that may be left out is written `name: Maybe[str] = None`; it is omitted from every dump while it is None. A field that is
always printed and may be `null` is written `name: str | None`, without a default. So the model alone says which is which, and no
caller has to choose a dump option.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError, PydanticUseDefault, to_json

T = TypeVar("T")


class Wire(BaseModel):
    """Base of all wire shapes: frozen, no unknown keys, no conversions (`true` is not 1, `2.0` is not 2, `"1"` is not 1).

    Built when first used, so that importing a module of models costs little.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        defer_build=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        allow_inf_nan=False,
    )


class OpenWire(Wire):
    """Like `Wire`, but keys it does not know are dropped: what a client reads from a daemon that may be newer."""

    model_config = ConfigDict(extra="ignore")


MAX_PROBLEMS = 20

_PLAIN = {"extra_forbidden": "This key is not known here", "missing": "This key is required"}
"""Sentences for people in place of pydantic's, which speak of inputs and fields."""

PATTERNS = {
    r"\S": "A text that is not blank is needed",
    r"^/[^\x00]*$": "An absolute path is needed: it begins with / and has no zero byte",
    r"^[0-9A-Za-z_-]{1,64}:(0|[1-9][0-9]{0,18})$": "A cursor is needed, as an answer or a notification gave it: epoch:seq",
    r"^[^=\x00]+$": "The name of a variable is needed: not empty, without = and zero bytes",
    r"^[^\x00]*$": "A text without zero bytes is needed",
}
"""What a text must be like, in words, for each pattern that a param may have: nobody is shown a regular expression."""


def _is_absent(value: object) -> bool:
    return value is None


def _default_for_null(value: object) -> object:
    if value is None:
        raise PydanticUseDefault
    return value


def _exact_integer(value: object) -> object:
    if type(value) is not int:
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


Maybe = Annotated[T | None, Field(exclude_if=_is_absent)]
"""May be left out; use it with the default None. `null` on the way in means the same as leaving it out."""

Defaulted = Annotated[T, BeforeValidator(_default_for_null)]
"""A param with a default: `null` on the way in means the same as leaving it out."""

Items = Annotated[tuple[T, ...], Field(strict=False)]
"""A JSON array, kept as a tuple. The items are as strict as the model."""

Exactly = Annotated[T, BeforeValidator(_exact_integer)]
"""`Exactly[Literal[1]]`: a document version. A bare literal would let `true` and `1.0` pass, because they equal 1."""

JsonObject = dict[str, JsonValue]
"""A JSON object that is passed through: nothing here looks inside."""


def dump(model: BaseModel) -> dict[str, Any]:
    """The model as plain JSON values, in field order, absent fields left out."""
    return model.model_dump(mode="json")


def to_json_bytes(model: BaseModel, *, indent: int | None = None) -> bytes:
    """The model as UTF-8 JSON, in field order, absent fields left out; compact unless `indent` is given."""
    return to_json(model, indent=indent)


def problems(error: ValidationError) -> list[dict[str, str]]:
    """What is wrong with a document: `[{"path": "answer.choice", "message": "…"}]`, in the order of the model's fields.

    A path is dotted, with list positions in brackets, and empty for the whole document. The messages never repeat the value,
    which may be a secret. Not more than `MAX_PROBLEMS` are listed: a document of nothing else must not make an endless answer.
    """
    found = error.errors(include_url=False, include_input=False)[:MAX_PROBLEMS]
    return [{"path": path_text(item["loc"]), "message": _in_words(item)} for item in found]


def _in_words(item: ErrorDetails) -> str:
    if item["type"] == "string_pattern_mismatch":
        return PATTERNS.get(item["ctx"]["pattern"], "This text does not have the form that is needed")
    return _PLAIN.get(item["type"], item["msg"])


def path_text(location: tuple[int | str, ...]) -> str:
    """`("answer", "choices", 0)` → `answer.choices[0]`. pydantic's mark for "the key itself" is left out."""
    text = ""
    for step in location:
        if step == "[key]":
            continue
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
