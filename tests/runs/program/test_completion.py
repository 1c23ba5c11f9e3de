"""What follows when work is accepted, or cannot go on: done file and queue, publishing, reverting, the session; and what is owed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.runs.types import NotStarted, Order, OwedRow
from runs.fakes import Script
from runs.program import claude
from runs.program.played import STAMP, Stage, ends, queue, session, task
from runs.program.playing import GATE, LOOP, ONE, Play, set_stage, tell
from runs.program.stories import works

DOING = queue(task("RQ-0001", status="doing"))
FOREIGN = '{"version": 1, "by": "somebody else"}'


def meanwhile(act: Any) -> Play:
    """Something happens while the agent works."""

    def play(made: Stage, order: Order) -> Script | NotStarted:
        if order.kind == "agent":
            act(made)
        return works(made, order)

    return play


def fails_after_work(made: Stage, order: Order) -> Script | NotStarted:
    """An agent that changes files and then fails."""
    made.write("work.txt", "half done\n")
    made.write("new.txt", "new\n")
    return claude.fails(order)


async def test_a_task_of_one_phase_costs_four_commits(folder: Path) -> None:
    """Each is a wait for the disk: `doing`, the agent, the acceptance, the end (docs/architecture.md, "Runs")."""
    made = set_stage(folder)
    assert ((await tell(made)).outcome, made.store.commits) == ("ran", 4)


class TestTheTask:
    """Contract section 9, row 14: the agent that made it something is believed."""

    @pytest.mark.parametrize(
        ("status", "in_queue", "in_done"),
        [("doing", {}, {"RQ-0001": "done"}), ("done", {}, {"RQ-0001": "done"}), ("rejected", {}, {"RQ-0001": "rejected"})],
    )
    async def test_what_the_agent_made_of_it(self, status: str, in_queue: object, in_done: object, folder: Path) -> None:
        settled = {} if status == "doing" else {"completed_at": STAMP}
        act = lambda made: made.write(".cueloop/queue.jsonc", queue(task("RQ-0001", status=status, **settled)))  # noqa: E731
        made = set_stage(folder, how=meanwhile(act))
        told = await tell(made)
        assert (told.outcome, made.tasks("queue"), made.tasks("done")) == ("ran", in_queue, in_done)
        assert [event["kind"] for event in told.events].count("queue_snapshot") == 2

    async def test_archived_by_the_agent(self, folder: Path) -> None:
        def act(made: Stage) -> None:
            made.write(".cueloop/queue.jsonc", queue())
            made.write(".cueloop/done.jsonc", queue(task("RQ-0001", status="done", completed_at=STAMP)))

        made = set_stage(folder, how=meanwhile(act))
        told = await tell(made)
        assert (told.outcome, told.warnings, made.tasks("done")) == ("ran", [], {"RQ-0001": "done"})

    @pytest.mark.parametrize("status", ["todo", "draft"])
    async def test_set_back_by_a_person(self, status: str, folder: Path) -> None:
        act = lambda made: made.write(".cueloop/queue.jsonc", queue(task("RQ-0001", status=status)))  # noqa: E731
        made = set_stage(folder, how=meanwhile(act))
        told = await tell(made)
        assert (told.outcome, made.tasks("queue"), made.tasks("done")) == ("ran", {"RQ-0001": status}, {})
        assert told.has_warned(f"Task RQ-0001 was made {status} during the run, and is left so.")

    async def test_removed_by_a_person(self, folder: Path) -> None:
        made = set_stage(folder, how=meanwhile(lambda made: made.write(".cueloop/queue.jsonc", queue())))
        told = await tell(made)
        assert (told.outcome, made.tasks("queue"), made.tasks("done")) == ("ran", {}, {})
        assert told.has_warned("is in neither file any more")

    async def test_a_task_that_a_person_adds_is_not_lost(self, folder: Path) -> None:
        act = lambda made: made.write(".cueloop/queue.jsonc", queue(task("RQ-0001", status="doing"), task("RQ-0002")))  # noqa: E731
        made = set_stage(folder, how=meanwhile(act))
        await tell(made)
        assert (made.tasks("queue"), made.tasks("done")) == ({"RQ-0002": "todo"}, {"RQ-0001": "done"})

    async def test_comments_and_unknown_values_survive_as_values(self, folder: Path) -> None:
        made = set_stage(
            folder, tasks="// mine\n" + queue(task("RQ-0001", custom_fields={"points": 3}), task("RQ-0002", notes=["ü"]))
        )
        await tell(made)
        assert '"points": 3' in made.text(".cueloop/done.jsonc")
        assert '"ü"' in made.text(".cueloop/queue.jsonc")


class TestTheSession:
    """Ours stands during a run; what others wrote is kept and told."""

    async def test_somebody_elses_is_kept(self, folder: Path) -> None:
        made = set_stage(folder, how=meanwhile(lambda made: made.write(".cueloop/cache/session.jsonc", FOREIGN)), phases=2)
        told = await tell(made)
        assert told.outcome == "ran"
        assert told.has_warned("Somebody else wrote the session file; theirs is kept as")
        kept = [path.read_text() for path in (folder / ".cueloop/cache/cueloopd/history").glob("*.jsonc")]
        assert FOREIGN in kept

    async def test_one_that_vanished_is_written_again(self, folder: Path) -> None:
        made = set_stage(folder, how=meanwhile(lambda made: (folder / ".cueloop/cache/session.jsonc").unlink()), phases=2)
        told = await tell(made)
        assert (told.outcome, made.session()) == ("ran", None)
        assert told.has_warned("Somebody removed the session file during the run; it was written again.")

    async def test_somebody_elses_is_not_cleared(self, folder: Path) -> None:
        def look(key: str, point: str) -> None:
            if (key, point) == ("accepted", "acted"):
                made.write(".cueloop/cache/session.jsonc", FOREIGN)

        made = set_stage(folder)
        await made.life(look)
        assert made.text(".cueloop/cache/session.jsonc") == FOREIGN
        warnings = [event["message"] for event in made.events() if event["kind"] == "warning"]
        assert warnings == ["The session file is somebody else's by now and stays as it is."]

    async def test_one_that_vanished_before_the_lock_is_no_session(self, folder: Path) -> None:
        """The decision is taken again under the lock."""
        made = set_stage(folder, {"mode": "one", "resume": True}, tasks=DOING, saved=session())

        def look(key: str, point: str) -> None:
            if (key, point) == ("lock", "acted"):
                (folder / ".cueloop/cache/session.jsonc").unlink()

        await made.life(look)
        reasons = [event["payload"]["reason"] for event in made.events() if event["kind"] == "resume_decision"]
        assert reasons == ["no_session"]
        assert made.tasks("done") == {"RQ-0001": "done"}

    @pytest.mark.parametrize(
        ("tasks", "reason"),
        [
            (queue(task("RQ-0002")), "resume_target_missing"),
            (queue(task("RQ-0001", status="done", completed_at=STAMP), task("RQ-0002")), "resume_target_terminal"),
        ],
    )
    async def test_its_task_is_gone_when_looked_at_under_the_lock(self, tasks: str, reason: str, folder: Path) -> None:
        made = set_stage(folder, {"mode": "one", "resume": True}, tasks=DOING, saved=session())

        def look(key: str, point: str) -> None:
            if (key, point) == ("lock", "acted"):
                made.write(".cueloop/queue.jsonc", tasks)

        await made.life(look)
        reasons = [event["payload"]["reason"] for event in made.events() if event["kind"] == "resume_decision"]
        assert (reasons, made.tasks("done").keys() >= {"RQ-0002"}) == ([reason], True)


class TestPublish:
    """`git_publish_mode`; never with a dirty tree that we did not make."""

    async def test_off(self, folder: Path) -> None:
        made = set_stage(folder)
        await tell(made)
        assert (len(made.tree.commits), made.tree.pushed) == (1, 0)

    async def test_the_call_may_say_otherwise(self, folder: Path) -> None:
        made = set_stage(folder, {"mode": "one", "overrides": {"git_publish_mode": "off"}}, git_publish_mode="commit")
        await tell(made)
        assert len(made.tree.commits) == 1

    async def test_not_with_changes_of_a_persons(self, folder: Path) -> None:
        for revert in ("ask", "disabled"):
            made = set_stage(
                folder.with_name(revert), {"mode": "one", "force": True}, git_publish_mode="commit", git_revert_mode=revert
            )
            made.write("work.txt", "a person's\n")
            told = await tell(made)
            assert (told.outcome, len(made.tree.commits)) == ("ran", 1)
            assert told.has_warned("The tree had changes before the run, so nothing is committed.")

    async def test_what_an_interrupted_run_left_is_our_own(self, folder: Path) -> None:
        """A resumed task's tree is measured against what the task found, not against what it left."""

        def play(made: Stage, order: Order) -> Script | NotStarted:
            made.write("work.txt", "half done\n")
            return ends(1) if len(made.played) == 1 else works(made, order)

        made = set_stage(folder, ONE, play, git_publish_mode="commit")
        assert (await tell(made)).outcome == "failed"
        made.reboot({"mode": "one", "resume": True})
        told = await tell(made)
        assert (told.outcome, [message for message, _ in made.tree.commits]) == ("ran", ["begin", "RQ-0001|r-r-1"])

    async def test_what_fails_is_tried_again_by_the_next_run(self, folder: Path) -> None:
        made = set_stage(folder, git_publish_mode="commit_and_push")
        real = made.git
        made.git = lambda order: ends(1, err=b"fatal: index.lock exists\n")  # type: ignore[method-assign]  # a git that fails
        told = await tell(made)
        assert told.outcome == "ran"
        assert told.has_warned(
            "Committing the work of task RQ-0001 failed, and is tried again by the next run: fatal: index.lock exists"
        )
        assert (made.tasks("done"), made.session(), list(made.memory.owed)) == ({"RQ-0001": "done"}, None, ["RQ-0001"])
        made.git = lambda order: ends(128, err=b"fatal: no remote\n") if order.argv[0] == "push" else real(order)  # type: ignore[method-assign]  # only the push
        made.reboot(LOOP)
        told = await tell(made)
        assert told.has_warned("Pushing the work of task RQ-0001 failed, and is tried again by the next run: fatal: no remote")
        assert (len(made.tree.commits), list(made.memory.owed)) == (2, ["RQ-0001"])
        made.git = real  # type: ignore[method-assign]  # as it was
        made.reboot(LOOP)
        await tell(made)
        assert (len(made.tree.commits), made.tree.pushed, made.memory.owed) == (2, 1, {})

    async def test_not_when_the_tree_is_another_by_then(self, folder: Path) -> None:
        for number, act in enumerate(
            (lambda made: made.write("work.txt", "other work\n"), lambda made: made.tree.commit("by a person"))
        ):
            made = set_stage(folder.with_name(str(number)), git_publish_mode="commit")
            made.git = lambda order: ends(1)  # type: ignore[method-assign]  # a git that fails
            await tell(made)
            act(made)
            before = len(made.tree.commits)
            made.reboot(LOOP)
            told = await tell(made)
            assert told.has_warned("is not committed: branch or tree are not as it left them")
            assert (len(made.tree.commits), made.memory.owed) == (before, {})


