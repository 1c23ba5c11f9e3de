"""Numbers in words for people. Pure."""

from __future__ import annotations

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def age_words(seconds: int) -> str:
    """`90061` → `1 day 1 hour`: the two largest units that are not zero."""
    parts: list[str] = []
    for name, size in _UNITS:
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number} {name}{'' if number == 1 else 's'}")
    return " ".join(parts[:2]) or "0 seconds"
