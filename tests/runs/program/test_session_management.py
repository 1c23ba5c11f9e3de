"""Everything that "Session Management" promises, heading by heading, by whole runs. The class names are its headings."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from cueloop_daemon.runs.types import NotStarted, Order
from cueloop_protocol.documents.session import Session
from runs.fakes import Script
from runs.program import claude
from runs.program.played import START, Stage, config, ends, queue, session, task
from runs.program.stories import works
from runs.program.test_vectors import VECTORS, check, play

RESUME, FRESH, REFUSE = "resuming_same_session", "falling_back_to_fresh_invocation", "refusing_to_resume"
DOING = queue(task("RQ-0001", status="doing"), task("RQ-0002"))
HOURS = dt.timedelta(hours=1)


def stage(
    folder: Path, params: Mapping[str, Any], saved: str | None = None, tasks: str = DOING, how: Any = works, **agent: object
) -> Stage:
    made = Stage(folder, params, how)
    made.write(".cueloop/config.jsonc", config(**agent))
    made.write(".cueloop/trust.jsonc", '{"allow_project_commands": true, "trusted_at": "2026-01-01T00:00:00Z"}')
    made.write(".cueloop/queue.jsonc", tasks)
    if saved is not None:
        made.write(".cueloop/cache/session.jsonc", saved)
    made.write("work.txt", "as it was\n")
    made.tree.commit("begin")
    return made


def old(hours: float, **more: object) -> str:
    """A session that was written so long ago."""
    at = (START - hours * HOURS).isoformat().replace("+00:00", "Z")
    return session(last_updated_at=at, run_started_at=at, **more)


async def run(made: Stage) -> dict[str, Any]:
    """The summary of a whole run, with what it decided: (status, reason)."""
    state = await made.life()
    assert state.ending is not None
    decisions = [event["payload"] for event in made.events() if event["kind"] == "resume_decision"]
    return {
        "outcome": state.ending.outcome,
        "exit": state.ending.exit_code,
        "decisions": [(one["status"], one["reason"]) for one in decisions if one["scope"] == "run_session"],
        "continued": [(one["status"], one["reason"]) for one in decisions if one["scope"] == "continue_session"],
        "selected": [event["task_id"] for event in made.events() if event["kind"] == "task_selected"],
        "blocking": None if state.ending.blocking is None else state.ending.blocking.reason.kind,
        "error": state.ending.error,
    }


class TestOperatorVisibleDecisionModel:
    """One of three states, said before anything begins."""

    @pytest.mark.parametrize(("params", "status"), [({"resume": True}, RESUME), ({"fresh": True}, FRESH), ({}, REFUSE)])
    async def test_the_three_states(self, params: dict[str, object], status: str, folder: Path) -> None:
        made = stage(folder, {"mode": "one", **params}, session())
        assert [status for status, _ in (await run(made))["decisions"]] == [status]
        kinds = [event["kind"] for event in made.events()]
        assert kinds[:2] == ["run_started", "resume_decision"]


class TestSessionStateFile:
    """Created when a task starts, cleared when it is completed."""

    async def test_structure(self, folder: Path) -> None:
        seen: list[dict[str, Any]] = []

        def how(made: Stage, order: Order) -> Script | NotStarted:
            found = made.session()
            assert found is not None
            seen.append(found)
            return works(made, order)

        made = stage(folder, {"mode": "loop", "max_tasks": 10}, tasks=queue(task("RQ-0001")), how=how, phases=3, iterations=2)
        await run(made)
        assert [(one["iterations_completed"], one["current_phase"]) for one in seen] == [
            (0, 1),
            (0, 2),
            (0, 3),
            (1, 1),
            (1, 2),
            (1, 3),
        ]
        assert list(seen[0]) == [name for name in Session.model_fields if name in seen[0]]
        assert set(Session.model_fields) == set(seen[0])
        assert (seen[0]["max_tasks"], seen[0]["iterations_planned"], seen[0]["runner"]) == (10, 2, "claude")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", seen[0]["last_updated_at"])
        assert made.session() is None

    async def test_field_notes_settings_are_computed_anew(self, folder: Path) -> None:
        """`phase*_settings` are display: what runs is configured now."""
        saved = session(model="opus", phase2_settings={"runner": "codex", "model": "gpt-5.4", "reasoning_effort": "high"})
        made = stage(folder, {"mode": "one", "resume": True}, saved)
        await run(made)
        assert made.played == ["agent claude"]
        assert "sonnet" in made.shim.orders[min(made.shim.orders)].argv

    async def test_field_notes_the_commit_is_no_gate(self, folder: Path) -> None:
        made = stage(folder, {"mode": "one", "resume": True}, session(git_head_commit="another commit"))
        assert (await run(made))["outcome"] == "ran"

    async def test_a_session_that_is_abandoned_is_kept_in_the_history(self, folder: Path) -> None:
        made = stage(folder, {"mode": "one", "fresh": True}, session())
        await run(made)
        kept = [json.loads(path.read_text()) for path in sorted((folder / ".cueloop/cache/cueloopd/history").glob("*.json"))]
        assert [note["why"] for note in kept] == ["session_declined", "finished"]


class TestValidationOutcomes:
    """NoSession, Valid, Stale, Timeout."""

    @pytest.mark.parametrize(
        ("name", "saved", "tasks", "decision"),
        [
            ("NoSession", None, DOING, (FRESH, "no_session")),
            ("Valid", session(), DOING, (RESUME, "session_valid")),
            ("Stale", session(), queue(task("RQ-0002")), (FRESH, "session_stale")),
            ("Stale", session(), queue(task("RQ-0001"), task("RQ-0002")), (FRESH, "session_stale")),
            (
                "Stale",
                session(),
                queue(task("RQ-0001", status="rejected", completed_at="2026-01-01T00:00:00Z"), task("RQ-0002")),
                (FRESH, "session_stale"),
            ),
            ("Stale", session(), queue(task("RQ-0001", kind="group", status="doing"), task("RQ-0002")), (FRESH, "session_stale")),
            ("Timeout", old(24), DOING, (REFUSE, "session_timed_out_requires_confirmation")),
            ("Timeout", old(23.99), DOING, (RESUME, "session_valid")),
        ],
    )
    async def test_each_result(self, name: str, saved: str | None, tasks: str, decision: tuple[str, str], folder: Path) -> None:
        found = await run(stage(folder, {"mode": "one", "resume": True}, saved, tasks))
        assert found["decisions"] == [decision], name
        assert found["outcome"] == ("stalled" if decision[0] == REFUSE else "ran")


class TestRunResume:
    """`cueloop run resume`."""

    async def test_behaves_like_run_loop_resume(self, folder: Path) -> None:
        both = []
        for number, params in enumerate(({"mode": "resume"}, {"mode": "loop", "resume": True})):
            made = stage(folder.with_name(str(number)), params, session())
            both.append((await run(made), [event["kind"] for event in made.events()]))
        assert both[0] == both[1]

    async def test_valid_sessions_resume_immediately(self, folder: Path) -> None:
        found = await run(stage(folder, {"mode": "resume"}, session()))
        assert (found["decisions"], found["selected"]) == ([(RESUME, "session_valid")], ["RQ-0001", "RQ-0002"])

    async def test_timed_out_sessions_still_require_confirmation(self, folder: Path) -> None:
        made = stage(folder, {"mode": "resume"}, old(48))
        found = await run(made)
        assert (found["decisions"], found["outcome"], found["exit"]) == (
            [(REFUSE, "session_timed_out_requires_confirmation")],
            "stalled",
            0,
        )
        assert made.text(".cueloop/cache/session.jsonc") == old(48)

    async def test_without_a_session_it_says_that_it_starts_fresh(self, folder: Path) -> None:
        assert (await run(stage(folder, {"mode": "resume"})))["decisions"] == [(FRESH, "no_session")]


class TestRunOne:
    """`cueloop run one`."""

    async def test_always_inspects_the_session_first(self, folder: Path) -> None:
        made = stage(folder, {"mode": "one"}, session())
        assert (await run(made))["decisions"] == [(REFUSE, "resume_confirmation_required")]
        assert (made.played, made.tasks("queue")["RQ-0001"]) == ([], "doing")

    async def test_resume_auto_resumes_when_safe(self, folder: Path) -> None:
        found = await run(stage(folder, {"mode": "one", "resume": True}, session()))
        assert (found["decisions"], found["selected"]) == ([(RESUME, "session_valid")], ["RQ-0001"])

    @pytest.mark.parametrize(
        ("choice", "decision"), [("resume", (RESUME, "session_valid")), ("fresh", (FRESH, "session_declined"))]
    )
    async def test_a_person_who_was_asked(self, choice: str, decision: tuple[str, str], folder: Path) -> None:
        made = stage(folder, {"mode": "one"}, session())
        answered(made, choice)
        assert (await run(made))["decisions"] == [decision]

    async def test_an_answer_about_another_file_is_void(self, folder: Path) -> None:
        made = stage(folder, {"mode": "one", "answer": {"choice": "resume", "session_etag": "f" * 64}}, session())
        assert (await run(made))["decisions"] == [(REFUSE, "resume_confirmation_required")]

    async def test_an_explicit_task_overrides_an_unrelated_session_and_says_so(self, folder: Path) -> None:
        made = stage(folder, {"mode": "one", "task_id": "RQ-0002"}, session())
        found = await run(made)
        assert found["decisions"] == [(FRESH, "explicit_task_selection_overrides_session")]
        assert (found["selected"], made.tasks("queue")) == (["RQ-0002"], {"RQ-0001": "doing"})

    async def test_a_finished_run_clears_its_session(self, folder: Path) -> None:
        made = stage(folder, {"mode": "one", "resume": True}, session())
        await run(made)
        assert made.session() is None


class TestRunLoop:
    """`cueloop run loop`."""

    @pytest.mark.parametrize("saved", [None, session(), old(48), "{ torn"])
    @pytest.mark.parametrize("params", [{}, {"resume": True}, {"fresh": True}])
    async def test_the_same_decision_model_as_run_one(self, saved: str | None, params: dict[str, object], folder: Path) -> None:
        found = []
        for mode in ("one", "loop"):
            found.append((await run(stage(folder.with_name(mode), {"mode": mode, **params}, saved)))["decisions"])
        assert found[0] == found[1]

    async def test_a_resumed_task_is_the_first_one_only(self, folder: Path) -> None:
        made = stage(
            folder,
            {"mode": "loop", "resume": True},
            session(current_phase=3),
            queue(task("RQ-0002"), task("RQ-0001", status="doing"), task("RQ-0003")),
            phases=3,
        )
        made.write(".cueloop/cache/plans/RQ-0001.md", "A plan.\n")
        made.write(".cueloop/cache/phase2_final/RQ-0001.md", "It is done.\n")
        found = await run(made)
        assert found["selected"] == ["RQ-0001", "RQ-0002", "RQ-0003"]
        phases = [event["phase"] for event in made.events() if event["kind"] == "phase_entered"]
        assert phases == ["review", *["plan", "implement", "review"] * 2]
        assert len(found["decisions"]) == 1

    async def test_the_count_and_the_limit_go_on(self, folder: Path) -> None:
        saved = session(tasks_completed_in_loop=8, max_tasks=10)
        tasks = queue(task("RQ-0001", status="doing"), *(task(f"RQ-000{n}") for n in (2, 3, 4)))
        made = stage(folder, {"mode": "loop", "resume": True}, saved, tasks)
        found = await run(made)
        assert (found["outcome"], found["selected"]) == ("completed", ["RQ-0001", "RQ-0002"])


class TestTimeoutBehavior:
    """Sessions older than `session_timeout_hours`."""

    @pytest.mark.parametrize("mode", ["one", "loop", "resume"])
    async def test_not_resumed_just_because_resume_is_present(self, mode: str, folder: Path) -> None:
        params = {"mode": mode} if mode == "resume" else {"mode": mode, "resume": True}
        found = await run(stage(folder, params, old(48)))
        assert found["decisions"] == [(REFUSE, "session_timed_out_requires_confirmation")]

    @pytest.mark.parametrize(
        ("choice", "decision"), [("resume", (RESUME, "session_timed_out_confirmed")), ("fresh", (FRESH, "session_declined"))]
    )
    async def test_an_explicit_confirmation(self, choice: str, decision: tuple[str, str], folder: Path) -> None:
        made = stage(folder, {"mode": "one", "resume": True}, old(48))
        answered(made, choice)
        assert (await run(made))["decisions"] == [decision]


class TestNonInteractiveBehavior:
    """The table, row by row: nobody is there to ask."""

    @pytest.mark.parametrize("mode", ["one", "loop"])
    @pytest.mark.parametrize(
        ("saved", "tasks", "params", "decisions"),
        [
            (session(), DOING, {}, [(REFUSE, "resume_confirmation_required")]),
            (old(48), DOING, {}, [(REFUSE, "session_timed_out_requires_confirmation")]),
            (old(48), DOING, {"resume": True}, [(REFUSE, "session_timed_out_requires_confirmation")]),
            (None, DOING, {}, []),
            (None, DOING, {"resume": True}, [(FRESH, "no_session")]),
            (session(), queue(task("RQ-0002")), {}, [(FRESH, "session_stale")]),
        ],
        ids=["valid, no --resume", "timed out", "timed out, --resume", "no session", "no session, --resume", "stale"],
    )
    async def test_row(
        self, mode: str, saved: str | None, tasks: str, params: dict[str, object], decisions: list[tuple[str, str]], folder: Path
    ) -> None:
        made = stage(folder, {"mode": mode, **params}, saved, tasks)
        found = await run(made)
        assert found["decisions"] == decisions
        if decisions and decisions[0][0] == REFUSE:
            assert (found["outcome"], found["blocking"], made.played) == ("stalled", "runner_recovery", [])
            assert made.text(".cueloop/cache/session.jsonc") == saved
        else:
            assert found["selected"]


class TestMachineAndAppSurfaces:
    """`resume_preview` before, `resume_decision` after."""

    @pytest.mark.parametrize(("params", "saved"), [({"resume": True}, session()), ({}, old(48)), ({"resume": True}, None)])
    async def test_config_preview_and_machine_run_events_say_the_same(
        self, params: dict[str, object], saved: str | None, folder: Path
    ) -> None:
        made = stage(folder, {"mode": "one", **params}, saved)
        await run(made)
        started, decided = made.events()[:2]
        assert started["payload"]["config"]["resume_preview"] == decided["payload"]
        assert (decided["message"], decided.get("task_id")) == (decided["payload"]["message"], decided["payload"].get("task_id"))

    async def test_the_sentences(self, folder: Path) -> None:
        saved = session(tasks_completed_in_loop=1)
        made = stage(folder, {"mode": "one", "resume": True}, saved)
        await run(made)
        payload = made.events()[1]["payload"]
        assert payload["message"] == "Resume: continuing the interrupted session for task RQ-0001."
        assert payload["detail"] == "Saved session is current and will resume from phase 2 with 1 completed loop task(s)."

    async def test_a_refusal_is_said_as_decision_and_as_blocking_state(self, folder: Path) -> None:
        made = stage(folder, {"mode": "one"}, old(48))
        await run(made)
        decided, blocked = made.events()[1:3]
        assert (decided["kind"], blocked["kind"]) == ("resume_decision", "blocked_state_changed")
        assert (
            decided["payload"]["message"]
            == "Resume: refusing to continue timed-out session RQ-0001 without explicit confirmation."
        )
        assert (
            decided["payload"]["detail"]
            == "The saved session is 48 hour(s) old, exceeding the configured 24-hour safety threshold."
        )
        assert blocked["message"] == decided["message"]


def fails_once(made: Stage, order: Order) -> Script | NotStarted:
    """A gate that fails the first time."""
    if order.kind == "ci":
        return ends(1 if made.played.count("ci make") == 1 else 0, b"a test failed\n")
    return works(made, order)


GATE: dict[str, object] = {"ci_gate": {"enabled": True, "argv": ["make", "ci"]}}


class TestContinueBehavior:
    """The runner's own session, in a loop of CI and mending."""

    async def test_prefers_the_same_session(self, folder: Path) -> None:
        made = stage(folder, {"mode": "one"}, tasks=queue(task("RQ-0001")), how=fails_once, **GATE)
        assert (await run(made))["continued"] == [(RESUME, "session_valid")]
        first, second = (order for order in made.shim.orders.values() if order.kind == "agent")
        assert claude.id_of(second) == (claude.id_of(first)[0], True)
        assert "a test failed" in made.said(second)
        assert "make ci" in made.said(second)

    async def test_said_before_the_invocation_that_it_describes(self, folder: Path) -> None:
        told: list[list[str]] = []

        def how(made: Stage, order: Order) -> Script | NotStarted:
            told.append([event["kind"] for event in made.events() if event["kind"] == "resume_decision"])
            return fails_once(made, order)

        await run(stage(folder, {"mode": "one"}, tasks=queue(task("RQ-0001")), how=how, **GATE))
        assert told == [[], [], ["resume_decision"], ["resume_decision"]]

    async def test_known_invalid_falls_back_and_says_so(self, folder: Path) -> None:
        def how(made: Stage, order: Order) -> Script | NotStarted:
            if order.kind == "agent" and claude.id_of(order)[1]:
                return claude.is_gone(order)
            return fails_once(made, order)

        made = stage(folder, {"mode": "one"}, tasks=queue(task("RQ-0001")), how=how, **GATE)
        found = await run(made)
        assert found["continued"] == [(RESUME, "session_valid"), (FRESH, "runner_session_invalid")]
        assert found["outcome"] == "ran"
        last = [order for order in made.shim.orders.values() if order.kind == "agent"][-1]
        assert "Task RQ-0001" in made.said(last), "the phase's own prompt"
        assert "a test failed" in made.said(last), "and what was to be said"

    async def test_unknown_resume_failures_fail_hard(self, folder: Path) -> None:
        def how(made: Stage, order: Order) -> Script | NotStarted:
            if order.kind == "agent" and claude.id_of(order)[1]:
                return ends(1, err=b"something that nobody has seen before\n")
            return fails_once(made, order)

        made = stage(folder, {"mode": "one"}, tasks=queue(task("RQ-0001")), how=how, **GATE)
        found = await run(made)
        assert (found["continued"], found["outcome"]) == ([(RESUME, "session_valid")], "failed")
        assert found["error"].detail == "It said last: something that nobody has seen before"
        assert made.session() is not None

    async def test_missing_falls_back_and_says_so(self, folder: Path) -> None:
        """A successful stream that names no session, of a runner that takes no id of ours."""

        def how(made: Stage, order: Order) -> Script | NotStarted:
            if order.kind == "agent":
                return Script(
                    claude.lines(
                        {"type": "item.completed", "item": {"type": "agent_message", "text": "Done."}}, {"type": "turn.completed"}
                    )
                )
            return fails_once(made, order)

        model = {"model": "gpt-5.4"}
        plain = {"runner": "codex", **model, "phase_overrides": {f"phase{n}": model for n in (1, 2, 3)}}
        made = stage(folder, {"mode": "one"}, tasks=queue(task("RQ-0001")), how=how, **plain, **GATE)
        assert (await run(made))["continued"] == [(FRESH, "missing_runner_session_id")]

    @pytest.mark.parametrize("end", ["cancel", "power cut"])
    async def test_a_crash_continues_the_phases_own_conversation(self, end: str, folder: Path) -> None:
        """Its id was remembered when the stream named it, whatever ended then."""

        def how(made: Stage, order: Order) -> Script | NotStarted:
            return claude.hangs(order) if len(made.played) == 2 else works(made, order)

        made = stage(folder, {"mode": "one"}, tasks=queue(task("RQ-0001")), how=how, phases=2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.life)
            with anyio.fail_after(5):
                while not any(one.phase == 2 and one.state == "reported" for one in made.store.conversations):
                    await anyio.lowlevel.checkpoint()
                    if made.journal is not None:
                        await made.journal.flush()
            made.cancel() if end == "cancel" else tasks.cancel_scope.cancel()
        assert ("stopped" in made.store.state.decode()) is (end == "cancel")
        hung = made.shim.orders[max(made.shim.orders)]
        made.reboot({"mode": "one", "resume": True})
        made.is_cancelled = False
        found = await run(made)
        assert (found["continued"], found["outcome"]) == ([(RESUME, "session_valid")], "ran")
        again = made.shim.orders[min(made.shim.orders)]
        assert claude.id_of(again) == (claude.id_of(hung)[0], True)
        assert "You were interrupted" in made.said(again)

    async def test_a18_without_a_known_session_never_the_latest_one(self, folder: Path) -> None:
        made = stage(folder, {"mode": "one", "resume": True}, session())
        await run(made)
        argv = made.shim.orders[min(made.shim.orders)].argv
        assert not {"--continue", "-c", "--resume", "--last", "latest"} & set(argv)


