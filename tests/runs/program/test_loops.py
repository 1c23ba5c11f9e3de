"""Loops: limits, wishes to stop, waits; and cancels at any moment."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from cueloop_daemon.runs.types import Exited, NotStarted, Order
from runs.fakes import LockHeld, Script
from runs.program import claude
from runs.program.played import STAMP, START, Stage, queue, session, task
from runs.program.playing import LOOP, ONE, set_stage, tell
from runs.program.stories import works

THREE = queue(task("RQ-0001"), task("RQ-0002"), task("RQ-0003"))
BLOCKED = queue(task("RQ-0001", depends_on=["RQ-0002"]), task("RQ-0002", status="draft"))


def waits(**flags: object) -> dict[str, object]:
    return {"mode": "loop", "overrides": flags}


def when(turn: int, act: Callable[[], None]) -> Callable[[Stage], None]:
    """Set a stage so that `act` happens while the run sleeps for the n-th time (from 1)."""

    def prepare(made: Stage) -> None:
        async def sleep() -> None:
            if len(made.slept) == turn:
                act()

        made.while_sleeping = sleep  # type: ignore[method-assign]  # somebody else

    return prepare


class TestLimit:
    """`max_tasks`."""

    @pytest.mark.parametrize(
        ("wanted", "selected", "outcome"),
        [(0, 3, "no_candidates"), (2, 2, "completed"), (3, 3, "completed"), (9, 3, "no_candidates")],
    )
    async def test_so_many_and_no_more(self, wanted: int, selected: int, outcome: str, folder: Path) -> None:
        told = await tell(set_stage(folder, {"mode": "loop", "max_tasks": wanted}, tasks=THREE))
        assert (len(told.selected), told.outcome) == (selected, outcome)

    @pytest.mark.parametrize(("done", "selected", "warned"), [(0, 2, False), (1, 1, False), (2, 1, True), (7, 1, True)])
    async def test_the_count_goes_on_with_a_session(self, done: int, selected: int, warned: bool, folder: Path) -> None:
        """A count that has reached the limit still finishes the interrupted task, says so, and stops."""
        tasks = queue(task("RQ-0001", status="doing"), task("RQ-0002"), task("RQ-0003"))
        made = set_stage(folder, {"mode": "resume"}, tasks=tasks, saved=session(tasks_completed_in_loop=done, max_tasks=2))
        told = await tell(made)
        assert (len(told.selected), told.outcome) == (selected, "completed")
        assert told.has_warned("has reached its 2 task(s) already") is warned

    async def test_the_call_may_say_otherwise(self, folder: Path) -> None:
        tasks = queue(task("RQ-0001", status="doing"), task("RQ-0002"), task("RQ-0003"))
        made = set_stage(
            folder, {"mode": "resume", "max_tasks": 0}, tasks=tasks, saved=session(tasks_completed_in_loop=2, max_tasks=2)
        )
        assert len((await tell(made)).selected) == 3

    async def test_each_task_is_written_with_the_count_before_it(self, folder: Path) -> None:
        seen: list[int] = []

        def play(made: Stage, order: Order) -> Script | NotStarted:
            found = made.session()
            assert found is not None
            seen.append(found["tasks_completed_in_loop"])
            return works(made, order)

        await tell(set_stage(folder, LOOP, play, tasks=THREE))
        assert seen == [0, 1, 2]


class TestStop:
    """The stop marker and `run.stop`."""

    async def test_a_marker_from_before_is_forgotten(self, folder: Path) -> None:
        made = set_stage(folder, LOOP, tasks=THREE)
        made.write(".cueloop/cache/stop_requested", "")
        assert ((await tell(made)).outcome, made.remains()["marker"]) == ("no_candidates", False)

    async def test_run_one_leaves_the_marker_alone(self, folder: Path) -> None:
        made = set_stage(folder, ONE)
        made.write(".cueloop/cache/stop_requested", "")
        assert ((await tell(made)).outcome, made.remains()["marker"]) == ("ran", True)

    async def test_after_the_current_task(self, folder: Path) -> None:
        def play(made: Stage, order: Order) -> Script | NotStarted:
            assert made.journal is not None
            made.journal.ask_stop()
            return works(made, order)

        made = set_stage(folder, LOOP, play, tasks=THREE)
        told = await tell(made)
        assert (told.outcome, told.ending.exit_code, made.tasks("done")) == ("stopped", 0, {"RQ-0001": "done"})

    async def test_the_limit_goes_before_the_marker(self, folder: Path) -> None:
        """It is looked at after the `max_tasks` check, so it stays for nobody."""

        def play(made: Stage, order: Order) -> Script | NotStarted:
            made.write(".cueloop/cache/stop_requested", "")
            return works(made, order)

        made = set_stage(folder, {"mode": "loop", "max_tasks": 1}, play, tasks=THREE)
        assert ((await tell(made)).outcome, made.remains()["marker"]) == ("completed", True)


class TestWaiting:
    """A loop that finds nothing to run now."""

    @pytest.mark.parametrize(
        ("tasks", "flags", "outcome"),
        [
            (queue(), {}, "no_candidates"),
            (queue(), {"wait_when_blocked": True}, "no_candidates"),
            (BLOCKED, {}, "blocked"),
            (BLOCKED, {"wait_when_empty": True}, "blocked"),
        ],
    )
    async def test_not_unless_it_is_told_to(self, tasks: str, flags: dict[str, object], outcome: str, folder: Path) -> None:
        made = set_stage(folder, waits(**flags), tasks=tasks)
        told = await tell(made)
        assert (told.outcome, made.slept) == (outcome, [])
        assert told.kinds == ["run_started", "blocked_state_changed"]

    async def test_run_one_never_waits(self, folder: Path) -> None:
        made = set_stage(folder, {"mode": "one", "overrides": {"wait_when_empty": True}}, tasks=queue())
        assert ((await tell(made)).outcome, made.slept) == ("no_candidates", [])

    async def test_for_work_and_says_when_there_is_some(self, folder: Path) -> None:
        made = set_stage(folder, waits(wait_when_empty=True, wait_timeout_seconds=300), tasks=queue())
        when(3, lambda: made.write(".cueloop/queue.jsonc", queue(task("RQ-0001"))))(made)
        told = await tell(made)
        assert told.selected == ["RQ-0001"]
        assert told.kinds[:4] == ["run_started", "blocked_state_changed", "blocked_state_cleared", "task_selected"]
        assert told.kinds[-1] == "blocked_state_changed"

    async def test_the_lock_is_let_go_meanwhile(self, folder: Path) -> None:
        made = set_stage(folder, waits(wait_when_empty=True, wait_timeout_seconds=60), tasks=queue())
        locks: list[object] = []
        when(1, lambda: locks.append(made.shim.lock))(made)
        await tell(made)
        assert locks == [None]

    @pytest.mark.parametrize(
        ("tasks", "flags", "pause"),
        [
            (queue(), {"wait_when_empty": True}, 30.0),
            (queue(), {"wait_when_empty": True, "empty_poll_ms": 500}, 0.5),
            (queue(), {"wait_when_empty": True, "wait_poll_ms": 500}, 30.0),
            (BLOCKED, {"wait_when_blocked": True}, 1.0),
            (BLOCKED, {"wait_when_blocked": True, "wait_poll_ms": 250}, 0.25),
            (BLOCKED, {"wait_when_blocked": True, "wait_poll_ms": 1}, 0.05),
        ],
    )
    async def test_looking_as_often_as_it_is_told_to(
        self, tasks: str, flags: dict[str, object], pause: float, folder: Path
    ) -> None:
        made = set_stage(folder, waits(**flags, wait_timeout_seconds=90), tasks=tasks)
        await tell(made)
        assert (made.slept[0] - START).total_seconds() == pytest.approx(pause)

    async def test_not_longer_than_it_is_told_to(self, folder: Path) -> None:
        """The reason was said when the wait began; it is not said again."""
        made = set_stage(folder, waits(wait_when_empty=True, wait_timeout_seconds=100), tasks=queue())
        told = await tell(made)
        assert (told.outcome, told.kinds) == ("no_candidates", ["run_started", "blocked_state_changed"])
        assert made.clock == START + dt.timedelta(seconds=100)

    async def test_a_time_that_no_calendar_has_is_for_ever(self, folder: Path) -> None:
        made = set_stage(
            folder, waits(wait_when_empty=True, wait_timeout_seconds=2**32 - 1, empty_poll_ms=2**32 - 1), tasks=queue()
        )
        made.clock = dt.datetime(9990, 1, 1, tzinfo=dt.UTC)
        when(1, lambda: made.write(".cueloop/cache/stop_requested", ""))(made)
        assert (await tell(made)).outcome == "stopped"

    async def test_another_reason_is_said(self, folder: Path) -> None:
        """Nothing to do, then something that waits for something else, which is not waited for."""
        made = set_stage(folder, waits(wait_when_empty=True), tasks=queue())
        when(2, lambda: made.write(".cueloop/queue.jsonc", BLOCKED))(made)
        told = await tell(made)
        reasons = [event["payload"]["reason"]["kind"] for event in told.events if event["kind"] == "blocked_state_changed"]
        assert (told.outcome, reasons) == ("blocked", ["idle", "dependency_blocked"])

    async def test_another_reason_that_is_waited_for_has_the_same_end(self, folder: Path) -> None:
        made = set_stage(folder, waits(wait_when_empty=True, wait_when_blocked=True, wait_timeout_seconds=100), tasks=queue())
        when(2, lambda: made.write(".cueloop/queue.jsonc", BLOCKED))(made)
        assert (await tell(made)).outcome == "blocked"
        assert made.clock == START + dt.timedelta(seconds=100)

    async def test_a_scheduled_task_becomes_due(self, folder: Path) -> None:
        at = (START + dt.timedelta(seconds=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
        made = set_stage(
            folder, waits(wait_when_blocked=True, wait_timeout_seconds=60), tasks=queue(task("RQ-0001", scheduled_start=at))
        )
        assert (await tell(made)).selected == ["RQ-0001"]
        assert made.clock >= START + dt.timedelta(seconds=10)

    async def test_a_queue_that_is_broken_for_a_while_is_waited_for(self, folder: Path) -> None:
        made = set_stage(folder, waits(wait_when_empty=True), tasks=queue())

        async def sleep() -> None:
            texts = {1: "{ torn", 3: queue(task("RQ-0001"))}
            if len(made.slept) in texts:
                made.write(".cueloop/queue.jsonc", texts[len(made.slept)])
            if len(made.slept) == 5:
                made.write(".cueloop/cache/stop_requested", "")

        made.while_sleeping = sleep  # type: ignore[method-assign]  # somebody else
        assert (await tell(made)).selected == ["RQ-0001"]

    async def test_the_decision_is_said_once(self, folder: Path) -> None:
        made = set_stage(folder, {"mode": "resume", "overrides": {"wait_when_empty": True}}, tasks=queue())
        when(2, lambda: made.write(".cueloop/queue.jsonc", queue(task("RQ-0001"))))(made)
        when_done = made.while_sleeping

        async def sleep() -> None:
            await when_done()
            if made.tasks("done"):
                made.write(".cueloop/cache/stop_requested", "")

        made.while_sleeping = sleep  # type: ignore[method-assign]  # somebody else
        assert (await tell(made)).kinds.count("resume_decision") == 1

    async def test_a_person_is_told_when_it_goes_on(self, folder: Path) -> None:
        made = set_stage(folder, waits(wait_when_empty=True, notify_when_unblocked=True, wait_timeout_seconds=90), tasks=queue())
        when(1, lambda: made.write(".cueloop/queue.jsonc", queue(task("RQ-0001"))))(made)
        await tell(made)
        assert made.memory.notified == ["loop: CueLoop goes on", "complete: RQ-0001 is done", "loop: The loop has ended"]

    async def test_a_cancel_ends_it(self, folder: Path) -> None:
        made = set_stage(folder, waits(wait_when_empty=True), tasks=queue())
        when(2, made.cancel)(made)
        assert (await tell(made)).outcome == "stopped"


class TestCancel:
    """Outcome `stopped`, exit 0; the session stays, the task stays `doing`, nothing is reverted."""

    @pytest.mark.parametrize("turn", [1, 2, 3])
    async def test_in_a_phase(self, turn: int, folder: Path) -> None:
        def play(made: Stage, order: Order) -> Script | NotStarted:
            if len(made.played) < turn:
                return works(made, order)
            made.write("work.txt", "half done\n") if turn > 1 else None
            made.cancel()
            return claude.hangs(order)

        made = set_stage(folder, {**ONE, "interactive": True}, play, phases=3, git_revert_mode="enabled")
        told = await tell(made)
        assert (told.outcome, told.ending.exit_code, told.ending.error) == ("stopped", 0, None)
        assert made.tasks("queue") == {"RQ-0001": "doing"}
        assert made.session() is not None
        assert ("git revert" in made.played, made.memory.asked, made.shim.lock) == (False, [], None)
        assert made.shim.ended.keys() == made.shim.orders.keys()
        assert made.text("work.txt") == ("half done\n" if turn > 1 else "as it was\n")

    async def test_before_anything_was_begun(self, folder: Path) -> None:
        made = set_stage(folder)
        made.cancel()
        told = await tell(made)
        assert (told.outcome, told.kinds, made.played) == ("stopped", ["run_started"], [])
        assert made.tasks("queue") == {"RQ-0001": "todo"}

    async def test_between_two_tasks(self, folder: Path) -> None:
        def look(key: str, point: str) -> None:
            if (key, point) == ("accepted", "acted"):
                made.cancel()

        made = set_stage(folder, LOOP, tasks=THREE)
        state = await made.life(look)
        assert state.ending is not None
        assert state.ending.outcome == "stopped"
        assert (made.tasks("done"), made.session(), made.memory.owed) == ({"RQ-0001": "done"}, None, {})
        assert made.tasks("queue") == {"RQ-0002": "todo", "RQ-0003": "todo"}

    async def test_work_that_was_accepted_is_completed(self, folder: Path) -> None:
        """The commit is finished, the push is left to the next run."""

        def look(key: str, point: str) -> None:
            if (key, point) == ("accepted", "acted"):
                made.cancel()

        made = set_stage(folder, ONE, git_publish_mode="commit_and_push")
        state = await made.life(look)
        assert state.ending is not None
        assert state.ending.outcome == "stopped"
        assert (made.tasks("queue"), made.tasks("done"), made.session()) == ({}, {"RQ-0001": "done"}, None)
        assert ([message for message, _ in made.tree.commits], made.tree.pushed) == (["begin", "RQ-0001|r-1"], 0)
        made.is_cancelled = False
        made.reboot(LOOP)
        told = await tell(made)
        assert told.has_warned("The work of task RQ-0001 was accepted by run r-1; its completion is finished now.")
        assert (made.tree.pushed, len(made.tree.commits), made.memory.owed) == (1, 2, {})

    async def test_a_commit_under_way_is_finished(self, folder: Path) -> None:
        """It ends only a while after the cancel, as with a slow hook."""
        made = set_stage(folder, ONE, git_publish_mode="commit")
        real, begun = made.git, anyio.Event()

        def commits_slowly(order: Order) -> Script:
            done = real(order)
            begun.set()
            return Script(done.out, done.err, None)

        async def end_later() -> None:
            await begun.wait()
            made.cancel()
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            assert made.tasks("done") == {"RQ-0001": "done"}
            assert made.session() is not None
            made.shim.ended[max(made.shim.orders)] = Exited(0, None, "self", 0, 0, 0)
            made.shim.tell()

        made.git = commits_slowly  # type: ignore[method-assign]  # a slow hook
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end_later)
            told = await tell(made)
        assert (told.outcome, made.memory.owed, made.session()) == ("ran", {}, None)
        assert len(made.tree.commits) == 2

    async def test_a_question_is_no_longer_asked(self, folder: Path) -> None:
        def look(key: str, point: str) -> None:
            if (key, point) == ("question", "intent"):
                made.cancel()

        made = set_stage(folder, {**ONE, "interactive": True}, lambda made, order: claude.fails(order))
        state = await made.life(look)
        assert state.ending is not None
        assert (state.ending.outcome, made.memory.asked) == ("stopped", [])


async def test_a_lock_that_is_held(folder: Path) -> None:
    for number, params in enumerate((ONE, LOOP)):
        made = set_stage(folder.with_name(str(number)), params)
        made.shim.held = LockHeld(4711, "run loop", STAMP, True)
        told = await tell(made)
        assert (told.outcome, told.ending.exit_code, told.kinds) == ("stalled", 1, ["run_started", "blocked_state_changed"])
        assert told.ending.error is not None
        assert (told.ending.error.code, told.ending.error.retryable) == ("resource_busy", True)
        assert "queue lock" in told.ending.error.message
        assert made.tasks("queue") == {"RQ-0001": "todo"}


async def test_orders_that_are_on_record_are_acknowledged(folder: Path) -> None:
    """So that a shim of a long loop does not remember them for ever; each once, and in order."""
    made = set_stage(folder, LOOP, tasks=THREE)
    await tell(made)
    told = [int(call.split()[1]) for call in made.shim.calls if call.startswith("acknowledge")]
    assert told == sorted(set(told))
    assert len(told) == 4


class TestHalfWritten:
    """A session file caught half-written is read again before the run refuses (design section 5)."""

    async def test_c12_it_is_whole_in_a_moment(self, folder: Path) -> None:
        made = set_stage(
            folder, {"mode": "one", "resume": True}, tasks=queue(task("RQ-0001", status="doing")), saved=session()[:40]
        )
        made.settling = True

        def whole() -> None:
            made.write(".cueloop/cache/session.jsonc", session())
            made.settling = False

        when(1, whole)(made)
        told = await tell(made)
        decisions = [event["payload"]["reason"] for event in told.events if event["kind"] == "resume_decision"]
        assert (told.outcome, decisions) == ("ran", ["session_valid"])

    async def test_c12_it_stays_broken(self, folder: Path) -> None:
        made = set_stage(
            folder, {"mode": "one", "resume": True}, tasks=queue(task("RQ-0001", status="doing")), saved=session()[:40]
        )
        made.settling = True
        when(2, lambda: setattr(made, "settling", False))(made)
        assert ((await tell(made)).outcome, len(made.slept)) == ("stalled", 2)

    async def test_c12_it_is_written_without_end(self, folder: Path) -> None:
        made = set_stage(
            folder, {"mode": "one", "resume": True}, tasks=queue(task("RQ-0001", status="doing")), saved=session()[:40]
        )
        made.settling = True
        assert (await tell(made)).outcome == "stalled"
        assert 5 < len(made.slept) < 60
