"""A daemon may die at any point of any run: the next one goes on, and nobody can tell from the repository or from the events.

The points are what the journal itself names; a new step is tried without being listed. Points from which the next life finds the very
same things are tried once.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runs.fakes import Killed
from runs.program.played import Stage
from runs.program.stories import STORIES, Story

LEAST_POINTS = 40
DOUBLE_DEATHS = 8
STAMPS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
UUIDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def plain(stage: Stage, value: object) -> str:
    """Without what chance, clock and folder decide."""
    text = json.dumps(value, default=repr).replace(str(stage.folder), "/repository")
    return UUIDS.sub("an-id", STAMPS.sub("a-moment", text))


def told(stage: Stage) -> list[str]:
    """Everything that was said, but for what chance and clock decide."""
    return [plain(stage, event) for event in stage.events()]


def left(stage: Stage) -> dict[str, str]:
    """What a person finds afterwards."""
    names = ("queue", "done", "session", "marker", "tree", "commits", "pushed", "owed", "lock", "asked", "output")
    return {name: plain(stage, value) for name, value in stage.remains().items() if name in names}


async def undisturbed(story: Story, folder: Path, look: Callable[[Stage, str, str], None]) -> tuple[Stage, str]:
    """The story without a death; `look` is called at each point."""
    stage = story.stage(folder)
    state = await stage.life(lambda key, point: look(stage, key, point))
    assert state.ending is not None
    return stage, state.ending.outcome


async def dies_at(story: Story, folder: Path, *numbers: int) -> tuple[Stage, str]:
    """The story with a death at the n-th point (from 0) of each life, and another life to its end."""
    stage = story.stage(folder)
    for number in numbers:
        await die(stage, number)
    state = await stage.life()
    assert state.ending is not None
    return stage, state.ending.outcome


async def die(stage: Stage, number: int) -> None:
    """A life that ends at its n-th point (from 0)."""
    passed = 0

    def probe(key: str, point: str) -> None:
        nonlocal passed
        passed += 1
        if passed > number:
            raise Killed

    with pytest.raises((Killed, BaseExceptionGroup), check=is_killed):
        await stage.life(probe)


def is_killed(exc: BaseException) -> bool:
    """Whether nothing but the death came out."""
    return isinstance(exc, Killed) or (isinstance(exc, BaseExceptionGroup) and all(is_killed(one) for one in exc.exceptions))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
async def test_a_death_at_any_point_is_not_seen(story: Story, tmp_path: Path) -> None:
    points: list[str] = []
    first_seen: dict[str, int] = {}

    def look(stage: Stage, key: str, point: str) -> None:
        first_seen.setdefault(repr(stage.remains()), len(points))
        points.append(f"{key} {point}")

    whole, outcome = await undisturbed(story, tmp_path / "whole", look)
    assert outcome == story.outcome
    assert len(points) >= LEAST_POINTS
    expected = told(whole), left(whole), whole.played
    for number in first_seen.values():
        stage, outcome = await dies_at(story, tmp_path / str(number), number)
        wrong = differences(expected, (told(stage), left(stage), stage.played))
        assert (outcome, wrong) == (story.outcome, ""), f"after a death at {points[number]}"
        assert set(stage.memory.notified) <= set(whole.memory.notified)
        assert len(stage.memory.notified) <= len(whole.memory.notified)
        assert not [name for name in stage.remains()["files"] if ".cueloopd-" in name], "no temporary file stays"  # type: ignore[attr-defined]  # a dict


def differences(expected: tuple[Any, ...], found: tuple[Any, ...]) -> str:
    """The first thing that is not as it should be; empty if everything is."""
    for what, wanted, got in zip(("events", "what is left", "children"), expected, found, strict=True):
        if isinstance(wanted, dict):
            for name in wanted:
                if wanted[name] != got[name]:
                    return f"{name}: wanted {wanted[name]}, got {got[name]}"
        elif wanted != got:
            at = next(
                (n for n, pair in enumerate(zip(wanted, got, strict=False)) if pair[0] != pair[1]), min(len(wanted), len(got))
            )
            return f"{what} {at}: wanted {wanted[at : at + 2]}, got {got[at : at + 2]}"
    return ""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
async def test_a_death_on_the_way_back_is_not_seen_either(story: Story, tmp_path: Path) -> None:
    """Two deaths: the second life dies early, while it reads what the first has left."""
    points: list[str] = []
    whole, _ = await undisturbed(story, tmp_path / "whole", lambda stage, key, point: points.append(f"{key} {point}"))
    expected = told(whole), left(whole), whole.played
    rng = random.Random(story.name)
    for turn in range(DOUBLE_DEATHS):
        first, second = rng.randrange(len(points) - 1), rng.randrange(4)
        stage, outcome = await dies_at(story, tmp_path / str(turn), first, min(second, len(points) - first - 2))
        wrong = differences(expected, (told(stage), left(stage), stage.played))
        assert (outcome, wrong) == (story.outcome, ""), f"after deaths at {points[first]} and {second} further"