VECTOR_CASES = {
    f"{case['id']}": case for line in (VECTORS / "continue.jsonl").read_text().splitlines() for case in [json.loads(line)]
}


class TestKnownSafeFallbackCases:
    """The table, runner by runner, with agents as real processes; and what is not in it fails hard."""

    @pytest.mark.parametrize(
        ("runner", "name"),
        [
            ("Pi", "pi-gone"),
            ("Gemini", "gemini-gone"),
            ("Claude", "claude-gone"),
            ("Claude", "claude-malformed"),
            ("OpenCode", "opencode-gone"),
            ("OpenCode", "opencode-malformed"),
            ("OpenCode", "opencode-gone-exit-0"),
            ("Codex", "codex-gone"),
            ("Kimi", "kimi-gone"),
        ],
    )
    async def test_a10_a11_safe_fresh_fallback(self, runner: str, name: str, tmp_path: Path) -> None:
        case = VECTOR_CASES[name]
        assert case["want"]["continue"][-1] == [FRESH, "runner_session_invalid"], runner
        assert check.judge(case, await play(case, Path(os.path.realpath(tmp_path))), {}, "continue") == []

    @pytest.mark.parametrize(
        "name", ["claude-odd", "codex-odd", "gemini-odd", "kimi-odd", "opencode-gone-then-odd", "pi-gone-then-odd"]
    )
    async def test_everything_else_fails_hard(self, name: str, tmp_path: Path) -> None:
        case = VECTOR_CASES[name]
        assert case["want"]["outcome"] == "failed"
        assert check.judge(case, await play(case, Path(os.path.realpath(tmp_path))), {}, "continue") == []