class TestRevert:
    """`git_revert_mode`."""

    @pytest.mark.parametrize("how", [fails_after_work], ids=["the agent fails"])
    @pytest.mark.parametrize(
        ("mode", "interactive", "answer", "after", "asked"),
        [
            ("enabled", True, None, "as it was\n", 0),
            ("enabled", False, None, "as it was\n", 0),
            ("disabled", True, None, "half done\n", 0),
            ("ask", False, None, "half done\n", 0),
            ("ask", True, ("keep", None), "half done\n", 1),
            ("ask", True, ("revert", None), "as it was\n", 1),
        ],
    )
    async def test_what_becomes_of_the_changes(
        self, how: Play, mode: str, interactive: bool, answer: tuple[str, None] | None, after: str, asked: int, folder: Path
    ) -> None:
        made = set_stage(folder, {**ONE, "interactive": interactive}, how, git_revert_mode=mode)
        made.memory.answers = [] if answer is None else [answer]
        told = await tell(made)
        assert (told.outcome, made.text("work.txt"), len(made.memory.asked)) == ("failed", after, asked)
        assert ((folder / "new.txt").exists(), made.tasks("queue")) == (after != "as it was\n", {"RQ-0001": "doing"})
        assert made.session() is not None
        assert told.has_warned("What was undone is kept as refs/cueloop/reverted/1 (abc).") is (after == "as it was\n")

    async def test_the_question(self, folder: Path) -> None:
        made = set_stage(folder, {**ONE, "interactive": True}, fails_after_work)
        await tell(made)
        (question,) = made.memory.asked
        assert [one.choice for one in question.choices] == ["keep", "revert", "continue"]
        assert (question.default, question.run_id, question.task_id) == ("keep", "r-1", "RQ-0001")
        assert question.detail is not None
        assert "it went wrong" in question.detail
        assert (question.asked_at[:19], question.expires_at[:19]) == ("2026-11-30T12:00:00", "2026-11-30T13:00:00")

    @pytest.mark.parametrize(
        ("text", "said"),
        [("Try the other way.", "Try the other way."), (" ", "Go on with the task."), (None, "Go on with the task.")],
    )
    async def test_a_person_may_have_it_go_on(self, text: str | None, said: str, folder: Path) -> None:
        """In the gate's place: the same conversation gets the message, and the gate runs again."""

        def play(made: Stage, order: Order) -> Script | NotStarted:
            if order.kind != "ci":
                return works(made, order)
            return ends(0 if any(said in made.said(one) for one in made.shim.orders.values()) else 1)

        made = set_stage(folder, {**ONE, "interactive": True}, play, **GATE)
        made.memory.answers = [("continue", text)]
        told = await tell(made)
        assert (told.outcome, told.phases) == ("ran", ["implement", "implement"])
        last = [order for order in made.shim.orders.values() if order.kind == "agent"][-1]
        assert (made.said(last).strip(), claude.id_of(last)[1]) == (said, True)

    async def test_after_a_gate_that_failed_to_the_end(self, folder: Path) -> None:
        def play(made: Stage, order: Order) -> Script | NotStarted:
            return ends(1) if order.kind == "ci" else works(made, order)

        made = set_stage(folder, how=play, git_revert_mode="enabled", **GATE)
        assert ((await tell(made)).outcome, made.text("work.txt")) == ("stalled", "as it was\n")

    async def test_a_task_that_goes_on_returns_to_what_it_found_at_first(self, folder: Path) -> None:
        made = set_stage(folder, how=fails_after_work)
        await tell(made)
        made.reboot({"mode": "one", "resume": True, "overrides": {"git_revert_mode": "enabled"}})
        await tell(made)
        assert made.text("work.txt") == "as it was\n"

    async def test_within_a_loop_to_what_the_last_task_left(self, folder: Path) -> None:
        def play(made: Stage, order: Order) -> Script | NotStarted:
            return fails_after_work(made, order) if made.tasks("done") else works(made, order)

        made = set_stage(folder, LOOP, play, tasks=queue(task("RQ-0001"), task("RQ-0002")), git_revert_mode="enabled")
        assert (await tell(made)).outcome == "failed"
        assert made.text("work.txt") == "as it was\nby 1\n"

    async def test_one_that_fails_keeps_everything_and_says_so(self, folder: Path) -> None:
        made = set_stage(folder, how=fails_after_work, git_revert_mode="enabled")
        made.git = lambda order: ends(1, err=b"fatal: bad object\n")  # type: ignore[method-assign]  # a git that fails
        told = await tell(made)
        assert told.has_warned("Reverting failed, the changes are kept: fatal: bad object")

    async def test_what_could_not_be_put_back_is_named(self, folder: Path) -> None:
        made = set_stage(folder, how=fails_after_work, git_revert_mode="enabled")
        made.git = lambda order: ends(0, b"a.txt stays as it is\nrefs/cueloop/reverted/1 (abc)\n")  # type: ignore[method-assign]  # as it prints
        told = await tell(made)
        assert told.has_warned("Not reverted: a.txt stays as it is.")

    async def test_without_git_there_is_nothing_to_return_to(self, folder: Path) -> None:
        made = set_stage(
            folder, {**ONE, "overrides": {"git_revert_mode": "enabled"}}, fails_after_work, git_revert_mode="enabled"
        )
        made.keeps_nothing = True
        told = await tell(made)
        assert told.has_warned("The changes are kept: there is no tree to return to.")

    async def test_a_person_is_told(self, folder: Path) -> None:
        made = set_stage(folder, how=fails_after_work)
        await tell(made)
        assert made.memory.notified == ["fail: RQ-0001 failed"]


