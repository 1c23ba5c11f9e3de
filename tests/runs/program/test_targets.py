"""What cannot be run, and what a run is warned of before it begins: one sentence, and nothing changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.runs.types import NotStarted, Order
from cueloop_daemon.store.tasks_file import TasksFile
from runs.fakes import Script
from runs.program.played import STAMP, Stage, queue, session, task
from runs.program.playing import GATE, LOOP, ONE, set_stage, tell
from runs.program.stories import works

LATER = "2999-01-01T00:00:00Z"
TASKS = queue(
    task("RQ-0001"),
    task("RQ-0002", status="done", completed_at=STAMP),
    task("RQ-0003", status="rejected", completed_at=STAMP),
    task("RQ-0004", status="draft"),
    task("RQ-0005", kind="group"),
    task("RQ-0006", scheduled_start=LATER),
    task("RQ-0007", depends_on=["RQ-0001"]),
)


def untouched(made: Stage, before: dict[str, str]) -> bool:
    """Nothing in the repository is different."""
    return before == {name: text for name, text in files(made).items() if "/cueloopd/" not in name}


def files(made: Stage) -> dict[str, str]:
    found: dict[str, str] = made.remains()["files"]  # type: ignore[assignment]  # a dict of texts
    return found


@pytest.mark.parametrize("saved", [None, session()], ids=["no session", "a session"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("RQ-0009", "There is no task RQ-0009 in the queue."),
        ("RQ-0002", "Task RQ-0002 is done already."),
        ("RQ-0003", "Task RQ-0003 is rejected already."),
        ("RQ-0004", "Task RQ-0004 is a draft; make it ready first, or give --include-draft."),
        ("RQ-0005", "Task RQ-0005 is a group, which is not work that can be run."),
        ("RQ-0006", f"Task RQ-0006 is scheduled for {LATER}."),
        ("RQ-0007", "Task RQ-0007 waits for RQ-0001."),
    ],
)
async def test_a_bad_target(name: str, said: str, saved: str | None, folder: Path) -> None:
    tasks = (
        TASKS
        if saved is None
        else json.dumps({"version": 1, "tasks": [*json.loads(TASKS)["tasks"], task("RQ-0008", status="doing")]})
    )
    if saved is not None:
        saved = session("RQ-0008")
    made = set_stage(folder, {"mode": "one", "task_id": name}, tasks=tasks, saved=saved)
    before = files(made)
    told = await tell(made)
    assert (told.outcome, told.ending.exit_code, told.warnings, told.kinds) == ("failed", 1, [said], ["run_started"])
    assert told.ending.error is not None
    assert (told.ending.error.code, told.ending.error.message) == ("unknown", said)
    assert untouched(made, before)
    assert made.played == []


async def test_a_dirty_tree(folder: Path) -> None:
    made = set_stage(folder)
    made.write("work.txt", "a person's\n")
    before = files(made)
    told = await tell(made)
    assert (told.outcome, told.warnings) == ("failed", ["The work tree has changes that are not committed."])
    assert untouched(made, before)


@pytest.mark.parametrize(
    ("params", "saved", "warned"),
    [
        ({"force": True}, None, False),
        ({"resume": True}, session(), False),
        ({"fresh": True}, session(), True),
    ],
)
async def test_what_waives_the_clean_tree(params: dict[str, object], saved: str | None, warned: bool, folder: Path) -> None:
    status = "todo" if saved is None else "doing"
    made = set_stage(folder, {"mode": "one", **params}, tasks=queue(task("RQ-0001", status=status)), saved=saved)
    made.write("work.txt", "half done\n")
    told = await tell(made)
    assert told.outcome == "ran"
    assert told.has_warned("they may be those of the declined session of RQ-0001") is warned


async def test_a_declined_session_of_another_task_waives_nothing(folder: Path) -> None:
    tasks = queue(task("RQ-0002", status="doing"), task("RQ-0001", status="doing"))
    made = set_stage(folder, {"mode": "one", "fresh": True}, tasks=tasks, saved=session())
    made.write("work.txt", "half done\n")
    assert (await tell(made)).outcome == "failed"


async def test_within_a_loop_the_measure_is_what_the_last_task_left(folder: Path) -> None:
    """And nothing but that: what somebody changes between two tasks is in the way."""
    made = set_stage(folder, LOOP, tasks=queue(task("RQ-0001"), task("RQ-0002"), task("RQ-0003")))
    told = await tell(made)
    assert (told.selected, told.outcome) == (["RQ-0001", "RQ-0002", "RQ-0003"], "no_candidates")
    made = set_stage(folder.with_name("other"), LOOP, tasks=queue(task("RQ-0001"), task("RQ-0002")))

    def look(key: str, point: str) -> None:
        if (key, point) == ("checkpoint/between", "before"):
            made.write("work.txt", "by a person, between two tasks\n")

    state = await made.life(look)
    assert state.ending is not None
    assert (state.ending.outcome, made.tasks("done")) == ("failed", {"RQ-0001": "done"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"parallel": {"workers": 3}}, "one task after the other"),
        ({"agent": {"webhook": {"enabled": True, "url": "https://example.org"}}}, "sends no webhooks"),
        ({"agent": {"repoprompt_tool_injection": True}}, "does not use RepoPrompt"),
    ],
)
async def test_settings_that_are_not_followed_are_said(given: dict[str, Any], said: str, folder: Path) -> None:
    made = set_stage(folder)
    written = json.loads(made.text(".cueloop/config.jsonc"))
    written["agent"] |= given.pop("agent", {})
    made.write(".cueloop/config.jsonc", json.dumps({**written, **given}))
    told = await tell(made)
    assert told.outcome == "ran"
    assert told.has_warned(said)


@pytest.mark.parametrize(("policy", "outcome", "warned"), [("ignore", "ran", 0), ("warn", "ran", 1), ("error", "failed", 1)])
async def test_unsupported_options_by_policy(policy: str, outcome: str, warned: int, folder: Path) -> None:
    """What the daemon cannot honour, and what the runner cannot."""
    by_daemon = {"lfs_check": True, "unsupported_option_policy": policy}
    told = await tell(set_stage(folder, {"mode": "one", "overrides": by_daemon}))
    assert (told.outcome, len(told.warnings)) == (outcome, warned)
    by_runner = {"sandbox": "enabled", "unsupported_option_policy": policy}
    told = await tell(set_stage(folder.with_name("other"), {"mode": "one", "overrides": by_runner}))
    assert (told.outcome, len(told.warnings)) == (outcome, warned)
    if policy == "error":
        assert told.ending.error is not None
        assert told.ending.error.code == "config_incompatible"


@pytest.mark.parametrize(
    ("agent", "said"), [({"runner": "nobody"}, "There is no runner nobody."), ({"runner": "claude", "model": "sonnet"}, None)]
)
async def test_a_runner_that_does_not_exist(agent: dict[str, object], said: str | None, folder: Path) -> None:
    made = set_stage(folder, {"mode": "one", "overrides": {"runner": agent["runner"]}})
    told = await tell(made)
    if said is None:
        assert told.outcome == "ran"
        return
    assert (told.outcome, told.warnings, told.phases) == ("failed", [said], [])
    assert told.ending.error is not None
    assert told.ending.error.code == "cli_unavailable"
    assert made.session() is not None, "the task is begun, and can be resumed with another runner"


@pytest.mark.parametrize("name", ["queue", "done"])
async def test_a_file_that_is_broken_while_the_run_works(name: str, folder: Path) -> None:
    """Nothing is lost, the session stays, and the next run goes on from there."""

    def breaks(made: Stage, order: Order) -> Script | NotStarted:
        if order.kind == "agent":
            made.write(f".cueloop/{name}.jsonc", "{ torn")
        return works(made, order)

    made = set_stage(folder, ONE, breaks, **GATE)
    told = await tell(made)
    assert (told.outcome, made.text(f".cueloop/{name}.jsonc")) == ("failed", "{ torn")
    assert told.ending.error is not None
    assert (told.ending.error.code, f"{name}.jsonc" in told.ending.error.message) == ("queue_corrupted", True)
    made.write(".cueloop/queue.jsonc", queue(task("RQ-0001", status="doing")))
    if name == "done":
        made.write(".cueloop/done.jsonc", queue())
    made.how = works
    made.played.clear()
    made.reboot({"mode": "one", "resume": True})
    assert (await tell(made)).outcome == "ran"
    assert made.played == ["ci make"], "the agent had done its work"


async def test_somebody_who_never_stops_writing_the_queue(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = set_stage(folder)
    before = made.text(".cueloop/queue.jsonc")
    monkeypatch.setattr(TasksFile, "_replace", lambda *args: False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    told = await tell(made)
    assert told.ending.error is not None
    assert (told.outcome, told.ending.error.code) == ("failed", "task_mutation_conflict")
    assert made.text(".cueloop/queue.jsonc") == before


async def test_a_task_that_is_taken_away_at_the_last_moment(folder: Path) -> None:
    made = set_stage(folder)

    def look(key: str, point: str) -> None:
        if (key, point) == ("doing", "intent"):
            made.write(".cueloop/queue.jsonc", queue(task("RQ-0002")))

    state = await made.life(look)
    assert state.ending is not None
    assert state.ending.error is not None
    assert (state.ending.outcome, state.ending.error.code) == ("failed", "task_mutation_conflict")
    assert (made.tasks("queue"), made.session(), made.played) == ({"RQ-0002": "todo"}, None, [])
