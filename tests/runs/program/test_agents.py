"""What becomes of agents: retries, limits, interruptions, and those that cannot work at all."""

from __future__ import annotations

import datetime as dt
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from cueloop_daemon.core.runs.repeat import LIMIT_HOLD, MOST_SIGNALS
from cueloop_daemon.runs.types import Exited, NotStarted, Order
from runs.fakes import Script
from runs.program import claude
from runs.program.played import START, Stage, ends, queue, task
from runs.program.playing import GATE, LOOP, ONE, Play, set_stage, tell
from runs.program.stories import works

End = Callable[[Order], Script]


def first(*ends_: End) -> Play:
    """The first agents end like this, the others work."""

    def play(made: Stage, order: Order) -> Script | NotStarted:
        turn = sum(1 for name in made.played if name.startswith("agent")) - 1
        return ends_[turn](order) if order.kind == "agent" and turn < len(ends_) else works(made, order)

    return play


def agents(made: Stage) -> list[Order]:
    """The agents that were started, in order."""
    return [order for order in made.shim.orders.values() if order.kind == "agent"]


def limited(order: Order, resets_at: dt.datetime | None = None) -> Script:
    """A usage limit, with the moment of its end where it is known."""
    limit = {"status": "rejected", **({} if resets_at is None else {"resetsAt": int(resets_at.timestamp())})}
    failed = claude.fails(order, "Claude usage limit reached", api_error_status=429)
    return Script(claude.lines({"type": "rate_limit_event", "rate_limit_info": limit}) + failed.out, b"", failed.end)


class TestRetries:
    """runners.md, "Retries of a failed invocation"."""

    async def test_three_attempts_with_growing_pauses(self, folder: Path) -> None:
        made = set_stage(folder, how=first(*[claude.is_busy] * 3))
        told = await tell(made)
        assert (told.outcome, len(agents(made))) == ("failed", 3)
        first_pause, second = (made.slept[0] - START).total_seconds(), (made.slept[1] - made.slept[0]).total_seconds()
        assert 0.8 <= first_pause <= 1.2
        assert 1.6 <= second <= 2.4

    async def test_in_a_fresh_conversation_with_another_id(self, folder: Path) -> None:
        made = set_stage(folder, how=first(claude.is_busy))
        assert (await tell(made)).outcome == "ran"
        one, two = agents(made)
        assert claude.id_of(one)[0] != claude.id_of(two)[0]
        assert not claude.id_of(two)[1]
        assert made.said(one) == made.said(two)

    async def test_no_iteration_is_burnt(self, folder: Path) -> None:
        made = set_stage(folder, how=first(claude.is_busy, claude.is_busy), iterations=2)
        assert (await tell(made)).outcome == "ran"
        assert len(agents(made)) == 4

    async def test_as_configured(self, folder: Path) -> None:
        retry = {"max_attempts": 5, "base_backoff_ms": 10, "multiplier": 1.0, "max_backoff_ms": 20, "jitter_ratio": 0.0}
        made = set_stage(folder, how=first(*[claude.is_busy] * 4), runner_retry=retry)
        assert (await tell(made)).outcome == "ran"
        assert [(at - START).total_seconds() for at in made.slept] == pytest.approx([0.01, 0.02, 0.03, 0.04])

    async def test_other_failures_are_not_tried_again(self, folder: Path) -> None:
        made = set_stage(folder, how=first(claude.fails))
        told = await tell(made)
        assert (told.outcome, len(agents(made)), made.slept) == ("failed", 1, [])
        assert told.ending.error is not None
        assert "it went wrong" in told.ending.error.message

    async def test_a14_a_usage_limit_is_held(self, folder: Path) -> None:
        made = set_stage(folder, how=first(limited))
        assert (await tell(made)).outcome == "ran"
        assert (made.slept[0] - START).total_seconds() >= LIMIT_HOLD * 0.8

    async def test_a14_until_it_ends_where_that_is_known(self, folder: Path) -> None:
        until = START + dt.timedelta(hours=3)
        made = set_stage(folder, how=first(lambda order: limited(order, until)))
        assert (await tell(made)).outcome == "ran"
        assert made.slept == [until]

    async def test_a14_an_end_in_the_past_makes_no_tight_loop(self, folder: Path) -> None:
        made = set_stage(folder, how=first(lambda order: limited(order, START - dt.timedelta(hours=3))))
        assert (await tell(made)).outcome == "ran"
        assert (made.slept[0] - START).total_seconds() >= LIMIT_HOLD * 0.8

    async def test_a14_a_limit_that_is_only_worded_ends_the_run_and_takes_nothing_back(self, folder: Path) -> None:
        def play(made: Stage, order: Order) -> Script | NotStarted:
            if order.kind == "agent":
                made.write("work.txt", "half done\n")
                return claude.fails(order, "limit ... resets 10:20pm (America/Edmonton)")
            return works(made, order)

        made = set_stage(folder, how=play, git_revert_mode="enabled")
        assert (await tell(made)).outcome == "failed"
        assert (len(agents(made)), made.text("work.txt")) == (1, "half done\n")

    async def test_the_wait_is_shown(self, folder: Path) -> None:
        made = set_stage(folder, how=first(claude.is_busy))
        await tell(made)
        assert (None if made.world is None else [state for _, _, state in made.world.shown]) == [
            "running",
            "running",
            "waiting",
            "running",
        ]


