"""JSON Schemas of the wire models, as the OpenRPC document and the reference show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

REF = "#/components/schemas/"

_ANYTHING = "JsonValue"
"""pydantic's name for a schema that allows everything; `{}` says the same."""


def schemas(models: Iterable[type[BaseModel]]) -> tuple[dict[type[BaseModel], str], dict[str, Any]]:
    """(model → its name, name → schema) for `models` and all they refer to.

    Names are the classes', with their module before it where two classes share one. A key that may be left out is one that is not
    `required`; that reading `null` there means the same is not advertised.
    """
    wanted = list(dict.fromkeys(models))
    found, root = models_json_schema([(model, "validation") for model in wanted], ref_template=REF + "{model}")
    names = {key: _name(key) for key in root["$defs"]}
    shapes = {names[key]: _tidy(schema, names) for key, schema in root["$defs"].items() if key != _ANYTHING}
    return {model: names[ref_name(found[model, "validation"])] for model in wanted}, shapes


def ref_name(schema: dict[str, Any]) -> str:
    """The name that a `$ref` schema refers to."""
    return str(schema["$ref"]).removeprefix(REF)


def _name(key: str) -> str:
    """`cueloop_protocol__documents__queue__RunnerCli` → `queue.RunnerCli`."""
    return ".".join(key.split("__")[-2:])


def _tidy(schema: Any, names: dict[str, str]) -> Any:
    if isinstance(schema, list):
        return [_tidy(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("$ref") == REF + _ANYTHING:
        return {key: value for key, value in schema.items() if key == "description"}
    tidy = {key: _tidy(value, names) for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    if "$ref" in schema:
        tidy["$ref"] = REF + names[ref_name(schema)]
    tidy.pop("discriminator", None)  # OpenAPI's keyword; the kinds are constants in each variant
    if "default" in tidy and tidy["default"] is None:
        del tidy["default"]
        _drop_null(tidy)
    if "properties" in tidy:
        _require_constants(tidy)
    return tidy


def _require_constants(tidy: dict[str, Any]) -> None:
    """A constant is always written, although a model fills it in by itself."""
    for key, schema in tidy["properties"].items():
        if "const" in schema:
            schema.pop("default", None)
            tidy["required"] = [name for name in tidy["properties"] if name == key or name in tidy.get("required", [])]


def _drop_null(tidy: dict[str, Any]) -> None:
    variants = [variant for variant in tidy.get("anyOf", []) if variant != {"type": "null"}]
    if len(variants) == 1:
        del tidy["anyOf"]
        for key, value in variants[0].items():
            tidy.setdefault(key, value)
    elif variants:
        tidy["anyOf"] = variants
