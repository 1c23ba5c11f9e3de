"""Models as Markdown: tables of their keys, and examples short enough to read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel

from cueloop_protocol.base import JsonObject
from cueloop_protocol.schema import ref_name, schemas

_PLAIN_TYPES = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false", "null": "null"}
_LONG = ("document", "config", "execution_controls")
"""Keys whose value is a document of its own, shown in full elsewhere."""


class Shapes:
    """The schemas of some models. Each is told once: in the text where it is asked for first, or at the end."""

    def __init__(self, models: Iterable[type[BaseModel]]) -> None:
        self._names, self._shapes = schemas(models)
        self._told: set[str] = set()

    def told(self, model: type[BaseModel]) -> str:
        """What the model says of itself and its table, or only a link to the place where that stands already."""
        name = self._names[model]
        if name in self._told:
            return _link(name) + ".\n"
        self._told.add(name)
        return self._text(name)

    def rest(self) -> Iterator[str]:
        """All that was not told yet, each under its own heading."""
        for name in sorted(set(self._shapes) - self._told):
            self._told.add(name)
            yield f"### `{name}`\n\n{self._text(name)}"

    def _text(self, name: str) -> str:
        shape = self._shapes[name]
        parts = [f'<a id="shape-{name.lower()}"></a>{shape["description"]}\n']
        rows = [self._row(key, schema, shape) for key, schema in shape.get("properties", {}).items()]
        if rows:
            parts.append("\n".join(["| key | type | |", "|---|---|---|", *rows]) + "\n")
        return "\n".join(parts)

    @staticmethod
    def _row(key: str, schema: dict[str, Any], shape: dict[str, Any]) -> str:
        notes = [] if key in shape.get("required", []) else ["optional"]
        default = schema.get("default")
        if default is not None and not isinstance(default, dict):
            notes = [f"default `{json.dumps(default)}`"]
        if "description" in schema and "$ref" not in schema:
            notes.append(str(schema["description"]))
        return f"| `{key}` | {type_text(schema)} | {'; '.join(notes)} |"


def type_text(schema: dict[str, Any]) -> str:
    """A schema in words: `list of text`, `"one" or "loop"`, a link to a shape."""
    if "$ref" in schema:
        return _link(ref_name(schema))
    if "const" in schema:
        return _value(schema["const"])
    if "enum" in schema:
        return _alternatives(_value(value) for value in schema["enum"])
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return _alternatives(dict.fromkeys(type_text(variant) for variant in schema[union]))
    if schema.get("type") == "array":
        return f"list of {type_text(schema.get('items', {}))}"
    if schema.get("type") == "object":
        return f"map of text to {type_text(_values_of(schema))}"
    return _PLAIN_TYPES.get(schema.get("type", ""), "any JSON value") + _bounds(schema)


def _values_of(schema: dict[str, Any]) -> dict[str, Any]:
    """What an object with free keys holds."""
    named: dict[str, dict[str, Any]] = schema.get("patternProperties", {})
    values = next(iter(named.values()), schema.get("additionalProperties", {}))
    return values if isinstance(values, dict) else {}


def _bounds(schema: dict[str, Any]) -> str:
    low, high, above = schema.get("minimum"), schema.get("maximum"), schema.get("exclusiveMinimum")
    if above is not None:
        return f" over {above}"
    if low is not None:
        return f" from {low}" + ("" if high is None else f" to {high}")
    return ""


def _value(value: object) -> str:
    return f"`{json.dumps(value)}`"


def _alternatives(texts: Iterable[str]) -> str:
    *most, last = texts
    return f"{', '.join(most)} or {last}" if most else last


def _link(name: str) -> str:
    return f"[{name}](#shape-{name.lower()})"


def shortened(value: Any, keep: tuple[str, ...] = ()) -> Any:
    """The value with the documents in it replaced by "…", except under the keys in `keep`."""
    if isinstance(value, dict):
        return {
            key: "…" if key in _LONG and key not in keep and isinstance(item, dict) and len(item) > 2 else shortened(item, keep)
            for key, item in value.items()
        }
    return [shortened(item, keep) for item in value] if isinstance(value, list) else value


def code_block(*values: JsonObject) -> str:
    """The values as JSON, one after the other, in one fenced block; short ones on a line."""
    return "```json\n" + "\n".join(_laid_out(value) for value in values) + "\n```\n"


def _laid_out(value: object, indent: str = "") -> str:
    line = json.dumps(value, ensure_ascii=False)
    if len(indent + line) <= 120 or not isinstance(value, dict | list):
        return line
    inner = indent + "  "
    if isinstance(value, dict):
        parts = [f"{inner}{json.dumps(key)}: {_laid_out(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(parts) + "\n" + indent + "}"
    return "[\n" + ",\n".join(inner + _laid_out(item, inner) for item in value) + "\n" + indent + "]"
