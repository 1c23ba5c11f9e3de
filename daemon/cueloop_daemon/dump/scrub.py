"""Taking what is a person's own out of what is told: known secrets and texts by their letters, others by their form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from pydantic import JsonValue

from cueloop_daemon.logs import REDACTED, redact
from cueloop_protocol.dump_results import DumpResult
from cueloop_protocol.values import dataclass

SHORTEST = 6
"""Characters that a text must have to be looked for: shorter ones would be found everywhere, and are no secret."""

MOST_LITERALS = 20_000
"""Texts that are looked for, the longest first."""

_E_MAIL = re.compile(r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_BETWEEN = "\x00"


@dataclass(frozen=True, slots=True)
class Scrubber:
    """`texts` are taken out wherever they stand, also as a part of another; `homes` become `~`."""

    homes: tuple[str, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, homes: Iterable[str], texts: Iterable[str]) -> Scrubber:
        """One that knows these. Texts that are too short, and homes that are no folder of a person, are left out."""
        found = {text for text in texts if len(text) >= SHORTEST and "\x00" not in text and not text.isspace()}
        known = {home.rstrip("/") for home in homes if home.startswith("/")} - {""}
        longest = sorted(found, key=lambda text: (-len(text), text))[:MOST_LITERALS]
        return cls(tuple(sorted(known, key=len, reverse=True)), tuple(longest))

    def value(self, value: JsonValue) -> JsonValue:
        """The same value, every text in it clean; keys are ours and stay."""
        texts: list[str] = []
        _collect(value, texts)
        return _rebuilt(value, iter(self.all(texts)))

    def all(self, texts: list[str]) -> list[str]:
        """The texts, clean. All at once, as each known text is looked for once in all of them."""
        joined = _BETWEEN.join(text.replace("\x00", "\ufffd") for text in texts)
        for known in self.texts:
            if known in joined:
                joined = joined.replace(known, REDACTED)
        return [
            before if before in closed_words() else self._by_form(text)
            for before, text in zip(texts, joined.split(_BETWEEN) if texts else [], strict=True)
        ]

    def _by_form(self, text: str) -> str:
        for home in self.homes:
            if home in text:
                text = re.sub(re.escape(home) + r"(?![\w.-])", "~", text)
        return _E_MAIL.sub("<e-mail>", redact(text))


@cache
def closed_words() -> frozenset[str]:
    """Words of the closed lists of a dump, which stand for themselves even where somebody's secret is the same word."""
    found: set[str] = set()

    def walk(value: object) -> None:
        if isinstance(value, dict):
            found.update(word for word in (*value.get("enum", ()), value.get("const")) if isinstance(word, str))
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(DumpResult.model_json_schema())
    return frozenset(found)


def _collect(value: JsonValue, texts: list[str]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, list):
        for item in value:
            _collect(item, texts)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, texts)


def _rebuilt(value: JsonValue, texts: Iterable[str]) -> JsonValue:
    clean = iter(texts)

    def rebuild(value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return next(clean)
        if isinstance(value, list):
            return [rebuild(item) for item in value]
        if isinstance(value, dict):
            return {key: rebuild(item) for key, item in value.items()}
        return value

    return rebuild(value)
