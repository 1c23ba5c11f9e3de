"""A machine may lose its power at any point of a run: that run is over, and the next one takes the task up where it stands.

Shim and agent are gone with it. What was accepted is completed, what was begun is gone on with, and nothing is done twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from cueloop_daemon.runs.types import NotStarted, Order
from runs.fakes import Script
from runs.program import claude
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

WORDS = {
    "You work alone": "implement",
    "You plan one task": "plan",
    "You carry out the plan": "implement",
    "You review work": "review",
}


@dataclass
class Calls:
    """The phases in which the agents of a story were asked to work, in order: one that goes on is where its conversation is."""

    made: list[str] = field(default_factory=list)
    _known: dict[str, str] = field(default_factory=dict)

    def of(self, story: Story) -> Story:
        """The same story, with its agents counted."""

        def play(stage: Stage, order: Order) -> Script | NotStarted:
            if order.kind == "agent":
                conversation, is_continued = claude.id_of(order)
                if not is_continued:
                    self._known[conversation] = next(word for words, word in WORDS.items() if stage.said(order).startswith(words))
                self.made.append(self._known[conversation])
            return story.play(stage, order)

        return replace(story, play=play)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
async def test_a24_the_next_run_takes_up_what_a_power_cut_left(story: Story, tmp_path: Path) -> None:
    seen: dict[str, int] = {}
    points: list[str] = []

    def look(key: str, point: str) -> None:
        seen.setdefault(repr(whole.remains()), len(points))
        points.append(f"{key} {point}")

    all_calls = Calls()
    whole = all_calls.of(story).stage(tmp_path / "whole")
    await whole.life(look)
    names = sorted(str(one["id"]) for one in story.tasks)
    for number in seen.values():
        calls = Calls()
        stage = calls.of(story).stage(tmp_path / str(number))
        await die(stage, number)
        before, told = len(calls.made), sum(event["kind"] == "phase_completed" for event in stage.events())
        stage.reboot({"mode": "resume"})
        state = await stage.life()
        where = f"after a power cut at {points[number]}"
        after = calls.made[before:]
        finished = len(all_calls.made) - len(after)
        assert after == all_calls.made[finished:], f"{where}: the rest of the phases, in order, whatever iteration they belong to"
        assert told <= finished <= before, f"{where}: none that was told to be finished again, none passed over"
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