class TestInterruptions:
    """Continued in the phase's own conversation, so often and no more; never reverted."""

    async def test_an_idle_agent_is_asked_once_to_go_on(self, folder: Path) -> None:
        made = set_stage(folder, how=first(claude.goes_idle))
        told = await tell(made)
        assert told.outcome == "ran"
        assert told.has_warned("claude said nothing for too long and was ended. It is asked to go on.")
        one, two = agents(made)
        assert claude.id_of(two) == (claude.id_of(one)[0], True)
        assert "You were interrupted" in made.said(two)

    async def test_but_not_twice(self, folder: Path) -> None:
        made = set_stage(folder, how=first(claude.goes_idle, claude.goes_idle))
        assert ((await tell(made)).outcome, len(agents(made))) == ("failed", 2)

    async def test_e18_a_death_by_somebodys_signal_is_gone_on_with_five_times(self, folder: Path) -> None:
        made = set_stage(folder, how=first(*[claude.is_killed] * MOST_SIGNALS))
        assert ((await tell(made)).outcome, len(agents(made))) == ("ran", MOST_SIGNALS + 1)
        made = set_stage(folder.with_name("other"), how=first(*[claude.is_killed] * 9))
        told = await tell(made)
        assert (told.outcome, len(agents(made))) == ("failed", MOST_SIGNALS + 1)
        assert told.ending.error is not None
        assert "signal 9" in told.ending.error.message

    async def test_e18_going_on_is_no_retry_so_that_max_attempts_does_not_count_it(self, folder: Path) -> None:
        """runners.md: attempts are for rate limits and passing faults alone; a death by somebody's signal is continued."""
        made = set_stage(folder, how=first(*[claude.is_killed] * MOST_SIGNALS), runner_retry={"max_attempts": 1})
        assert ((await tell(made)).outcome, len(agents(made))) == ("ran", MOST_SIGNALS + 1)
        made = set_stage(folder.with_name("other"), how=first(claude.is_busy), runner_retry={"max_attempts": 1})
        assert ((await tell(made)).outcome, len(agents(made))) == ("failed", 1)

    async def test_e18_an_exit_code_of_137_is_no_signal(self, folder: Path) -> None:
        made = set_stage(folder, how=first(lambda order: ends(137)))
        told = await tell(made)
        assert (told.outcome, len(agents(made))) == ("failed", 1)
        assert told.ending.error is not None
        assert "exit code 137" in told.ending.error.message

    async def test_an_agent_that_takes_too_long_is_not_given_the_time_again(self, folder: Path) -> None:
        too_long = Script(b"", b"", Exited(None, 15, "wall", 0, 0, 0))
        made = set_stage(folder, how=first(lambda order: too_long))
        told = await tell(made)
        assert (told.outcome, len(agents(made))) == ("failed", 1)
        assert told.ending.error is not None
        assert "claude took too long" in told.ending.error.message

    @pytest.mark.parametrize("cause", ["cancel", "signal", "folder"])
    async def test_an_agent_that_was_ended_with_the_run_is_not_gone_on_with(self, cause: str, folder: Path) -> None:
        ended = Script(b"", b"", Exited(None, 15, cause, 0, 0, 0))  # type: ignore[arg-type]  # one of the causes
        made = set_stage(folder, how=first(lambda order: ended), git_revert_mode="enabled")
        assert ((await tell(made)).outcome, made.played) == ("failed", ["agent claude"])

    @pytest.mark.parametrize("end", [claude.goes_idle, claude.is_killed, claude.is_busy])
    async def test_nothing_is_taken_back_after_an_interruption(self, end: End, folder: Path) -> None:
        def play(made: Stage, order: Order) -> Script | NotStarted:
            made.write("work.txt", "half done\n")
            return end(order)

        made = set_stage(folder, {**ONE, "interactive": True}, play, git_revert_mode="enabled")
        assert (await tell(made)).outcome == "failed"
        assert (made.text("work.txt"), made.memory.asked) == ("half done\n", [])
        assert made.tasks("queue") == {"RQ-0001": "doing"}
        assert made.session() is not None

    async def test_where_the_conversation_is_not_known_it_begins_anew_with_everything(self, folder: Path) -> None:
        """Interrupted while it mended what the gate had said: a fresh agent is told of the task, the gate and the interruption."""

        def play(made: Stage, order: Order) -> Script | NotStarted:
            if order.kind == "ci":
                return ends(1 if made.played.count("ci make") == 1 else 0, b"a test failed\n")
            is_continued = claude.id_of(order)[1]
            if is_continued and len(agents(made)) == 2:
                return claude.goes_idle(order)
            return claude.is_gone(order) if is_continued else works(made, order)

        made = set_stage(folder, how=play, **GATE)
        assert (await tell(made)).outcome == "ran"
        said = made.said(agents(made)[-1])
        assert [part in said for part in ("Task RQ-0001", "a test failed", "You were interrupted")] == [True] * 3


