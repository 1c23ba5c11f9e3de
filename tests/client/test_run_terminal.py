"""Runs on a real terminal: the question before a run, the questions in the middle, Ctrl-C, a terminal that goes away."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from client.fakes import Connection, FakeDaemon, serving
from client.run_fakes import RUN, STOPPED, STORY, Script, finished, notification
from client.run_terminal import CONTROL_C, CONTROL_D, SECONDS, on_terminal
from client.test_run_people import ETAG, STARTED, TIMED_OUT, VALID
from cueloop_protocol.codes import RpcError
from cueloop_protocol.roots import Root

QUESTION = {
    "question_id": "q1",
    "run_id": RUN,
    "task_id": "RQ-1",
    "message": "What becomes of the changes?",
    "detail": "The CI gate failed.",
    "choices": [
        {"choice": "keep", "title": "leave them", "takes_text": False},
        {"choice": "revert", "title": "take them back", "takes_text": False},
        {"choice": "continue", "title": "tell the agent to go on", "takes_text": True},
    ],
    "default": "keep",
    "asked_at": "2026-02-07T10:00:00Z",
    "expires_at": "2026-02-07T11:00:00Z",
}
PROMPT = "[KEEP/revert/continue] "


def question(seq: int, **members: Any) -> dict[str, Any]:
    return notification(seq, "question", revision=seq, run_id=RUN, question={**QUESTION, **members})


def resolved(seq: int, choice: str, by: str, question_id: str = "q1") -> dict[str, Any]:
    return notification(seq, "question.resolved", revision=seq, run_id=RUN, question_id=question_id, choice=choice, by=by)


def asked(daemon: FakeDaemon, method: str) -> list[dict[str, Any]]:
    return [message["params"] for message in daemon.received if message["method"] == method]


class TestBefore:
    def test_enter_resumes(self, root: Root, environ: dict[str, str]) -> None:
        with (
            serving(root, environ, Script(run_start=[VALID, STARTED])) as daemon,
            on_terminal(root, environ, "run one") as terminal,
        ):
            shown = terminal.await_text("[Y/n/q] ")
            for words in ("2 hours", "2 (implement)", "1 of 2 done", "claude, model sonnet"):
                assert words in shown
            terminal.type("\n")
            terminal.await_text("Done: RQ-1.")
            assert terminal.end() == 0
        assert asked(daemon, "run.start")[1]["answer"] == {"choice": "resume", "session_etag": ETAG}

    @pytest.mark.parametrize("key", [CONTROL_C, CONTROL_D])
    def test_ctrl_c_and_the_end_of_input_leave_everything_as_it_is(self, root: Root, environ: dict[str, str], key: str) -> None:
        with serving(root, environ, Script(run_start=TIMED_OUT)) as daemon, on_terminal(root, environ, "run loop") as terminal:
            terminal.await_text("[r/f/Q] ")
            terminal.type(key)
            terminal.await_text("nothing was started and nothing was changed.")
            assert terminal.end() == 130
        assert len(asked(daemon, "run.start")) == 1

    def test_non_interactive_asks_nothing(self, root: Root, environ: dict[str, str]) -> None:
        with serving(root, environ, Script()) as daemon, on_terminal(root, environ, "run one --non-interactive") as terminal:
            assert terminal.end() == 0
        assert "interactive" not in asked(daemon, "run.start")[0]


class TestInTheMiddle:
    @pytest.mark.parametrize(
        ("typed", "told"),
        [
            ("\n", {"choice": "keep"}),
            ("revert\n", {"choice": "revert"}),
            ("R\n", {"choice": "revert"}),
            ("continue\nuse less memory\n", {"choice": "continue", "text": "use less memory"}),
            ("c\n\n", {"choice": "continue"}),
        ],
    )
    def test_an_answer(self, root: Root, environ: dict[str, str], typed: str, told: dict[str, str]) -> None:
        script = Script([*STORY[:4], question(5)])

        def answer(connection: Connection, request: dict[str, Any]) -> None:
            connection.answer(request, {"run_id": RUN, "question_id": "q1", "choice": told["choice"], "first": True})
            script.tell(resolved(6, told["choice"], "answer"))
            script.tell(finished(7))

        script.hooks["run.answer"] = answer
        with serving(root, environ, script) as daemon, on_terminal(root, environ, "run one") as terminal:
            shown = terminal.await_text(PROMPT)
            for words in ("worked\n", "What becomes of the changes?", "The CI gate failed.", "revert: take them back"):
                assert words in shown
            first, *more = typed.splitlines(keepends=True)
            terminal.type(first)
            for line in more:
                terminal.await_text("What shall the agent be told?")
                terminal.type(line)
            assert "settled" not in terminal.await_text("Done: RQ-1.")
            assert terminal.end() == 0
        assert asked(daemon, "run.answer") == [{"run_id": RUN, "question_id": "q1", **told}]

    def test_what_is_no_answer_is_asked_again(self, root: Root, environ: dict[str, str]) -> None:
        script = Script([question(5)])
        script.hooks["run.answer"] = lambda connection, request: script.tell(finished(7))
        with serving(root, environ, script) as daemon, on_terminal(root, environ, "run one") as terminal:
            terminal.await_text(PROMPT)
            terminal.type("frob\n")
            terminal.await_text("'frob' is none of keep, revert, continue.")
            terminal.await_text(PROMPT)
            terminal.type("keep\n")
            assert terminal.end() == 0
        assert len(asked(daemon, "run.answer")) == 1

    def test_what_was_typed_before_is_no_answer(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(STORY[:2])
        script.hooks["run.answer"] = lambda connection, request: script.tell(finished(7))
        with serving(root, environ, script) as daemon, on_terminal(root, environ, "run one") as terminal:
            terminal.await_text("Do it")
            terminal.type("revert\n")
            terminal.await_text("revert\n")  # the terminal's own echo: it is in the line discipline now
            script.tell(question(5))
            terminal.await_text(PROMPT)
            terminal.type("keep\n")
            assert terminal.end() == 0
        assert [params["choice"] for params in asked(daemon, "run.answer")] == ["keep"]

    @pytest.mark.parametrize(("by", "words"), [("timeout", "nobody answered in time"), ("answer", "answered elsewhere")])
    def test_one_that_is_settled_otherwise_is_taken_back(self, root: Root, environ: dict[str, str], by: str, words: str) -> None:
        script = Script([question(5)])
        with serving(root, environ, script) as daemon, on_terminal(root, environ, "run one") as terminal:
            terminal.await_text(PROMPT)
            script.tell(resolved(6, "keep", by))
            terminal.await_text(f"The question is settled ({words}): keep.")
            terminal.type("revert\n")
            terminal.await_text("revert\n")
            script.tell(finished(7))
            assert terminal.end() == 0
        assert asked(daemon, "run.answer") == []

    def test_one_after_the_other(self, root: Root, environ: dict[str, str]) -> None:
        script = Script([question(5), question(6, question_id="q2", message="And now?")])

        def answer(connection: Connection, request: dict[str, Any]) -> None:
            name = request["params"]["question_id"]
            connection.answer(request, {"run_id": RUN, "question_id": name, "choice": "keep", "first": True})
            script.tell(resolved(int(name[1]) + 6, "keep", "answer", name))
            if name == "q2":
                script.tell(finished(9))

        script.hooks["run.answer"] = answer
        with serving(root, environ, script) as daemon, on_terminal(root, environ, "run one") as terminal:
            assert "And now?" not in terminal.await_text(PROMPT)
            terminal.type("keep\n")
            assert "And now?" in terminal.await_text(PROMPT)
            terminal.type("keep\n")
            assert terminal.end() == 0
        assert [params["question_id"] for params in asked(daemon, "run.answer")] == ["q1", "q2"]

    def test_the_end_of_input_leaves_it_open(self, root: Root, environ: dict[str, str]) -> None:
        script = Script([question(5)])
        with serving(root, environ, script) as daemon, on_terminal(root, environ, "run one") as terminal:
            terminal.await_text(PROMPT)
            terminal.type(CONTROL_D)
            terminal.await_text("Left unanswered. Answer it elsewhere: cueloop run attach")
            script.tell(resolved(6, "revert", "answer"))
            terminal.await_text("answered elsewhere): revert.")
            script.tell(finished(7))
            assert terminal.end() == 0
        assert asked(daemon, "run.answer") == []

    def test_an_answer_that_came_too_late(self, root: Root, environ: dict[str, str]) -> None:
        script = Script([question(5)])

        def answer(connection: Connection, request: dict[str, Any]) -> None:
            connection.refuse(request, RpcError(-32008, "The question is settled.").to_wire())
            script.tell(finished(7))

        script.hooks["run.answer"] = answer
        with serving(root, environ, script), on_terminal(root, environ, "run one") as terminal:
            terminal.await_text(PROMPT)
            terminal.type("keep\n")
            assert "The question is settled." in terminal.await_text("Done: RQ-1.")
            assert terminal.end() == 0

    def test_somebody_elses_answer_that_was_first_is_said(self, root: Root, environ: dict[str, str]) -> None:
        script = Script([question(5)])

        def answer(connection: Connection, request: dict[str, Any]) -> None:
            connection.answer(request, {"run_id": RUN, "question_id": "q1", "choice": "revert", "first": False})
            script.tell(resolved(6, "revert", "answer"))

        script.hooks["run.answer"] = answer
        with serving(root, environ, script), on_terminal(root, environ, "run one") as terminal:
            terminal.await_text(PROMPT)
            terminal.type("keep\n")
            terminal.await_text("It was answered elsewhere before: revert.")
            script.tell(finished(7))
            assert terminal.end() == 0

    def test_with_nobody_to_ask_it_is_said_how_to_answer(self, root: Root, environ: dict[str, str]) -> None:
        script = Script([question(5), finished(6)])
        with serving(root, environ, script), on_terminal(root, environ, "run one --non-interactive") as terminal:
            assert "until 2026-02-07T11:00:00Z; then: keep" in terminal.await_text("Done: RQ-1.")


class TestKeys:
    def test_ctrl_c_twice_cancels(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(STORY[:2])

        def cancel(connection: Connection, request: dict[str, Any]) -> None:
            script.tell(finished(7, STOPPED))
            connection.answer(request, {"run_id": RUN, "summary": STOPPED})

        script.hooks["run.cancel"] = cancel
        with serving(root, environ, script), on_terminal(root, environ, "run loop") as terminal:
            terminal.await_text("Do it")
            terminal.type(CONTROL_C)
            terminal.await_text("The run stops after the current task. Ctrl-C again cancels it now.")
            terminal.type(CONTROL_C)
            terminal.await_text("Cancelling")
            terminal.await_text("Stopped.")
            assert terminal.end() == 130

    def test_ctrl_c_while_a_question_is_open_stops_and_leaves_it_open(self, root: Root, environ: dict[str, str]) -> None:
        script = Script([question(5)])
        script.hooks["run.answer"] = lambda connection, request: script.tell(finished(7, STOPPED))
        with serving(root, environ, script) as daemon, on_terminal(root, environ, "run loop") as terminal:
            terminal.await_text(PROMPT)
            terminal.type(CONTROL_C)
            terminal.await_text("Ctrl-C again cancels it now.")
            daemon.await_message(lambda m: m["method"] == "run.stop")
            terminal.type("keep\n")
            assert terminal.end() == 0
        assert len(asked(daemon, "run.answer")) == 1

    def test_a_terminal_that_goes_away_leaves_the_run_d14(self, root: Root, environ: dict[str, str]) -> None:
        with serving(root, environ, Script(STORY[:2])) as daemon, on_terminal(root, environ, "run one") as terminal:
            terminal.await_text("Do it")
            terminal.hang_up()
            assert terminal.process.wait(SECONDS) == -signal.SIGHUP
        assert not asked(daemon, "run.cancel")
        assert not asked(daemon, "run.stop")
