"""Many callers at once in one repository."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from support.world import World


@dataclass(frozen=True)
class Stampede:
    """What came of it: how many callers got the right document, what the others got, and which daemons ran afterwards."""

    right: int
    wrong: Counter[str]
    daemons: list[int]


def stampede(world: World, number: int) -> Stampede:
    """That many callers, all begun before any is waited for."""
    callers = [world.spawn("machine", "config", "resolve") for _ in range(number)]
    wrong: Counter[str] = Counter()
    for caller in callers:
        out, err = caller.communicate(timeout=120)
        problem = _problem(out, err, caller.returncode)
        if problem is not None:
            wrong[problem] += 1
    return Stampede(number - wrong.total(), wrong, world.daemons())


def _problem(out: bytes, err: bytes, code: int) -> str | None:
    if code or err:
        return f"exit {code}: {err.decode()[:500]}"
    document = json.loads(out)
    found = document["version"], document.get("resume_preview", {}).get("reason")
    return None if found == (5, "session_valid") else f"another answer: {found}"
