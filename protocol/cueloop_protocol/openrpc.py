"""The protocol as an OpenRPC document, for `rpc.discover`. Made from the same table as everything else."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from cueloop_protocol.base import JsonObject
from cueloop_protocol.codes import NAMES
from cueloop_protocol.documents.error import ErrorData
from cueloop_protocol.methods import ALWAYS, METHODS, MethodSpec
from cueloop_protocol.notifications import NOTIFICATIONS
from cueloop_protocol.schema import REF, schemas

OPENRPC_VERSION = "1.3.2"


def openrpc_document(version: str) -> JsonObject:
    """The OpenRPC document; `version` is the daemon's. Costs some ten milliseconds: make it once.

    Params are by name. OpenRPC has no word for what a server sends by itself: the notifications stand under `x-notifications`.
    """
    names, shapes = schemas(
        [model for spec in METHODS.values() for model in (spec.params, spec.result)]
        + [spec.params for spec in NOTIFICATIONS.values()]
        + [ErrorData]
    )
    return {
        "openrpc": OPENRPC_VERSION,
        "info": {"title": "cueloopd", "version": version, "description": "The session daemon of CueLoop, one per repository."},
        "methods": [_method(name, spec, names, shapes) for name, spec in METHODS.items()],
        "components": {"schemas": shapes},
        "x-notifications": [
            {"name": name, "summary": spec.summary, "x-sender": spec.sender, "params": {"$ref": REF + names[spec.params]}}
            for name, spec in NOTIFICATIONS.items()
        ],
        "x-error-data": {"$ref": REF + names[ErrorData]},
    }


def _method(name: str, spec: MethodSpec, names: dict[type[BaseModel], str], shapes: dict[str, Any]) -> JsonObject:
    params = shapes[names[spec.params]]
    method: JsonObject = {
        "name": name,
        "summary": spec.summary,
        "paramStructure": "by-name",
        "params": [
            {"name": key, "required": key in params.get("required", []), "schema": schema}
            for key, schema in params.get("properties", {}).items()
        ],
        "result": {"name": names[spec.result], "schema": {"$ref": REF + names[spec.result]}},
        "errors": [{"code": code, "message": NAMES[code]} for code in (*spec.errors, *ALWAYS)],
    }
    if spec.is_planned:
        method["x-planned"] = True
    return method
