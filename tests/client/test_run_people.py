"""`cueloop run one|loop|resume` for people: what is shown, what is asked before, the exit code."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from client.fakes import Connection, serving
from client.run_fakes import RUN, STOPPED, STORY, SUMMARY, Script, call, event, finished, notification
from client.run_terminal import SECONDS, as_process
from cueloop_protocol.codes import RpcError, confirmation_required, confirmation_stale, document_unusable, shutting_down
from cueloop_protocol.roots import Root

ETAG = "etag-1"
SESSION = {
    "version": 1,
    "session_id": "s",
    "task_id": "RQ-1",
    "run_started_at": "2026-02-07T10:00:00Z",
    "last_updated_at": "2026-02-07T10:30:00Z",
    "iterations_planned": 2,
    "iterations_completed": 1,
    "current_phase": 2,
    "runner": "claude",
    "model": "sonnet",
    "tasks_completed_in_loop": 0,
    "max_tasks": 10,
    "age_seconds": 7200,
}


def decision(reason: str, **members: Any) -> dict[str, Any]:
    return {
        "status": "refusing_to_resume",
        "scope": "run_session",
        "reason": reason,
        "message": f"Resume: {reason}.",
        "detail": "Say what to do.",
        **members,
    }


def asking(reason: str, choices: list[str], session: dict[str, Any] | None = None) -> RpcError:
    return confirmation_required(decision(reason, task_id="RQ-1"), ETAG, choices, session)


VALID = asking("resume_confirmation_required", ["resume", "fresh"], SESSION)
TIMED_OUT = asking("session_timed_out_requires_confirmation", ["resume", "fresh"], SESSION)
CORRUPT = asking("session_cache_corrupt", ["fresh"])
STARTED = {"run_id": RUN, "cursor": "e:0", "repeated": False}


class TestShown:
    def test_a_run_in_words(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, Script(), "run one")
        assert called.out == (
            "== RQ-1: Do it\n-- Phase implement begins.\nworked\n-- Phase implement is complete.\nDone: RQ-1.\n"
        )
        assert (called.code, called.err) == (0, "")

    def test_what_an_agent_wrote_without_a_line_end_is_ended(self, root: Root, environ: dict[str, str]) -> None:
        notes = [
            event(1, "runner_output", stream="combined", payload={"text": "a\x1b[31m"}),
            event(2, "runner_output", stream="combined", payload={"text": "b"}),
            event(3, "phase_completed", phase="plan", task_id="RQ-1"),
            finished(4),
        ]
        called = call(root, environ, Script(notes), "run one")
        assert called.out == "a\ufffd[31mb\n-- Phase plan of RQ-1 is complete.\nDone: RQ-1.\n"

    def test_a_refusal_is_told_once_on_standard_error(self, root: Root, environ: dict[str, str]) -> None:
        told = decision("resume_confirmation_required", task_id="RQ-1")
        blocking = {
            "status": "stalled",
            "reason": {"kind": "runner_recovery"},
            "message": told["message"],
            "detail": told["detail"],
        }
        notes = [
            event(1, "resume_decision", task_id="RQ-1", message=told["message"], payload=told),
            event(2, "blocked_state_changed", message=told["message"], payload=blocking),
            finished(3, {"version": 2, "task_id": None, "exit_code": 0, "outcome": "stalled", "blocking": blocking}),
        ]
        called = call(root, environ, Script(notes), "run loop")
        assert called.err == f"cueloop: {told['message']}\nSay what to do.\n"
        assert called.out == "The run did not begin, or could not go on.\n"
        assert called.code == 1

    def test_a_decision_and_a_state_that_are_no_refusal_are_shown_on_standard_output(
        self, root: Root, environ: dict[str, str]
    ) -> None:
        resumed = decision("session_valid", status="resuming_same_session")
        waiting = {"status": "waiting", "reason": {"kind": "idle"}, "message": "Idle.", "detail": "No task."}
        notes = [
            event(1, "resume_decision", message=resumed["message"], payload=resumed),
            event(2, "blocked_state_changed", message="Idle.", payload=waiting),
            event(3, "blocked_state_cleared"),
            finished(4, {"version": 2, "task_id": None, "exit_code": 0, "outcome": "no_candidates"}),
        ]
        called = call(root, environ, Script(notes), "run loop")
        assert (
            called.out
            == "Resume: session_valid.\nSay what to do.\nIdle.\nNo task.\nNo longer blocked; going on.\nNothing to run.\n"
        )
        assert (called.code, called.err) == (0, "")

    def test_a_loop_that_worked_until_nothing_was_left_says_that_it_is_done(self, root: Root, environ: dict[str, str]) -> None:
        summary = {"version": 2, "task_id": None, "exit_code": 0, "outcome": "no_candidates"}
        called = call(root, environ, Script([*STORY[:-1], finished(20, summary)]), "run loop")
        assert called.out.splitlines()[-1] == "Done: nothing is left to run."

    def test_warnings_and_errors_are_on_standard_error(self, root: Root, environ: dict[str, str]) -> None:
        error = {"version": 1, "code": "unknown", "message": "The agent failed.", "detail": "exit 3", "retryable": False}
        summary = {"version": 2, "task_id": None, "exit_code": 1, "outcome": "failed"}
        called = call(root, environ, Script([event(1, "warning", message="odd"), finished(2, summary, error=error)]), "run one")
        assert (called.code, called.out) == (1, "The run failed.\n")
        assert called.err == "cueloop: Warning: odd\ncueloop: The agent failed.\nexit 3\n"

    @pytest.mark.parametrize(("detail", "said"), [(None, ""), ("exit 3", "cueloop: exit 3\n")])
    def test_a_reason_that_was_a_warning_is_not_said_again(
        self, root: Root, environ: dict[str, str], detail: str | None, said: str
    ) -> None:
        error = {"version": 1, "code": "unknown", "message": "odd", "retryable": False, **({"detail": detail} if detail else {})}
        summary = {"version": 2, "task_id": None, "exit_code": 1, "outcome": "failed"}
        called = call(root, environ, Script([event(1, "warning", message="odd"), finished(2, summary, error=error)]), "run one")
        assert called.err == f"cueloop: Warning: odd\n{said}"

    def test_a_gap(self, root: Root, environ: dict[str, str]) -> None:
        running = {"run": {"run_id": RUN, "state": "running", "questions": []}}
        gap = notification(9, "gap", **{"from": "old:1", "to": "e:9", "snapshot": {}})
        called = call(root, environ, Script([gap, finished(10)], run_get=running), "run one")
        assert "between old:1 and e:9" in called.err
        assert called.out == "Done: RQ-1.\n"

    def test_json_is_one_event_a_line(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, Script(), "run one --json")
        assert json.loads(called.out.splitlines()[0])["kind"] == "run_started"
        assert json.loads(called.out.splitlines()[-1]) == SUMMARY

    @pytest.mark.parametrize(
        ("outcome", "mode", "code"),
        [
            ("completed", "loop", 0),
            ("no_candidates", "loop", 0),
            ("blocked", "one", 0),
            ("stalled", "loop", 1),
            ("failed", "one", 1),
            ("stopped", "loop", 0),
            ("stopped", "one", 130),
        ],
    )
    def test_exit_codes(self, root: Root, environ: dict[str, str], outcome: str, mode: str, code: int) -> None:
        summary = {"version": 2, "task_id": None, "exit_code": 1 if outcome == "failed" else 0, "outcome": outcome}
        assert call(root, environ, Script([finished(1, summary)]), f"run {mode}").code == code

    def test_a_lost_connection_is_said(self, root: Root, environ: dict[str, str]) -> None:
        script = Script([])

        def lose(connection: Connection, request: dict[str, Any]) -> None:
            del script.hooks["events.subscribe"]
            script.subscribe(connection, request)
            script.notes = STORY
            connection.send({"jsonrpc": "2.0", "method": "daemon.closing", "params": {"reason": "upgrade"}})
            connection.close()

        script.hooks["events.subscribe"] = lose
        called = call(root, environ, script, "run one")
        assert called.err == "cueloop: The daemon is being replaced; the run goes on.\n"
        assert called.out.endswith("Done: RQ-1.\n")

    def test_a_daemon_that_is_just_leaving_is_not_the_end(self, root: Root, environ: dict[str, str]) -> None:
        script = Script()

        def leave(connection: Connection, request: dict[str, Any]) -> None:
            del script.hooks["events.subscribe"]
            connection.refuse(request, shutting_down().to_wire())

        script.hooks["events.subscribe"] = leave
        assert call(root, environ, script, "run one").out.endswith("Done: RQ-1.\n")


def test_variables_that_cannot_be_sent_are_named(root: Root, environ: dict[str, str]) -> None:
    called = call(root, {**environ, "ODD": "\udcff"}, Script(), "run one")
    assert "The agents do not get these variables, which are no UTF-8: 'ODD'." in called.err
    assert called.params("run.start")[0]["env"] == environ
    assert call(root, {**environ, "ODD": "\udcff"}, Script(), "machine run one").err == ""


class TestDetached:
    def test_it_is_started_and_left(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, Script(), "run one --detach")
        assert (called.code, called.err) == (0, "")
        assert called.out == f"Run {RUN} was started and goes on by itself.\nShow it: cueloop run attach\n"
        assert called.params("events.subscribe") == []

    def test_json(self, root: Root, environ: dict[str, str]) -> None:
        assert json.loads(call(root, environ, Script(), "run loop --detach --json").out) == {"run_id": RUN}


class TestAskedBefore:
    @pytest.mark.parametrize(
        ("error", "typed", "choice"),
        [
            (VALID, "\n", "resume"),
            (VALID, "Y\n", "resume"),
            (VALID, "n\n", "fresh"),
            (TIMED_OUT, "r\n", "resume"),
            (TIMED_OUT, "f\n", "fresh"),
            (CORRUPT, "fresh\n", "fresh"),
            (asking("session_timed_out_requires_confirmation", ["fresh"]), "f\n", "fresh"),
        ],
    )
    def test_the_answer_goes_with_the_etag(
        self, root: Root, environ: dict[str, str], error: RpcError, typed: str, choice: str
    ) -> None:
        script = Script(run_start=[error, STARTED])
        called = call(root, environ, script, "run one", lines=(typed,), terminal=True)
        first, second = called.params("run.start")
        assert first["interactive"] is True
        assert "answer" not in first
        assert second["answer"] == {"choice": choice, "session_etag": ETAG}
        assert first["idempotency_key"] != second["idempotency_key"]
        assert (called.code, called.out.splitlines()[-1]) == (0, "Done: RQ-1.")

    @pytest.mark.parametrize(
        ("error", "typed"),
        [(VALID, "q\n"), (VALID, ""), (TIMED_OUT, "\n"), (TIMED_OUT, "q\n"), (CORRUPT, "\n"), (CORRUPT, "")],
    )
    def test_leaving_changes_nothing(self, root: Root, environ: dict[str, str], error: RpcError, typed: str) -> None:
        called = call(root, environ, Script(run_start=error), "run one", lines=(typed,), terminal=True)
        assert (called.code, called.out, len(called.params("run.start"))) == (130, "", 1)
        assert called.err.endswith("Left as it is: nothing was started and nothing was changed.\n")

    def test_what_is_shown(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, Script(run_start=VALID), "run one", lines=("frob\n", "q\n"), terminal=True)
        assert called.err == (
            "Interrupted session of RQ-1\n"
            "  age         2 hours\n"
            "  started     2026-02-07T10:00:00Z\n"
            "  phase       2 (implement)\n"
            "  iterations  1 of 2 done\n"
            "  runner      claude, model sonnet\n"
            "  tasks       0 done in this loop, at most 10\n"
            "Resume it? (y: resume, n: start fresh, q: leave) [Y/n/q] 'frob' is no answer here.\n"
            "Resume it? (y: resume, n: start fresh, q: leave) [Y/n/q] "
            "Left as it is: nothing was started and nothing was changed.\n"
        )

    def test_what_is_shown_where_there_is_a_reason_to_hesitate(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, Script(run_start=TIMED_OUT), "run one", lines=("q\n",), terminal=True)
        reason = "Resume: session_timed_out_requires_confirmation.\nSay what to do.\n  age         2 hours\n"
        assert called.err.startswith(reason)

    @pytest.mark.parametrize(
        ("error", "prompt"), [(TIMED_OUT, "[r/f/Q] "), (CORRUPT, "[f/Q] "), (asking("session_valid", ["resume"]), "[r/Q] ")]
    )
    def test_the_prompts(self, root: Root, environ: dict[str, str], error: RpcError, prompt: str) -> None:
        assert prompt in call(root, environ, Script(run_start=error), "run one", lines=("q\n",), terminal=True).err

    def test_a_file_that_changed_meanwhile_is_asked_about_anew(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(run_start=[VALID, confirmation_stale("etag-2"), TIMED_OUT, STARTED])
        called = call(root, environ, script, "run one", lines=("y\n", "r\n"), terminal=True)
        answers = [params.get("answer") for params in called.params("run.start")]
        assert answers == [None, {"choice": "resume", "session_etag": ETAG}, None, {"choice": "resume", "session_etag": ETAG}]
        assert "cueloop: The session changed after the question was asked.\n" in called.err
        assert called.code == 0

    def test_where_there_is_no_choice_it_is_explained(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, Script(run_start=asking("session_cache_corrupt", [])), "run one", terminal=True)
        assert (called.code, called.out) == (1, "")
        assert called.err == "cueloop: Resume: session_cache_corrupt.\nSay what to do.\n"

    @pytest.mark.parametrize(("line", "terminal"), [("run one", False), ("run one --non-interactive", True)])
    def test_where_nobody_can_be_asked_the_run_decides(
        self, root: Root, environ: dict[str, str], line: str, terminal: bool
    ) -> None:
        called = call(root, environ, Script(), line, terminal=terminal)
        assert "interactive" not in called.params("run.start")[0]

    def test_an_error_that_is_no_question(self, root: Root, environ: dict[str, str]) -> None:
        refused = document_unusable("queue_corrupted", "The queue is bad.", "Mend it.")
        called = call(root, environ, Script(run_start=refused), "run one", terminal=True)
        assert (called.code, called.err) == (1, "cueloop: The queue is bad.\nMend it.\n")


class TestWithoutATerminal:
    def test_ctrl_c_once_stops_twice_cancels(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(STORY[:2])

        def cancel(connection: Connection, request: dict[str, Any]) -> None:
            script.tell(finished(7, STOPPED))
            connection.answer(request, {"run_id": RUN, "summary": STOPPED})

        script.hooks["run.cancel"] = cancel
        with serving(root, environ, script) as daemon, as_process(root, environ, "run loop") as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "== RQ-1: Do it\n"
            process.send_signal(signal.SIGINT)
            assert "stops after the current task. Ctrl-C again cancels it now." in process.stderr.readline()
            daemon.await_message(lambda m: m["method"] == "run.stop")
            process.send_signal(signal.SIGINT)
            assert "Cancelling" in process.stderr.readline()
            assert process.wait(SECONDS) == 130
            assert process.stdout.read() == "Stopped.\n"
        assert [m["method"] for m in daemon.received][-2:] == ["run.stop", "run.cancel"]

    def test_stopped_once_a_loop_ends_with_0(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(STORY[:2])

        def stop(connection: Connection, request: dict[str, Any]) -> None:
            connection.answer(request, {"run_id": RUN, "state": "stopping"})
            script.tell(finished(7, STOPPED))

        script.hooks["run.stop"] = stop
        with serving(root, environ, script), as_process(root, environ, "run loop") as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 0

    def test_three_times_leaves_it_cancelling(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(STORY[:2])
        script.hooks |= {"run.cancel": lambda connection, request: None}
        with serving(root, environ, script) as daemon, as_process(root, environ, "run one") as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            for words, method in (("goes on to its end", "run.stop"), ("Cancelling", "run.cancel")):
                process.send_signal(signal.SIGINT)
                assert words in process.stderr.readline()
                daemon.await_message(lambda message, method=method: message["method"] == method)
            process.send_signal(signal.SIGINT)
            assert "Left while the run is being cancelled" in process.stderr.readline()
            assert process.wait(SECONDS) == 130
        assert [m["method"] for m in daemon.received][-2:] == ["run.stop", "run.cancel"]

    def test_term_leaves_the_run(self, root: Root, environ: dict[str, str]) -> None:
        with serving(root, environ, Script(STORY[:2])) as daemon, as_process(root, environ, "run one") as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, "goes on by itself" in err) == (143, True)
        assert not [m for m in daemon.received if m["method"] in ("run.cancel", "run.stop")]

    def test_a_daemon_that_does_not_answer_the_start_can_be_left(self, root: Root, environ: dict[str, str]) -> None:
        script = Script()
        script.hooks["run.start"] = lambda connection, request: None
        with serving(root, environ, script) as daemon, as_process(root, environ, "--timeout 60 run one") as process:
            daemon.await_message(lambda m: m["method"] == "run.start")
            process.send_signal(signal.SIGINT)  # kept, to be obeyed when there is a run
            process.send_signal(signal.SIGTERM)  # another signal, since two of the same may count as one
            _, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, "not known. Look: cueloop run status" in err) == (130, True)

    def test_a_closed_pipe_leaves_the_run(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(STORY[:2])
        with serving(root, environ, script) as daemon, as_process(root, environ, "run one") as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.close()
            script.tell(STORY[2])
            assert process.wait(SECONDS) == 141
        assert not [m for m in daemon.received if m["method"] in ("run.cancel", "run.stop")]
