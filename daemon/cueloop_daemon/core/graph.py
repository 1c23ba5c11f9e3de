"""Cycles in a relation between ids. No recursion: a chain may be as long as the queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def cycle_member(relation: Mapping[str, Iterable[str]]) -> str | None:
    """An id that can be reached from itself, None if there is none. Targets without an entry of their own lead nowhere."""
    settled: set[str] = set()
    for start in relation:
        if start in settled:
            continue
        path: dict[str, None] = {start: None}  # the ids on the way, in order
        ways = [iter(relation[start])]
        while ways:
            target = next(ways[-1], None)
            if target is None:
                ways.pop()
                settled.add(path.popitem()[0])
            elif target in path:
                return target
            elif target in relation and target not in settled:
                path[target] = None
                ways.append(iter(relation[target]))
    return None