class TestKimiPerPhaseSessionIds:
    """`{task_id}-p{phase}-{timestamp}`."""

    def kimi(self, made: Stage, order: Order) -> Script | NotStarted:
        if order.kind == "ci":
            return fails_once(made, order)
        words = list(order.argv)
        if "Write the plan" in words[words.index("--prompt") + 1]:
            made.write(".cueloop/cache/plans/RQ-0001.md", "A plan.\n")
        return Script(claude.lines({"role": "assistant", "content": "Done."}))

    async def ids(self, folder: Path, **agent: object) -> list[str]:
        model = {"model": "kimi-for-coding"}
        plain = {"runner": "kimi", **model, "phase_overrides": {f"phase{n}": model for n in (1, 2, 3)}}
        made = stage(folder, {"mode": "one"}, tasks=queue(task("RQ-0001")), how=self.kimi, **plain, **agent)
        made.version = "kimi, version 1.51.0"
        assert (await run(made))["outcome"] == "ran"
        orders = [list(order.argv) for order in made.shim.orders.values() if order.kind == "agent"]
        return [words[words.index("--session") + 1] for words in orders]

    async def test_each_phase_has_its_own(self, folder: Path) -> None:
        seconds = int(START.timestamp())
        assert await self.ids(folder, phases=3) == [f"RQ-0001-p{n}-{seconds + n - 1}" for n in (1, 2, 3)]

    async def test_a15_the_id_is_the_same_when_the_conversation_goes_on(self, folder: Path) -> None:
        """It counts although no stream has ever reported it."""
        first, second = await self.ids(folder, phases=1, **GATE)
        assert first == second == f"RQ-0001-p0-{int(START.timestamp())}"


