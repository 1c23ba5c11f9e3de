"""Five tasks in three phases, with everything that happens to a machine in a day: told to a subscriber once, and finished."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.runs import nothing_left
from support.story import KILLS, Story, begin, close, play, table
from support.wire import Wire
from support.world import World

PAGE = Path(__file__).parents[2] / "docs" / "story.md"
TASKS = [f"RQ-000{number}" for number in range(1, 6)]


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """The story, played once for all tests."""
    world = World.make()
    try:
        story = begin(world)
        try:
            with nothing_left(story.stage):
                play(story)
            yield story
        finally:
            close(story)
    finally:
        world.close()


def test_all_is_done_and_committed_once(story: Story) -> None:
    assert story.stage.statuses() == ({}, dict.fromkeys(TASKS, "done"))
    repository = story.stage.world.repository
    log = subprocess.run(["git", "log", "--format=%s"], cwd=repository.path, capture_output=True, text=True, check=True)
    subjects = log.stdout.splitlines()
    assert [sum(task in subject for subject in subjects) for task in TASKS] == [1] * 5
    assert len(subjects) == 6
    assert not repository.session.exists()
    assert not repository.lock.exists()


def test_each_phase_was_worked_on_once_whatever_was_killed(story: Story) -> None:
    calls = Counter((call["task"], call["phase"]) for call in story.stage.calls())
    more = {("RQ-0002", "more"): 1, ("RQ-0004", "more"): 1}  # the gate failed; the cancelled phase was gone on with
    assert calls == {(task, phase): 1 for task in TASKS for phase in ("plan", "implement", "review")} | more
    assert len(set(story.killed)) == len(KILLS)


def test_what_continues_is_the_agent_s_own_conversation(story: Story) -> None:
    calls = story.stage.calls()
    for task, phase in (("RQ-0002", "review"), ("RQ-0004", "implement")):
        first = next(call["argv"] for call in calls if (call["task"], call["phase"]) == (task, phase))
        more = next(call["argv"] for call in calls if (call["task"], call["phase"]) == (task, "more"))
        assert more[more.index("--resume") + 1] == first[first.index("--session-id") + 1]
    (failed,) = [call["prompt"] for call in calls if (call["task"], call["phase"]) == ("RQ-0002", "more")]
    assert "error: a test fails" in failed
    assert "Exit code: 3" in failed


def test_the_subscriber_heard_everything_from_beginning_to_end_once(story: Story) -> None:
    begun, *notes = story.heard()
    cursors = [note["cursor"] for note in notes]
    numbers = [int(cursor.partition(":")[2]) for cursor in cursors]
    assert {cursor.partition(":")[0] for cursor in cursors} == {begun["from"].partition(":")[0]}
    assert numbers == sorted(set(numbers))
    (locator,) = story.stage.world.folder.glob("run/cueloopd/*/d.sock")
    with Wire(locator) as wire:
        wire.subscribe(cursor=begun["from"], caller=story.stage.world.caller)
        again = [wire.note() for _ in notes]
    assert [note["params"]["cursor"] for note in again] == cursors


def test_every_word_of_the_agents_was_heard_once(story: Story) -> None:
    words = "".join(
        note["event"]["payload"]["text"] for note in story.heard()[1:] if note.get("event", {}).get("kind") == "runner_output"
    )
    for call in story.stage.calls():
        assert words.count(f"{call['phase']} of {call['task']}\n") == 1


def test_the_page_tells_what_was_heard(story: Story) -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert table(story) == rows


def test_what_the_commands_said(story: Story) -> None:
    assert [(command, code) for command, _, code in story.seen] == [
        ("run loop", None), ("run stop", 0), ("run loop", 130), ("session show", 0), ("run resume", 0),
    ]  # fmt: skip
    resumed = story.seen[-1][1]
    assert "going on in the agent's own session for task RQ-0004" in resumed
