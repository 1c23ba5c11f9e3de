"""What is wrong with a document that was read but does not fit its model, as one sentence: key, value, what is allowed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from cueloop_protocol.base import path_text

SHOWN: Final = 60
"""Characters of somebody else's text that a sentence quotes."""

_ALLOWED: Final = {
    "string_type": "a text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "string_pattern_mismatch": "a text that is not blank",
}


def what_is_wrong(error: ValidationError, known_keys: Mapping[tuple[str, ...], tuple[str, ...]]) -> str:
    """The first thing wrong, and how many more there are. `known_keys`: by the keys above an object, the keys it may have."""
    details = error.errors(include_url=False)
    more = f" {len(details) - 1} more of this file follow(s)." if len(details) > 1 else ""
    return _sentence(details[0], known_keys) + more


def quoted(value: object) -> str:
    """A value as JSON, cut off where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except ValueError:  # Python does not write integers of thousands of digits, which JSON5 can spell in hex
        text = "a value with a very large number"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _sentence(detail: ErrorDetails, known_keys: Mapping[tuple[str, ...], tuple[str, ...]]) -> str:
    location = detail["loc"]
    path = path_text(location) or "the document"
    if detail["type"] == "missing":
        return f"{path} is missing."
    if detail["type"] == "extra_forbidden":
        above = tuple(step for step in location[:-1] if isinstance(step, str))
        keys = known_keys.get(above)
        return f"{path} is no known key." + (f" Known are {', '.join(keys)}." if keys else "")
    return f"{path} is {quoted(detail['input'])}; allowed is {_allowed(detail)}."


def _allowed(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    match detail["type"]:
        case "literal_error":
            return str(context["expected"]).replace("'", "")
        case "greater_than_equal":
            return f"a number from {context['ge']} on"
        case "less_than_equal":
            return f"a number up to {context['le']}"
        case kind:
            return _ALLOWED.get(kind) or detail["msg"].removeprefix("Input should be ").removeprefix("a valid ")
