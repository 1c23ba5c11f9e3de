"""A machine may lose its power at any point of a run: that run is over, and the next one takes the task up where it stands.

Shim and agent are gone with it. What was accepted is completed, what was begun is gone on with, and nothing is done twice.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runs.program.played import Stage, config, task
from runs.program.stories import Story, works
from runs.program.test_kills import die

STORIES = (
    Story("one-phase", "ran", works, config=config(git_publish_mode="commit_and_push")),
    Story("three-phases", "ran", works, config=config(phases=3, iterations=2, git_publish_mode="commit")),
    Story(
        "loop",
        "no_candidates",
        works,
        {"mode": "loop"},
        config(phases=2, git_publish_mode="commit"),
        (task("RQ-0001"), task("RQ-0002")),
    ),
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
async def test_a24_the_next_run_takes_up_what_a_power_cut_left(story: Story, tmp_path: Path) -> None:
    seen: dict[str, int] = {}
    points: list[str] = []

    def look(key: str, point: str) -> None:
        seen.setdefault(repr(whole.remains()), len(points))
        points.append(f"{key} {point}")

    whole = story.stage(tmp_path / "whole")
    await whole.life(look)
    names = sorted(str(one["id"]) for one in story.tasks)
    for number in seen.values():
        stage = story.stage(tmp_path / str(number))
        await die(stage, number)
        stage.reboot({"mode": "resume"})
        state = await stage.life()
        where = f"after a power cut at {points[number]}"
        assert state.ending is not None, where
        # The limit of a `run one` was 1, and is kept by the loop that resumes its session.
        assert state.ending.outcome in ("no_candidates", "completed"), (where, state.ending, stage.events()[-3:])
        assert (stage.tasks("queue"), stage.tasks("done")) == ({}, dict.fromkeys(names, "done")), where
        assert (stage.session(), stage.memory.owed, stage.shim.lock) == (None, {}, None), where
        assert published(stage) == published(whole), where
        assert not [name for name in stage.remains()["files"] if ".cueloopd-" in name], where  # type: ignore[attr-defined]  # a dict


def published(stage: Stage) -> list[str]:
    """The tasks whose work was committed, in order."""
    return [message.partition("|")[0] for message, _ in stage.tree.commits[1:]]
