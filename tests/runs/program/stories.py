"""Stories of runs, each told the same however often the daemon dies: how the repository is, what is asked, what the agents do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cueloop_daemon.runs.types import LockHeld, NotStarted, Order, OwedRow
from runs.fakes import Script
from runs.program import claude
from runs.program.played import STAMP, Stage, config, ends, queue, session, task

Play = Callable[[Stage, Order], Script | NotStarted]


@dataclass(frozen=True)
class Story:
    """`outcome` is how the run ends; `prepare` does what files alone cannot say."""

    name: str
    outcome: str
    play: Play
    params: Mapping[str, Any] = field(default_factory=lambda: {"mode": "one"})
    config: str = config()
    tasks: tuple[dict[str, object], ...] = (task("RQ-0001"),)
    done: tuple[dict[str, object], ...] = ()
    session: str | None = None
    prepare: Callable[[Stage], None] = lambda stage: None

    def stage(self, folder: Path) -> Stage:
        """A stage on which the story can begin."""
        made = Stage(folder, self.params, self.play)
        made.write(".cueloop/config.jsonc", self.config)
        made.write(".cueloop/trust.jsonc", '{"allow_project_commands": true, "trusted_at": "2026-01-01T00:00:00Z"}')
        made.write(".cueloop/queue.jsonc", queue(*self.tasks))
        made.write("work.txt", "as it was\n")
        if self.done:
            made.write(".cueloop/done.jsonc", queue(*self.done))
        if self.session is not None:
            made.write(".cueloop/cache/session.jsonc", self.session)
        made.tree.commit("begin")
        self.prepare(made)
        return made


def works(stage: Stage, order: Order) -> Script:
    """An agent that writes its plan where a plan is wanted, and changes a file everywhere else. A gate that passes."""
    if order.kind == "ci":
        return ends(0)
    conversation, _ = claude.id_of(order)
    if "Write the plan to the file" in stage.said(order):
        stage.planning.add(conversation)
    if conversation in stage.planning:
        _plan(stage, order)
    else:
        stage.write("work.txt", f"{stage.text('work.txt')}by {len(stage.played)}\n")
    return claude.succeeds(order)


def _plan(stage: Stage, order: Order) -> None:
    stage.write(f".cueloop/cache/plans/{order.env['CUELOOP_TASK_ID']}.md", "First this, then that.\n")


def _gate(*codes: int) -> Play:
    """A gate that ends with these codes, one after the other."""

    def play(stage: Stage, order: Order) -> Script | NotStarted:
        if order.kind != "ci":
            return works(stage, order)
        turn = sum(1 for name in stage.played if name.startswith("ci")) - 1
        return ends(codes[turn], out=f"failure {turn}\n".encode())

    return play


def _first(*scripts: Callable[[Order], Script]) -> Play:
    """The first agents end like this, the others work."""

    def play(stage: Stage, order: Order) -> Script | NotStarted:
        turn = sum(1 for name in stage.played if name.startswith("agent")) - 1
        return scripts[turn](order) if order.kind == "agent" and turn < len(scripts) else works(stage, order)

    return play


def _gone_after_gate(stage: Stage, order: Order) -> Script | NotStarted:
    """The gate fails once, and by then the agent's session is gone."""
    if order.kind == "agent" and claude.id_of(order)[1]:
        return claude.is_gone(order)
    return _gate(1, 0)(stage, order)


def _plans_too_much(stage: Stage, order: Order) -> Script | NotStarted:
    """The plan phase changes a file, and mends that when it is told."""
    text = stage.said(order)
    if "only the plan file" in text:
        stage.tree.put(stage.tree.commits[-1][1])
        return claude.succeeds(order)
    if "Write the plan to the file" in text:
        stage.write("work.txt", "changed too early\n")
    return works(stage, order)


def _cancelled_in(turn: int) -> Play:
    """The n-th agent (from 1) does not end, and the run is cancelled."""

    def play(stage: Stage, order: Order) -> Script | NotStarted:
        if sum(1 for name in stage.played if name.startswith("agent")) == turn:
            stage.cancel()
            return claude.hangs(order)
        return works(stage, order)

    return play