class TestOwed:
    """The next start of any run settles first what was accepted, each part only while things are still as they were left."""

    def owing(self, folder: Path, tasks: str, *, done: str | None = None, saved: str | None = None, **more: Any) -> Stage:
        made = set_stage(folder, LOOP, tasks=tasks, saved=saved)
        if done is not None:
            made.write(".cueloop/done.jsonc", done)
        etag = hashlib.sha256(saved.encode()).hexdigest() if saved else None
        row = {"left": "doing", "session_etag": etag, "head": None, "publish": "off", **more}
        made.memory.owed["RQ-0001"] = OwedRow("RQ-0001", "Task RQ-0001", "r-0", STAMP, **row)
        return made

    async def test_everything(self, folder: Path) -> None:
        made = self.owing(folder, DOING, saved=session())
        told = await tell(made)
        assert told.outcome == "no_candidates"
        assert (made.tasks("queue"), made.tasks("done"), made.session(), made.memory.owed) == ({}, {"RQ-0001": "done"}, None, {})
        assert told.warnings == ["The work of task RQ-0001 was accepted by run r-0; its completion is finished now."]
        assert told.kinds == ["run_started", "blocked_state_changed"]

    async def test_half_of_it(self, folder: Path) -> None:
        made = self.owing(folder, DOING, done=queue(task("RQ-0001", status="done", completed_at=STAMP)))
        await tell(made)
        assert (made.tasks("queue"), made.tasks("done")) == ({}, {"RQ-0001": "done"})

    @pytest.mark.parametrize("done", [None, queue(task("RQ-0001", status="done", completed_at=STAMP))])
    async def test_a_task_that_a_person_opened_again_is_not_taken_away(self, done: str | None, folder: Path) -> None:
        made = self.owing(folder, queue(task("RQ-0001", status="draft")), done=done)
        told = await tell(made)
        assert told.has_warned("Task RQ-0001 is draft by now, so it was left as it is.")
        assert (made.tasks("queue"), made.memory.owed) == ({"RQ-0001": "draft"}, {})

    async def test_a_task_that_is_gone(self, folder: Path) -> None:
        made = self.owing(folder, queue())
        assert (await tell(made)).has_warned("Task RQ-0001 is gone by now, so it was left as it is.")

    @pytest.mark.parametrize("etag", ["f" * 64, None])
    async def test_another_session_stays(self, etag: str | None, folder: Path) -> None:
        """It may belong to work that is still to be done."""
        tasks = queue(task("RQ-0001", status="doing"), task("RQ-0002", status="doing"))
        made = self.owing(folder, tasks, saved=session("RQ-0002"), session_etag=etag)
        told = await tell(made)
        assert made.text(".cueloop/cache/session.jsonc") == session("RQ-0002")
        assert told.has_warned("somebody else's by now") is (etag is not None)
        reasons = [event["payload"]["reason"] for event in told.events if event["kind"] == "resume_decision"]
        assert (told.outcome, reasons) == ("stalled", ["resume_confirmation_required"])

    async def test_a_queue_that_cannot_be_read_leaves_it_owed(self, folder: Path) -> None:
        made = self.owing(folder, DOING)

        def look(key: str, point: str) -> None:
            if (key, point) == ("lock", "acted"):
                made.write(".cueloop/queue.jsonc", "{ torn")

        state = await made.life(look)
        assert state.ending is not None
        assert state.ending.error is not None
        assert (state.ending.error.code, list(made.memory.owed)) == ("queue_corrupted", ["RQ-0001"])

    async def test_a_completion_that_another_tool_broke_off_is_repaired(self, folder: Path) -> None:
        made = set_stage(folder, tasks=queue(task("RQ-0001", status="doing"), task("RQ-0002")))
        made.write(".cueloop/done.jsonc", queue(task("RQ-0001", status="done", completed_at=STAMP)))
        told = await tell(made)
        assert told.has_warned("Task RQ-0001 was done already and is taken out of the queue.")
        assert (told.selected, made.tasks("done")) == (["RQ-0002"], {"RQ-0001": "done", "RQ-0002": "done"})

    async def test_but_never_a_task_that_was_opened_again(self, folder: Path) -> None:
        made = set_stage(folder, tasks=queue(task("RQ-0001", status="todo"), task("RQ-0002")))
        made.write(".cueloop/done.jsonc", queue(task("RQ-0001", status="done", completed_at=STAMP)))
        told = await tell(made)
        assert told.ending.error is not None
        assert (told.outcome, told.ending.error.code) == ("failed", "queue_corrupted")
        assert made.tasks("queue") == {"RQ-0001": "todo", "RQ-0002": "todo"}
