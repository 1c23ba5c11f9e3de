"""Recordings without the machine they were made on: paths, ports and names are replaced by neutral ones of the same shape."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from agents.cli import MODULES, Place

HOME = "/home/person"


def replacements(place: Place, host: str) -> Mapping[str, str]:
    """What to replace by what, longest first, so that no replacement spoils another. `host`: the machine's name."""
    base = place.home.parent
    pairs = {
        str(MODULES): "/opt/agents/node_modules",
        str(MODULES.parent): "/opt/agents",
        str(place.project): f"{HOME}/project",
        str(place.home): HOME,
        str(base): HOME,
        f"127.0.0.1:{place.port}": "127.0.0.1:8080",
        host: "machine",
    }
    for path, neutral in list(pairs.items()):
        if path.startswith("/"):  # as CLIs make a folder's name of a path
            pairs[path.replace("/", "-")] = neutral.replace("/", "-")
            pairs[re.sub(r"[^A-Za-z0-9]", "-", path)] = neutral.replace("/", "-")
    pairs.pop("", None)
    return dict(sorted(pairs.items(), key=lambda pair: -len(pair[0])))


def scrubbed(text: str, pairs: Mapping[str, str]) -> str:
    """`text` with every replacement made, and system prompts in JSON lines shortened."""
    for found, neutral in pairs.items():
        text = text.replace(found, neutral)
    return "".join(_without_prompt(line) for line in text.splitlines(keepends=True))


def _without_prompt(line: str) -> str:
    if '"role":"system"' not in line:
        return line
    try:
        value = json.loads(line)
    except ValueError:
        return line
    return json.dumps(_shortened(value), separators=(",", ":"), ensure_ascii=False) + "\n"


def _shortened(value: object) -> object:
    """Texts of a system message, but not those around it, cut."""
    match value:
        case dict() if value.get("role") == "system":
            return _cut(value)
        case dict():
            return {key: _shortened(item) for key, item in value.items()}
        case list():
            return [_shortened(item) for item in value]
    return value


def _cut(value: object) -> object:
    match value:
        case str() if len(value) > 40:
            return "(the program's own prompt)"
        case dict():
            return {key: _cut(item) for key, item in value.items()}
        case list():
            return [_cut(item) for item in value]
    return value