class TestCannotWork:
    """An agent that cannot even begin: what is missing, where it was looked for, and what to do."""

    async def test_e13_not_installed(self, folder: Path) -> None:
        made = set_stage(folder, git_revert_mode="enabled")
        made.missing = {"claude"}
        told = await tell(made)
        assert (told.outcome, told.phases, made.played) == ("failed", ["implement"], [])
        assert told.ending.error is not None
        assert told.ending.error.code == "cli_unavailable"
        assert "claude, was not found or cannot be executed" in told.ending.error.message
        assert "npm install -g @anthropic-ai/claude-code" in (told.ending.error.detail or "")
        assert "PATH=/nowhere" in (told.ending.error.detail or "")

    @pytest.mark.parametrize(
        ("end", "said"),
        [
            (NotStarted("exec", errno.ENOENT), "its interpreter is missing"),
            (NotStarted("exec", errno.EACCES), "Permission denied (exec)"),
            (NotStarted("exec", errno.ENOEXEC), "Exec format error (exec)"),
            (NotStarted("cwd", errno.ENOENT), "No such file or directory (cwd)"),
        ],
    )
    async def test_e13_cannot_be_started(self, end: NotStarted, said: str, folder: Path) -> None:
        told = await tell(set_stage(folder, how=lambda made, order: end))
        assert told.ending.error is not None
        assert (told.outcome, told.ending.error.code) == ("failed", "cli_unavailable")
        assert said in told.ending.error.message

    async def test_wants_a_login(self, folder: Path) -> None:
        how = first(lambda order: claude.fails(order, "Please run /login"))
        told = await tell(set_stage(folder, how=how, git_revert_mode="enabled"))
        assert told.ending.error is not None
        assert (told.outcome, told.ending.error.code) == ("failed", "cli_unavailable")
        assert "claude auth login" in (told.ending.error.detail or "")

    async def test_a_bad_prompt(self, folder: Path) -> None:
        made = set_stage(folder, {**ONE, "interactive": True}, git_revert_mode="enabled")
        made.write(".cueloop/prompts/single.md", "Do $what")
        told = await tell(made)
        assert (told.outcome, made.played, made.memory.asked) == ("failed", [], [])
        assert told.ending.error is not None
        assert told.ending.error.code == "config_incompatible"
        assert "single.md has the unknown field $what" in told.ending.error.message

    async def test_a_bad_prompt_in_the_middle(self, folder: Path) -> None:
        def play(made: Stage, order: Order) -> Script | NotStarted:
            return ends(1) if order.kind == "ci" else works(made, order)

        made = set_stage(folder, how=play, **GATE)
        made.write(".cueloop/prompts/ci_failed.md", "It fails.")
        told = await tell(made)
        assert told.ending.error is not None
        assert "ci_failed.md lacks the field $command" in told.ending.error.message

    async def test_an_option_that_is_too_long_for_a_command_line_is_said(self, folder: Path) -> None:
        """Kimi takes its prompt as an argument."""
        model = {"model": "kimi-for-coding"}
        kimi = {"runner": "kimi", **model, "phase_overrides": {f"phase{n}": model for n in (1, 2, 3)}}
        made = set_stage(folder, how=lambda made, order: ends(1), tasks=queue(task("RQ-0001", description="x" * 200_000)), **kimi)
        told = await tell(made)
        assert told.has_warned("The prompt is too long for a command line")