def _marks_stop(stage: Stage, order: Order) -> Script | NotStarted:
    """Somebody asks the loop to stop while its first task is under way."""
    stage.write(".cueloop/cache/stop_requested", "")
    return works(stage, order)


def _owes(stage: Stage) -> None:
    """An earlier run had accepted RQ-0001, and its machine lost power before anything followed."""
    row = OwedRow("RQ-0001", "Task RQ-0001", "r-0", STAMP, "doing", None, None, "commit")
    stage.memory.owed["RQ-0001"] = row


def _owes_session(stage: Stage) -> None:
    import hashlib

    etag = hashlib.sha256(stage.text(".cueloop/cache/session.jsonc").encode()).hexdigest()
    stage.memory.etags = (etag,)
    stage.memory.owed["RQ-0001"] = OwedRow("RQ-0001", "Task RQ-0001", "r-0", STAMP, "doing", etag, None, "off")


def _answers(*answers: tuple[str, str | None]) -> Callable[[Stage], None]:
    def prepare(stage: Stage) -> None:
        stage.memory.answers.extend(answers)

    return prepare


def _comes_later(stage: Stage) -> None:
    """The third look while waiting finds a task."""

    async def add() -> None:
        if len(stage.slept) == 3:
            stage.write(".cueloop/queue.jsonc", queue(task("RQ-0001")))

    stage.while_sleeping = add  # type: ignore[method-assign]  # a story's own


def _stop_comes_later(stage: Stage) -> None:
    async def ask() -> None:
        if len(stage.slept) == 2:
            stage.write(".cueloop/cache/stop_requested", "")

    stage.while_sleeping = ask  # type: ignore[method-assign]  # a story's own


def _leaves_done(stage: Stage, order: Order) -> Script | NotStarted:
    """The agent makes its task done itself."""
    stage.write(".cueloop/queue.jsonc", queue(task("RQ-0001", status="done", completed_at=STAMP), task("RQ-0002")))
    return claude.succeeds(order)


def _is_locked_meanwhile(stage: Stage, order: Order) -> Script | NotStarted:
    """Another tool is waiting for the queue lock, and has it as soon as the first task is done."""
    stage.shim.held = LockHeld(4711, "run loop", STAMP, True)
    return works(stage, order)


THREE = (task("RQ-0001"), task("RQ-0002"), task("RQ-0003"))
LOOP: Mapping[str, Any] = {"mode": "loop"}
ASKING: Mapping[str, Any] = {"mode": "one", "interactive": True}
PLAN = ".cueloop/cache/plans/RQ-0001.md"