class TestConfiguration:
    """`session_timeout_hours`."""

    @pytest.mark.parametrize(
        ("limit", "hours", "status"),
        [(24, 23.99, RESUME), (24, 24, REFUSE), (72, 71, RESUME), (72, 72, REFUSE), (168, 100, RESUME), (1, 1, REFUSE)],
    )
    async def test_the_limit(self, limit: int, hours: float, status: str, folder: Path) -> None:
        made = stage(folder, {"mode": "one", "resume": True}, old(hours), session_timeout_hours=limit)
        assert [one for one, _ in (await run(made))["decisions"]] == [status]


class TestCiHeadlessUsage:
    """The two policies."""

    async def test_explicitly_continue_when_safe(self, folder: Path) -> None:
        """`run loop --resume --non-interactive`."""
        for number, (saved, outcome) in enumerate([(session(), "no_candidates"), (None, "no_candidates"), (old(48), "stalled")]):
            found = await run(stage(folder.with_name(str(number)), {"mode": "loop", "resume": True}, saved))
            assert (found["outcome"], found["exit"]) == (outcome, 0)

    async def test_fresh_orchestration_with_no_recovery(self, folder: Path) -> None:
        """`run loop --non-interactive`: nothing is discarded or duplicated in silence."""
        for number, (saved, outcome) in enumerate([(None, "no_candidates"), (session(), "stalled"), (old(48), "stalled")]):
            found = await run(stage(folder.with_name(str(number)), {"mode": "loop"}, saved))
            assert (found["outcome"], found["exit"]) == (outcome, 0)