class TestGate:
    """The CI gate."""

    def gate(self, *marks: str) -> Play:
        """It fails each time, saying the next of these."""

        def play(made: Stage, order: Order) -> Script | NotStarted:
            if order.kind != "ci":
                return works(made, order)
            return ends(3, marks[min(made.played.count("ci make"), len(marks)) - 1].encode())

        return play

    async def test_ten_times_at_most(self, folder: Path) -> None:
        made = set_stage(folder, how=self.gate(*"abcdefghijkl"), **GATE)
        told = await tell(made)
        assert (told.outcome, told.ending.exit_code) == ("stalled", 1)
        assert (made.played.count("ci make"), len(agents(made))) == (10, 10)
        assert told.ending.blocking is not None
        assert told.ending.blocking.reason.model_dump(exclude_none=True) == {"kind": "ci_blocked", "exit_code": 3}
        assert made.session() is not None

    async def test_three_identical_failures_stop_it(self, folder: Path) -> None:
        made = set_stage(folder, how=self.gate("a", "b", "b", "b"), **GATE)
        told = await tell(made)
        assert (told.outcome, made.played.count("ci make")) == ("stalled", 4)
        assert told.ending.blocking is not None
        assert told.ending.blocking.reason.model_dump(exclude_none=True)["pattern"] == "identical_failures"

    async def test_after_each_iteration_and_only_in_its_last_phase(self, folder: Path) -> None:
        made = set_stage(folder, phases=3, iterations=2, **GATE)
        assert (await tell(made)).outcome == "ran"
        assert made.played == ["agent claude"] * 3 + ["ci make"] + ["agent claude"] * 3 + ["ci make"]

    async def test_what_the_agent_is_told_has_both_ends_of_a_long_output(self, folder: Path) -> None:
        output = "the beginning\n" + "x\n" * 100_000 + "the end\n"
        made = set_stage(folder, how=self.gate(output), **GATE)
        await tell(made)
        said = made.said(agents(made)[1])
        assert ("the beginning" in said, "the end" in said, len(said) < 40_000) == (True, True, True)

    @pytest.mark.parametrize(
        ("end", "said"),
        [
            (Exited(None, 9, "self", 0, 0, 0), "make was ended by signal 9"),
            (Exited(None, 15, "wall", 0, 0, 0), "make did not end within 1800 s"),
        ],
    )
    async def test_a_gate_that_does_not_come_to_an_end(self, end: Exited, said: str, folder: Path) -> None:
        def play(made: Stage, order: Order) -> Script | NotStarted:
            return Script(b"", b"", end) if order.kind == "ci" else works(made, order)

        made = set_stage(folder, how=play, **GATE)
        told = await tell(made)
        assert told.ending.error is not None
        assert said in told.ending.error.message
        assert said in made.said(agents(made)[1])
        assert told.ending.blocking is not None
        assert "exit_code" not in told.ending.blocking.reason.model_dump(exclude_none=True)

    async def test_a_gate_that_is_not_there(self, folder: Path) -> None:
        made = set_stage(folder, **GATE)
        made.missing = {"make"}
        told = await tell(made)
        assert told.outcome == "stalled"
        assert told.ending.error is not None
        assert "make was not found on the PATH" in told.ending.error.message

    async def test_its_environment_is_the_callers_without_what_belongs_to_agents(self, folder: Path) -> None:
        made = set_stage(folder, **GATE)
        await tell(made)
        (order,) = (order for order in made.shim.orders.values() if order.kind == "ci")
        assert order.env["CUELOOP_RUN_ID"] == "r-1"
        assert (order.argv, order.stdin, order.idle, order.wall) == (("make", "ci"), None, None, 1800.0)
        assert not {"CUELOOP_TASK_ID", "CLAUDECODE", "GIT_DIR"} & set(order.env)