STORIES = (
    Story("one-phase", "ran", works),
    Story("two-phases", "ran", works, config=config(phases=2)),
    Story("three-phases-two-iterations", "ran", works, config=config(phases=3, iterations=2)),
    Story("gate-passes", "ran", works, config=config(ci_gate={"enabled": True, "argv": ["make", "ci"]})),
    Story("gate-fails-once", "ran", _gate(1, 0), config=config(phases=2, ci_gate={"enabled": True, "argv": ["make", "ci"]})),
    Story("gate-fails-always", "stalled", _gate(*range(1, 11)), config=config(ci_gate={"enabled": True, "argv": ["make", "ci"]})),
    Story("session-gone", "ran", _gone_after_gate, config=config(ci_gate={"enabled": True, "argv": ["make", "ci"]})),
    Story("retried", "ran", _first(claude.is_busy, claude.is_busy)),
    Story("interrupted", "ran", _first(claude.is_killed, claude.goes_idle)),
    Story("interrupted-for-good", "failed", _first(claude.goes_idle, claude.goes_idle), config=config(git_revert_mode="enabled")),
    Story("fails-hard", "failed", _first(claude.fails), config=config(git_revert_mode="enabled")),
    Story("plan-changes-files", "ran", _plans_too_much, config=config(phases=2)),
    Story("keeps", "failed", _first(claude.fails), ASKING, prepare=_answers(("keep", None))),
    Story("reverts", "failed", _first(claude.fails), ASKING, prepare=_answers(("revert", None))),
    Story("is-told-to-go-on", "ran", _first(claude.fails), ASKING, prepare=_answers(("continue", "Try the other way."))),
    Story("commits", "ran", works, config=config(git_publish_mode="commit")),
    Story("pushes", "ran", works, config=config(git_publish_mode="commit_and_push")),
    Story(
        "resumes",
        "ran",
        works,
        {"mode": "one", "resume": True},
        config(phases=3),
        (task("RQ-0001", status="doing"),),
        session=session(),
        prepare=lambda stage: stage.write(PLAN, "A plan.\n"),
    ),
    Story(
        "resumes-what-was-complete",
        "ran",
        works,
        {"mode": "one", "resume": True},
        config(ci_gate={"enabled": True, "argv": ["make", "ci"]}),
        (task("RQ-0001", status="doing"),),
        session=session(iterations_completed=1),
    ),
    Story(
        "declines-and-begins-anew",
        "ran",
        works,
        {"mode": "one", "fresh": True},
        tasks=(task("RQ-0001", status="doing"),),
        session=session(),
        prepare=lambda stage: stage.write("work.txt", "half done\n"),
    ),
    Story("leaves-a-corrupt-session-behind", "ran", works, {"mode": "one", "fresh": True}, session="{ torn"),
    Story("is-refused", "stalled", works, tasks=(task("RQ-0001", status="doing"),), session=session()),
    Story(
        "other-task-overrides",
        "ran",
        works,
        {"mode": "one", "task_id": "RQ-0002"},
        tasks=(task("RQ-0001", status="doing"), task("RQ-0002")),
        session=session(),
    ),
    Story("loop-of-three", "no_candidates", works, LOOP, tasks=THREE),
    Story("loop-with-a-limit", "completed", works, {"mode": "loop", "max_tasks": 2}, tasks=THREE),
    Story("loop-that-publishes", "no_candidates", works, LOOP, config(git_publish_mode="commit"), THREE),
    Story(
        "loop-that-resumes",
        "no_candidates",
        works,
        {"mode": "resume"},
        config(),
        (task("RQ-0001", status="doing"), task("RQ-0002")),
        session=session(tasks_completed_in_loop=3),
    ),
    Story("loop-is-stopped", "stopped", _marks_stop, LOOP, tasks=THREE),
    Story(
        "loop-waits",
        "no_candidates",
        works,
        {"mode": "loop", "overrides": {"wait_when_empty": True, "wait_timeout_seconds": 300}},
        tasks=(),
        prepare=_comes_later,
    ),
    Story(
        "loop-waits-and-is-stopped",
        "stopped",
        works,
        {"mode": "loop", "overrides": {"wait_when_empty": True}},
        tasks=(),
        prepare=_stop_comes_later,
    ),
    Story("agent-makes-it-done", "ran", _leaves_done, tasks=(task("RQ-0001"), task("RQ-0002"))),
    Story("loop-finds-the-lock-held", "stalled", _is_locked_meanwhile, LOOP, tasks=THREE),
    Story("owed", "ran", works, tasks=(task("RQ-0001", status="doing"), task("RQ-0002")), prepare=_owes),
    Story(
        "owed-with-its-session",
        "ran",
        works,
        {"mode": "one", "resume": True},
        tasks=(task("RQ-0001", status="doing"), task("RQ-0002")),
        session=session(),
        prepare=_owes_session,
    ),
    Story(
        "completed-twice",
        "ran",
        works,
        tasks=(task("RQ-0001", status="doing"), task("RQ-0002")),
        done=(task("RQ-0001", status="done", completed_at=STAMP),),
    ),
    Story("cancelled-in-the-plan", "stopped", _cancelled_in(1), config=config(phases=3)),
    Story("cancelled-in-the-implementation", "stopped", _cancelled_in(2), config=config(phases=3)),
    Story("cancelled-in-the-review", "stopped", _cancelled_in(3), config=config(phases=3, git_revert_mode="enabled")),
)
