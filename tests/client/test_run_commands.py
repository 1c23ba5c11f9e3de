"""`cueloop run stop|cancel|status|attach|output` and `--dry-run`."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from client.fakes import Connection, serving
from client.run_fakes import RUN, STOPPED, STORY, SUMMARY, Script, call, event, finished
from client.run_terminal import SECONDS, as_process, on_terminal
from client.test_run_people import decision
from client.test_run_terminal import PROMPT, QUESTION
from cueloop_protocol.codes import NO_SUCH_RUN, RpcError
from cueloop_protocol.roots import Root

NONE = RpcError(NO_SUCH_RUN, "There is no such run.")


def record(**members: Any) -> dict[str, Any]:
    return {
        "run_id": RUN,
        "mode": "loop",
        "state": "running",
        "task_id": "RQ-1",
        "phase": "review",
        "started_at": "2026-02-07T10:00:00Z",
        "output_bytes": 12,
        "questions": [],
        **members,
    }


OVER = record(state="finished", finished_at="2026-02-07T11:00:00Z", summary=SUMMARY, mode="one")


def listing(*records: dict[str, Any]) -> dict[str, Any]:
    return {"runs": list(records), "more": False}


class TestStopAndCancel:
    def test_stop(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, Script(), "run stop")
        assert (called.code, called.out) == (0, f"Run {RUN} ends after its current task.\n")
        assert called.params("run.stop") == [{}]

    def test_cancel_names_the_run_and_waits(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, Script(), f"run cancel --run-id {RUN}")
        assert called.code == 0
        assert f"Run {RUN} is over." in called.out
        assert called.params("run.cancel") == [{"run_id": RUN}]

    @pytest.mark.parametrize("command", ["stop", "cancel"])
    def test_json(self, root: Root, environ: dict[str, str], command: str) -> None:
        script = Script()
        assert json.loads(call(root, environ, script, f"run {command} --json").out) == script.answers[f"run.{command}"]

    @pytest.mark.parametrize("command", ["stop", "cancel"])
    def test_with_no_run(self, root: Root, environ: dict[str, str], command: str) -> None:
        script = Script(config_resolve={"document": {}}, run_stop=NONE, run_cancel=NONE)
        called = call(root, environ, script, f"run {command}")
        assert (called.code, called.err) == (1, "cueloop: No run is active here.\nThe last one: cueloop run status\n")

    def test_with_another_tools_run_it_is_said_how_that_is_stopped(self, root: Root, environ: dict[str, str]) -> None:
        lock = {"label": "run loop", "pid": 7, "live": True}
        called = call(root, environ, Script(config_resolve={"document": {}, "queue_lock": lock}, run_stop=NONE), "run stop")
        assert called.code == 1
        assert "another tool (run loop)" in called.err
        assert "cueloop machine run stop" in called.err

    def test_a_run_that_does_not_exist(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, Script(run_stop=NONE), "run stop --run-id x")
        assert (called.code, called.err) == (1, "cueloop: There is no such run.\n")


class TestStatus:
    def test_the_active_run(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, Script(run_list=listing(record(decision=decision("session_valid")))), "run status")
        assert called.out == (
            f"Run {RUN} is running.\n"
            "  mode       loop\n"
            "  task       RQ-1\n"
            "  phase      review\n"
            "  started    2026-02-07T10:00:00Z\n"
            "  decision   Resume: session_valid.\n"
            "  output     12 bytes\n"
            "\n"
            "Show it: cueloop run attach\n"
        )

    def test_one_that_asks(self, root: Root, environ: dict[str, str]) -> None:
        asking = record(state="asking", questions=[QUESTION])
        called = call(root, environ, Script(run_list=listing(asking)), "run status")
        assert "It asks: What becomes of the changes?\n  The CI gate failed.\n\nAnswer it: cueloop run attach\n" in called.out

    def test_one_that_is_over_and_why(self, root: Root, environ: dict[str, str]) -> None:
        error = {"version": 1, "code": "unknown", "message": "It failed.", "detail": "Exit 3.", "retryable": False}
        blocking = {"status": "stalled", "message": "Stalled.", "detail": "", "reason": {"kind": "idle"}}
        summary = {"version": 2, "task_id": None, "exit_code": 1, "outcome": "failed", "blocking": blocking}
        called = call(
            root, environ, Script(run_get={"run": {**OVER, "summary": summary, "error": error}}), f"run status --run-id {RUN}"
        )
        assert "  outcome    failed, exit code 1\n  blocked    Stalled.\n  because    It failed. Exit 3.\n" in called.out
        assert called.out.endswith("Its output: cueloop run output\n")

    def test_json(self, root: Root, environ: dict[str, str]) -> None:
        assert json.loads(call(root, environ, Script(run_list=listing(OVER)), "run status --json").out) == {"run": OVER}

    def test_no_run_ever(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, Script(run_list=listing()), "run status")
        assert (called.code, called.err) == (1, "cueloop: No run was ever started here.\nStart one: cueloop run one\n")


class TestAttach:
    def test_it_shows_what_comes_and_ends_like_the_run(self, root: Root, environ: dict[str, str]) -> None:
        failed = {"version": 2, "task_id": None, "exit_code": 1, "outcome": "failed"}
        script = Script(
            [event(8, "warning", message="late"), finished(9, failed)], run_list=listing(record()), run_get={"run": record()}
        )
        called = call(root, environ, script, "run attach")
        where = "-- Phase review of RQ-1 goes on. Its output so far: cueloop run output"
        assert (called.code, called.out) == (1, f"Run {RUN} is running.\n{where}\nThe run failed.\n")
        assert called.err == "cueloop: Warning: late\n"
        (params,) = called.params("events.subscribe")
        assert (params["run_id"], "cursor" in params) == (RUN, False)

    def test_a_run_that_has_no_task_yet(self, root: Root, environ: dict[str, str]) -> None:
        early = record(state="starting", task_id=None, phase=None)
        called = call(root, environ, Script([finished(9)], run_list=listing(early), run_get={"run": early}), "run attach")
        assert called.out.splitlines()[:-1] == [f"Run {RUN} is starting."]

    def test_a_run_that_ended_just_then(self, root: Root, environ: dict[str, str]) -> None:
        script = Script([], run_list=listing(record(mode="one")), run_get={"run": OVER})
        called = call(root, environ, script, "run attach")
        assert (called.code, called.out.splitlines()[-1]) == (0, "Done: RQ-1.")
        order = [message["method"] for message in called.received]
        assert order == ["run.list", "events.subscribe", "run.get"]

    def test_one_that_is_over(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, Script([], run_get={"run": OVER}), f"run attach --run-id {RUN}")
        assert (called.code, called.out) == (0, "Done: RQ-1.\n")

    def test_json(self, root: Root, environ: dict[str, str]) -> None:
        script = Script([finished(9)], run_list=listing(record()), run_get={"run": record()})
        called = call(root, environ, script, "run attach --json")
        assert (json.loads(called.out), called.err) == (SUMMARY, "")

    def test_with_no_run(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, Script(config_resolve={"document": {}}, run_list=listing(OVER)), "run attach")
        assert (called.code, "No run is active here." in called.err) == (1, True)

    def test_a_run_that_is_forgotten_meanwhile(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, Script([], run_list=listing(record()), run_get=NONE), "run attach")
        assert (called.code, called.err) == (1, "cueloop: There is no such run.\n")

    def test_a_question_that_is_open_is_asked(self, root: Root, environ: dict[str, str]) -> None:
        asking = record(state="asking", questions=[QUESTION])
        script = Script([], run_list=listing(asking), run_get={"run": asking})
        script.hooks["run.answer"] = lambda connection, request: script.tell(finished(9))
        with serving(root, environ, script) as daemon, on_terminal(root, environ, "run attach") as terminal:
            terminal.await_text(PROMPT)
            terminal.type("revert\n")
            assert terminal.end() == 0
        answer = next(message["params"] for message in daemon.received if message["method"] == "run.answer")
        assert answer == {"run_id": RUN, "question_id": "q1", "choice": "revert"}

    def test_ctrl_c_means_the_same_as_where_it_was_started(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(STORY[:2], run_list=listing(record()), run_get={"run": record()})
        script.hooks["run.stop"] = lambda connection, request: script.tell(finished(9, STOPPED))
        with serving(root, environ, script), as_process(root, environ, "run attach") as process:
            assert process.stdout is not None
            while process.stdout.readline() != "== RQ-1: Do it\n":
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 0


def outputs(text: str, *, is_over: bool = True, step: int = 4) -> Any:
    """A handler of `run.output` that gives so many bytes at a time."""

    def handle(connection: Connection, request: dict[str, Any]) -> None:
        offset = request["params"]["offset"]
        piece = text[offset : offset + step]
        after = offset + len(piece)
        told = {"run_id": RUN, "offset": offset, "next_offset": after, "total": len(text), "text": piece}
        connection.answer(request, {**told, "complete": is_over and after == len(text)})

    return handle


class TestOutput:
    def test_all_of_it(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(run_list=listing(OVER))
        script.hooks["run.output"] = outputs("worked well\n")
        called = call(root, environ, script, "run output")
        assert (called.code, called.out) == (0, "worked well\n")
        assert [params["offset"] for params in called.params("run.output")] == [0, 4, 8]

    def test_from_an_offset(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(run_get={"run": OVER})
        script.hooks["run.output"] = outputs("worked well\n")
        assert call(root, environ, script, f"run output --run-id {RUN} --offset 7").out == "well\n"

    def test_of_a_run_that_goes_on_it_ends_where_it_stands(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(run_list=listing(record()))
        script.hooks["run.output"] = outputs("so far", is_over=False)
        assert call(root, environ, script, "run output").out == "so far"

    def test_follow_goes_on_to_the_end(self, root: Root, environ: dict[str, str]) -> None:
        script = Script([], run_list=listing(record()))
        script.hooks["run.output"] = outputs("so far", is_over=False)
        with serving(root, environ, script) as daemon, as_process(root, environ, "run output --follow") as process:
            daemon.await_message(lambda m: m["method"] == "events.subscribe")
            script.hooks["run.output"] = outputs("so far and on\n")
            script.tell(event(9, "runner_output", stream="combined", payload={"text": " and on\n"}))
            out, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, out, err) == (0, "so far and on\n", "")

    def test_json_is_one_piece(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(run_list=listing(OVER))
        script.hooks["run.output"] = outputs("worked well\n")
        assert json.loads(call(root, environ, script, "run output --json").out)["next_offset"] == 4


def overview(*rows: tuple[str, str, bool], blocking: str | None = None, active_run: object = None) -> dict[str, Any]:
    """An overview whose tasks have this id, status and runnability."""
    tasks = [{"id": name, "title": f"Title of {name}", "status": status} for name, status, _ in rows]
    reports = [
        {
            "id": name,
            "kind": "work_item",
            "status": status,
            "runnable": runnable,
            "reasons": [] if runnable else [{"kind": "draft_excluded" if status == "draft" else "unmet_dependencies"}],
        }
        for name, status, runnable in rows
    ]
    summary = {} if blocking is None else {"blocking": {"message": blocking}}
    queue = {"active": {"tasks": tasks}, "runnability": {"summary": summary, "tasks": reports}}
    return {"document": {"queue": queue}, **({} if active_run is None else {"active_run": active_run})}


TASKS = (("RQ-1", "todo", False), ("RQ-2", "todo", True), ("RQ-3", "doing", True), ("RQ-4", "draft", False))


class TestDryRun:
    def dry(self, root: Root, environ: dict[str, str], line: str, preview: object = None, **over: Any) -> Any:
        rows = over.pop("rows", TASKS)
        script = Script(resume_preview=preview or {"settling": False}, workspace_overview=overview(*rows, **over))
        called = call(root, environ, script, line)
        assert {message["method"] for message in called.received} <= {"resume.preview", "workspace.overview", "config.resolve"}
        return called

    @pytest.mark.parametrize(
        ("line", "task"),
        [
            ("run one --dry-run", "RQ-3 (doing)"),
            ("run one --dry-run --id RQ-2", "RQ-2 (todo)"),
            ("run loop --dry-run", "RQ-3 (doing)"),
            ("run one --dry-run --id RQ-4 --include-draft", "RQ-4 (draft)"),
        ],
    )
    def test_the_task_that_would_run(self, root: Root, environ: dict[str, str], line: str, task: str) -> None:
        called = self.dry(root, environ, line)
        name = task.split()[0]
        assert called.out == f"No interrupted session.\nTask: {task}: Title of {name}\nNothing was changed.\n"
        assert called.code == 0

    @pytest.mark.parametrize("line", ["run one --dry-run --id RQ-1", "run one --dry-run --id RQ-4", "run one --dry-run --id x"])
    def test_none_would(self, root: Root, environ: dict[str, str], line: str) -> None:
        assert self.dry(root, environ, line).out == "No interrupted session.\nNo task can be run.\nNothing was changed.\n"

    def test_why_none_would(self, root: Root, environ: dict[str, str]) -> None:
        called = self.dry(root, environ, "run one --dry-run", rows=TASKS[:1], blocking="Blocked by dependencies.")
        assert "Blocked by dependencies.\n" in called.out

    def test_the_resumed_one(self, root: Root, environ: dict[str, str]) -> None:
        told = decision("session_valid", status="resuming_same_session", task_id="RQ-2")
        called = self.dry(root, environ, "run resume --dry-run", {"decision": told, "settling": False})
        assert called.out.splitlines()[:3] == ["Resume: session_valid.", "Say what to do.", "Task: RQ-2 (todo): Title of RQ-2"]
        assert called.params("resume.preview")[0]["request"] == {"mode": "resume"}

    def test_a_refusal(self, root: Root, environ: dict[str, str]) -> None:
        told = decision("resume_confirmation_required", task_id="RQ-2")
        called = self.dry(
            root, environ, "run one --dry-run", {"decision": told, "choices": ["resume", "fresh"], "settling": False}
        )
        assert called.code == 1
        assert called.out == "Resume: resume_confirmation_required.\nSay what to do.\nNothing was changed.\n"

    def test_on_a_terminal_it_would_be_asked(self, root: Root, environ: dict[str, str]) -> None:
        told = decision("resume_confirmation_required", task_id="RQ-2")
        preview = {"decision": told, "choices": ["resume", "fresh"], "settling": False}
        script = Script(resume_preview=preview, workspace_overview=overview(*TASKS))
        called = call(root, environ, script, "run one --dry-run", terminal=True)
        assert (called.code, "You would be asked what to do about it.\n" in called.out) == (0, True)
        assert called.params("resume.preview")[0]["request"] == {"mode": "one", "interactive": True}

    def test_a_run_that_is_active(self, root: Root, environ: dict[str, str]) -> None:
        called = self.dry(root, environ, "run one --dry-run", active_run={"run_id": "r9"})
        assert "Run r9 is active: another one cannot be started before it is over.\n" in called.out

    def test_json(self, root: Root, environ: dict[str, str]) -> None:
        called = self.dry(root, environ, "run one --dry-run --json")
        assert json.loads(called.out) == {
            "would_ask": False,
            "task": {"id": "RQ-3", "title": "Title of RQ-3", "status": "doing"},
        }