class TestPhases:
    """Plan, implement, review."""

    async def test_each_phase_has_its_own_runner_model_effort_and_conversation(self, folder: Path) -> None:
        phases = {"phase1": {"model": "opus"}, "phase2": {"model": "sonnet"}, "phase3": {"model": "haiku"}}
        made = set_stage(folder, phases=3, phase_overrides=phases)
        told = await tell(made)
        assert told.phases == ["plan", "implement", "review"]
        assert [order.argv[order.argv.index("--model") + 1] for order in agents(made)] == ["opus", "sonnet", "haiku"]
        assert len({claude.id_of(order)[0] for order in agents(made)}) == 3

    async def test_the_review_is_told_what_the_implementer_said_at_the_end(self, folder: Path) -> None:
        made = set_stage(folder, phases=3)
        await tell(made)
        assert "All is done." in made.said(agents(made)[2])
        assert made.text(".cueloop/cache/phase2_final/RQ-0001.md") == "All is done.\n"

    async def test_a_plan_that_is_empty_is_asked_for_once_more(self, folder: Path) -> None:
        def play(made: Stage, order: Order) -> Script | NotStarted:
            if len(agents(made)) == 1:
                made.write(".cueloop/cache/plans/RQ-0001.md", " \n")
            if "is missing or empty" in made.said(order):
                made.write(".cueloop/cache/plans/RQ-0001.md", "A plan.\n")
            return claude.succeeds(order)

        made = set_stage(folder, how=play, phases=2)
        told = await tell(made)
        assert (told.outcome, told.phases, len(agents(made))) == ("ran", ["plan", "implement"], 3)

    async def test_a_plan_that_stays_empty(self, folder: Path) -> None:
        made = set_stage(folder, how=lambda made, order: claude.succeeds(order), phases=2)
        told = await tell(made)
        assert (told.outcome, told.phases, len(agents(made))) == ("failed", ["plan"], 2)
        assert told.ending.error is not None
        assert told.ending.error.message == "The plan .cueloop/cache/plans/RQ-0001.md is empty or missing."

    async def test_a_plan_phase_that_changes_files_is_told_which(self, folder: Path) -> None:
        def play(made: Stage, order: Order) -> Script | NotStarted:
            made.write(".cueloop/cache/plans/RQ-0001.md", "A plan.\n")
            made.write("work.txt", "changed too early\n")
            return claude.succeeds(order)

        made = set_stage(folder, how=play, phases=2, git_revert_mode="enabled")
        told = await tell(made)
        assert (told.outcome, told.phases, len(agents(made))) == ("failed", ["plan"], 2)
        assert "- work.txt" in made.said(agents(made)[1])
        assert told.ending.error is not None
        assert "(work.txt)" in told.ending.error.message
        assert made.text("work.txt") == "as it was\n", "and is reverted"

    async def test_many_files_are_not_all_named(self, folder: Path) -> None:
        def play(made: Stage, order: Order) -> Script | NotStarted:
            for number in range(60):
                made.write(f"f{number:02}", "x")
            return claude.succeeds(order)

        made = set_stage(folder, how=play, phases=2)
        await tell(made)
        assert "and 10 more" in made.said(agents(made)[1])

    async def test_more_iterations_than_a_session_can_count(self, folder: Path) -> None:
        made = set_stage(folder, iterations=255)
        made.clock = START
        assert (await tell(made)).outcome == "ran"
        assert len(agents(made)) == 255

    async def test_ids_of_our_own_are_never_given_twice(self, folder: Path) -> None:
        """However fast phases and iterations follow each other."""
        made = set_stage(folder, phases=3, iterations=3)
        await tell(made)
        ids = [claude.id_of(order)[0] for order in agents(made)]
        assert len(set(ids)) == len(ids) == 9

    async def test_output_is_told_once_and_in_pieces_that_fit(self, folder: Path) -> None:
        text = "x" * 500_000

        def play(made: Stage, order: Order) -> Script | NotStarted:
            return claude.succeeds(order, text)

        made = set_stage(folder, how=play)
        await tell(made)
        texts = [event.payload.text for event in made.memory.told]  # type: ignore[union-attr]  # runner_output
        assert all(len(one) <= 200_000 for one in texts)
        assert "".join(texts).count("x") >= 200_000

    async def test_settings_that_the_runner_cannot_honour_are_said_in_each_phase(self, folder: Path) -> None:
        told = await tell(set_stage(folder, {**ONE, "overrides": {"sandbox": "enabled"}}, phases=2))
        assert len([text for text in told.warnings if "cannot honour" in text]) == 2


async def test_a_loop_ends_with_the_first_task_that_fails(folder: Path) -> None:
    made = set_stage(
        folder, LOOP, first(claude.succeeds, claude.fails), tasks=queue(task("RQ-0001"), task("RQ-0002"), task("RQ-0003"))
    )
    told = await tell(made)
    assert (told.outcome, told.selected) == ("failed", ["RQ-0001", "RQ-0002"])
    assert made.tasks("queue") == {"RQ-0002": "doing", "RQ-0003": "todo"}