class TestTroubleshooting:
    """Each common cause leads to what it is the cause of."""

    @pytest.mark.parametrize(
        ("cause", "params", "saved", "tasks", "reason"),
        [
            ("the task no longer exists", {"resume": True}, session(), queue(task("RQ-0002")), "session_stale"),
            (
                "the task is terminal",
                {"resume": True},
                session(),
                queue(task("RQ-0001", status="done", completed_at="2026-01-01T00:00:00Z"), task("RQ-0002")),
                "session_stale",
            ),
            ("another task was selected", {"task_id": "RQ-0002"}, session(), DOING, "explicit_task_selection_overrides_session"),
        ],
    )
    async def test_started_fresh_instead_of_resuming(
        self, cause: str, params: dict[str, object], saved: str, tasks: str, reason: str, folder: Path
    ) -> None:
        assert (await run(stage(folder, {"mode": "one", **params}, saved, tasks)))["decisions"] == [(FRESH, reason)], cause

    @pytest.mark.parametrize(
        ("cause", "saved", "reason"),
        [
            ("nobody to ask", session(), "resume_confirmation_required"),
            ("timed out", old(48), "session_timed_out_requires_confirmation"),
        ],
    )
    async def test_refused_to_resume(self, cause: str, saved: str, reason: str, folder: Path) -> None:
        assert (await run(stage(folder, {"mode": "one"}, saved)))["decisions"] == [(REFUSE, reason)], cause


def answered(made: Stage, choice: str) -> None:
    """The person was asked about the file as it is, and chose."""
    etag = hashlib.sha256((made.folder / ".cueloop/cache/session.jsonc").read_bytes()).hexdigest()
    made.params = made.params.model_validate(
        {**made.params.model_dump(exclude_none=True), "answer": {"choice": choice, "session_etag": etag}}
    )
