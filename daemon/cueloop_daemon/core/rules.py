"""Rules for files that people write: small functions that either return a value, made uniform, or say what is allowed instead.

A rule takes a value and its key. Objects lose their nulls on the way (`null` means "not set here", contract section 3), so what
comes out of a table holds only what somebody set. `true` is no number, and a number with a point is no whole number.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches

from cueloop_protocol.values import dataclass

Key = tuple[str | int, ...]
Rule = Callable[[object, Key], object]

U8, U32, U64 = 2**8 - 1, 2**32 - 1, 2**64 - 1
"""The largest whole numbers of the fields; a field without a limit of its own still has its width."""

_SHOWN_VALUE = 80
_PLAIN_KEY = re.compile(r"[\w$-]+")


class RuleError(ValueError):
    """A value breaks a rule. `key` is the dotted path; `reason` says what is wrong, `allowed` what would be right."""

    def __init__(self, key: Key, reason: str, allowed: str) -> None:
        self.key = key_text(key)
        self.reason = reason
        self.allowed = allowed
        super().__init__(f"{self.place}: {reason}; allowed: {allowed}")

    @property
    def place(self) -> str:
        """The key, or words for the whole document."""
        return self.key or "the document"

    @property
    def remedy(self) -> str:
        """What to do, as a sentence."""
        return f"Allowed: {self.allowed}."


@dataclass(frozen=True, slots=True)
class Whole:
    """A value that a later layer replaces whole instead of merging into it."""

    value: object


def key_text(key: Key) -> str:
    """`("agent", "argv", 0)` → `agent.argv[0]`; a key with other characters than a word's is quoted in brackets."""
    text = ""
    for step in key:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text


def refused(value: object, key: Key, allowed: str) -> RuleError:
    """The error for a value of the wrong kind, which it shows, cut where it is long."""
    shown = json.dumps(value, ensure_ascii=False)
    return RuleError(key, f"is {shown if len(shown) <= _SHOWN_VALUE else shown[:_SHOWN_VALUE] + '…'}", allowed)


def boolean(value: object, key: Key) -> object:
    """`true` or `false`."""
    if value is True or value is False:
        return value
    raise refused(value, key, "true or false")


def integer(low: int, high: int) -> Rule:
    """A whole number within the limits, both included."""
    limits = f"a whole number from {low} to {high}" if high < U32 else f"a whole number of at least {low}"
    if low == high:
        limits = str(low)

    def rule(value: object, key: Key) -> object:
        if type(value) is int and low <= value <= high:
            return value
        raise refused(value, key, limits)

    return rule


def number(low: float = -math.inf, high: float = math.inf) -> Rule:
    """A number within the limits, both included; `2` becomes 2.0."""
    limits = "a number" if math.isinf(high) else f"a number from {low:g} to {high:g}"

    def rule(value: object, key: Key) -> object:
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                found = float(value)
            except OverflowError:
                found = math.inf
            if low <= found <= high and math.isfinite(found):
                return found
        raise refused(value, key, limits)

    return rule


def one_of(*words: str) -> Rule:
    """One of the words, as it is spelled here."""

    def rule(value: object, key: Key) -> object:
        if isinstance(value, str) and value in words:
            return value
        raise refused(value, key, ", ".join(words))

    return rule


def text(value: object, key: Key) -> object:
    """Any text, also an empty one."""
    if isinstance(value, str):
        return value
    raise refused(value, key, "a text")


def secret(value: object, key: Key) -> object:
    """Any text, which no error shows."""
    if isinstance(value, str):
        return value
    raise RuleError(key, "is no text", "a text")


def words(value: object, key: Key) -> object:
    """Text that says something and that a system call can take: not blank, without NUL. Kept as it is."""
    if isinstance(value, str) and value.strip() and "\0" not in value:
        return value
    raise refused(value, key, "a text that is not blank")


def trimmed(value: object, key: Key) -> object:
    """Like `words`, without the white space around it."""
    found = words(value, key)
    return found.strip() if isinstance(found, str) else found


def items(item: Rule) -> Rule:
    """A list, each of whose items keeps the rule."""

    def rule(value: object, key: Key) -> object:
        if not isinstance(value, list):
            raise refused(value, key, "a list")
        return [item(entry, (*key, position)) for position, entry in enumerate(value)]

    return rule


def table(fields: Mapping[str, Rule], *, ignored: Mapping[str, Rule] | None = None, required: tuple[str, ...] = ()) -> Rule:
    """An object with these keys and no others. What is `ignored` is checked and then dropped."""
    known = {**fields, **(ignored or {})}

    def rule(value: object, key: Key) -> object:
        found = _object(value, key)
        for name in found:
            if name not in known:
                raise _unknown(name, key, tuple(fields))
        for name in required:
            if found.get(name) is None:
                raise RuleError((*key, name), "is missing", "it must be set")
        checked = {name: known[name](entry, (*key, name)) for name, entry in found.items() if entry is not None}
        return {name: entry for name, entry in checked.items() if name in fields}

    return rule


def mapping(entry_rule: Rule, name_rule: Rule = words) -> Rule:
    """An object with keys of the writer's choice; `name_rule` makes them uniform, and none may come twice then."""

    def rule(value: object, key: Key) -> object:
        found: dict[str, object] = {}
        for name, entry in _object(value, key).items():
            uniform = str(name_rule(name, key))
            if uniform in found:
                raise RuleError((*key, name), "is there twice, differently spelled", "each name once")
            if entry is not None:
                found[uniform] = entry_rule(entry, (*key, name))
        return found

    return rule


def opaque(value: object, key: Key) -> object:
    """Anything at all, handed on unread."""
    return Whole(value)


def _object(value: object, key: Key) -> dict[str, object]:
    if isinstance(value, dict):
        return value
    raise refused(value, key, "an object in braces")


def _unknown(name: str, key: Key, fields: tuple[str, ...]) -> RuleError:
    near = get_close_matches(name, fields, n=1)
    known = ", ".join(fields)
    return RuleError((*key, name), f"is no known key{f' (did you mean {near[0]}?)' if near else ''}", known)
