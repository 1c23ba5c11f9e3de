"""`cueloop machine run one|loop`: NDJSON alone on standard output, one error document on standard error, the exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from client.fakes import Connection, serving
from client.run_fakes import RUN, STOPPED, STORY, SUMMARY, Script, call, event, finished, notification
from client.run_terminal import CUELOOP, SECONDS, as_process
from cueloop_protocol.codes import RpcError, document_unusable
from cueloop_protocol.roots import Root

FAILED = {"version": 2, "task_id": None, "exit_code": 1, "outcome": "failed"}
RUNNING = {"run": {"run_id": RUN, "mode": "one", "state": "running", "started_at": "t", "output_bytes": 0, "questions": []}}

PARALLEL = {"document": {"safety": {"parallel_configured": True}}}


def test_the_events_of_the_run_and_the_summary_last(root: Root, environ: dict[str, str]) -> None:
    called = call(root, environ, Script(), "machine run one")
    told = [json.loads(line) for line in called.out.splitlines()]
    assert told == [*(note["params"]["event"] for note in STORY[:-1]), SUMMARY]
    assert (called.code, called.err) == (0, "")


def test_the_keys_of_an_event_keep_their_order(root: Root, environ: dict[str, str]) -> None:
    first = call(root, environ, Script(), "machine run one").out.splitlines()[1]
    assert list(json.loads(first)) == ["version", "kind", "timestamp", "task_id", "message"]


def test_what_is_asked_for(root: Root, environ: dict[str, str]) -> None:
    called = call(root, environ, Script(), "machine run one --id RQ-1 --resume --force -e high --approval-mode Auto-Edits")
    (params,) = called.params("run.start")
    key = params.pop("idempotency_key")
    assert len(key) == 32
    assert params == {
        "mode": "one",
        "task_id": "RQ-1",
        "resume": True,
        "force": True,
        "overrides": {"effort": "high", "approval_mode": "auto_edits"},
        "env": environ,
        "caller": {"home": environ["HOME"]},
    }
    assert called.params("events.subscribe") == [{"run_id": RUN, "cursor": "e:0", "caller": {"home": environ["HOME"]}}]


def test_each_call_has_a_key_of_its_own(root: Root, environ: dict[str, str]) -> None:
    keys = {call(root, environ, Script(), "machine run one").params("run.start")[0]["idempotency_key"] for _ in range(3)}
    assert len(keys) == 3


def test_what_is_not_the_runs_is_left_out(root: Root, environ: dict[str, str]) -> None:
    notes = [event(1, "warning", message="a"), event(2, "config_resolved", None), event(3, "warning", "other"), finished(4)]
    told = call(root, environ, Script(notes), "machine run loop").out.splitlines()
    assert [json.loads(line).get("kind") for line in told] == ["warning", None]


def test_text_of_any_language_and_half_a_character(root: Root, environ: dict[str, str]) -> None:
    notes = [event(1, "runner_output", stream="combined", payload={"text": "é 日本 \u2028 \x1b[1m"}), finished(2)]
    line = call(root, environ, Script(notes), "machine run one").out.split("\n")[0]
    assert json.loads(line)["payload"]["text"] == "é 日本 \u2028 \x1b[1m"
    assert "日本" in line
    notes = [event(1, "runner_output", stream="combined", payload={"text": "\ud800"}), finished(2)]
    line = call(root, environ, Script(notes), "machine run one").out.split("\n")[0]
    assert json.loads(line)["payload"]["text"] == "\ud800"


def test_a_failure_is_the_summary_and_an_error_document(root: Root, environ: dict[str, str]) -> None:
    error = {"version": 1, "code": "cli_unavailable", "message": "no claude", "retryable": False}
    called = call(root, environ, Script([finished(1, FAILED, error=error)]), "machine run one")
    assert (called.code, json.loads(called.out), json.loads(called.err)) == (1, FAILED, error)


@pytest.mark.parametrize("exit_code", [0, 1, 3])
def test_the_exit_code_is_the_summarys(root: Root, environ: dict[str, str], exit_code: int) -> None:
    summary = {"version": 2, "task_id": None, "exit_code": exit_code, "outcome": "stalled"}
    assert call(root, environ, Script([finished(1, summary)]), "machine run loop").code == exit_code


def test_what_fails_before_the_run_is_one_error_document_alone(root: Root, environ: dict[str, str]) -> None:
    refused = document_unusable("config_incompatible", "The config is bad.", "Key x.")
    called = call(root, environ, Script(run_start=refused), "machine run one")
    assert (called.code, called.out) == (1, "")
    assert json.loads(called.err)["code"] == "config_incompatible"


def test_nobody_is_asked_even_on_a_terminal(root: Root, environ: dict[str, str]) -> None:
    called = call(root, environ, Script(), "machine run one", terminal=True)
    assert "interactive" not in called.params("run.start")[0]


class TestLostConnections:
    def test_a_request_whose_answer_is_lost_is_sent_again_with_its_key(self, root: Root, environ: dict[str, str]) -> None:
        script = Script()

        def lose_the_first(connection: Connection, request: dict[str, Any]) -> None:
            del script.hooks["run.start"]
            connection.close()

        script.hooks["run.start"] = lose_the_first
        called = call(root, environ, script, "machine run one")
        first, second = called.params("run.start")
        assert first == second
        assert called.code == 0

    def test_it_gives_up_after_three_times(self, root: Root, environ: dict[str, str]) -> None:
        script = Script()
        script.hooks["run.start"] = lambda connection, request: connection.close()
        called = call(root, environ, script, "machine run one")
        assert (called.code, len(called.params("run.start"))) == (1, 3)
        assert json.loads(called.err)["code"] == "unknown"

    def test_the_stream_goes_on_after_the_last_event_that_came(self, root: Root, environ: dict[str, str]) -> None:
        script = Script()

        def cut(connection: Connection, request: dict[str, Any]) -> None:
            number = len(script.subscribers)
            script.subscribe(connection, request)
            if number < 3:  # the first three subscribers get two more notes each and half of the next one
                connection.close()

        script.hooks["events.subscribe"] = cut
        plain = script.subscribe

        def some(connection: Connection, request: dict[str, Any]) -> None:
            after = int(request["params"]["cursor"].split(":")[1])
            whole = script.notes
            if len(script.subscribers) < 3:
                script.notes = [note for note in whole if int(note["params"]["cursor"].split(":")[1]) <= after + 2]
            plain(connection, request)
            script.notes = whole
            if len(script.subscribers) <= 3:
                connection.raw(json.dumps(STORY[-1]).encode()[:40])

        script.subscribe = some  # type: ignore[method-assign]
        called = call(root, environ, script, "machine run one")
        told = [json.loads(line) for line in called.out.splitlines()]
        assert told == [*(note["params"]["event"] for note in STORY[:-1]), SUMMARY]
        assert [params["cursor"] for params in called.params("events.subscribe")] == ["e:0", "e:2", "e:4", "e:6"][
            : len(script.subscribers)
        ]
        assert called.err == ""

    def test_a_gap_is_said_and_the_end_that_was_lost_is_looked_up(self, root: Root, environ: dict[str, str]) -> None:
        record = {**RUNNING["run"], "state": "finished", "finished_at": "t", "summary": SUMMARY}
        gap = notification(9, "gap", **{"from": "old:1", "to": "e:9", "snapshot": {}})
        called = call(root, environ, Script([gap], run_get={"run": record}), "machine run one")
        first, last = (json.loads(line) for line in called.out.splitlines())
        assert (first["version"], first["kind"], first["timestamp"][-1]) == (3, "warning", "Z")
        assert "between old:1 and e:9" in first["message"]
        assert (last, called.code) == (SUMMARY, 0)

    def test_after_a_gap_a_run_that_is_not_over_goes_on(self, root: Root, environ: dict[str, str]) -> None:
        gap = notification(9, "gap", **{"from": "old:1", "to": "e:9", "snapshot": {}})
        called = call(root, environ, Script([gap, finished(10)], run_get=RUNNING), "machine run one")
        assert [json.loads(line).get("kind") for line in called.out.splitlines()] == ["warning", None]

    def test_a_repository_that_is_gone_ends_it(self, root: Root, environ: dict[str, str]) -> None:
        script = Script([])

        def leave(connection: Connection, request: dict[str, Any]) -> None:
            script.subscribe(connection, request)
            connection.send({"jsonrpc": "2.0", "method": "daemon.closing", "params": {"reason": "repository_gone"}})
            connection.close()

        script.hooks["events.subscribe"] = leave
        called = call(root, environ, script, "machine run one")
        assert called.code == 1
        assert "repository is gone" in json.loads(called.err)["message"]


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_int_and_term_cancel_once_and_the_summary_still_comes_last(
        self, root: Root, environ: dict[str, str], number: signal.Signals
    ) -> None:
        script = Script(STORY[:2])

        def cancel(connection: Connection, request: dict[str, Any]) -> None:
            os.kill(process.pid, number)  # once more: it changes nothing
            script.tell(finished(7, STOPPED))
            connection.answer(request, {"run_id": RUN, "summary": STOPPED})

        script.hooks["run.cancel"] = cancel
        with serving(root, environ, script) as daemon, as_process(root, environ, "machine run one") as process:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["kind"] == "run_started"
            process.send_signal(number)
            out, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, err) == (0, "")
        assert json.loads(out.splitlines()[-1]) == STOPPED
        assert [m["params"] for m in daemon.received if m["method"] == "run.cancel"] == [{"run_id": RUN}]

    def test_a_signal_before_the_answer_cancels_the_run_that_it_names(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(STORY[:1])

        def start(connection: Connection, request: dict[str, Any]) -> None:
            process.send_signal(signal.SIGINT)
            connection.answer(request, script.answers["run.start"])

        def cancel(connection: Connection, request: dict[str, Any]) -> None:
            script.tell(finished(7, STOPPED))
            connection.answer(request, {"run_id": RUN, "summary": STOPPED})

        script.hooks |= {"run.start": start, "run.cancel": cancel}
        with serving(root, environ, script), as_process(root, environ, "machine run loop") as process:
            out, _ = process.communicate(timeout=SECONDS)
        assert (process.returncode, json.loads(out.splitlines()[-1])) == (0, STOPPED)

    def test_a_hang_up_leaves_the_run_d14(self, root: Root, environ: dict[str, str]) -> None:
        with serving(root, environ, Script(STORY[:2])) as daemon, as_process(root, environ, "machine run one") as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGHUP)
            assert process.wait(SECONDS) == -signal.SIGHUP
        assert not [m for m in daemon.received if m["method"] in ("run.cancel", "run.stop")]

    def test_a_closed_pipe_leaves_the_run(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(STORY[:2])
        with serving(root, environ, script) as daemon, as_process(root, environ, "machine run one") as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.close()
            script.tell(STORY[2])
            assert process.wait(SECONDS) == 141
        assert not [m for m in daemon.received if m["method"] in ("run.cancel", "run.stop")]

    def test_a_cancel_whose_answer_is_lost_is_asked_for_again(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(STORY[:2])

        def lose(connection: Connection, request: dict[str, Any]) -> None:
            script.hooks["run.cancel"] = cancel
            connection.close()

        def cancel(connection: Connection, request: dict[str, Any]) -> None:
            script.tell(finished(7, STOPPED))

        script.hooks["run.cancel"] = lose
        with serving(root, environ, script) as daemon, as_process(root, environ, "machine run one") as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=SECONDS)
        assert json.loads(out.splitlines()[-1]) == STOPPED
        assert len([m for m in daemon.received if m["method"] == "run.cancel"]) == 2

    def test_a_refused_cancel_leaves_the_stream_as_it_is(self, root: Root, environ: dict[str, str]) -> None:
        script = Script(STORY[:2])

        def refuse(connection: Connection, request: dict[str, Any]) -> None:
            connection.refuse(request, RpcError(-32603, "broken").to_wire())
            script.tell(finished(7))

        script.hooks["run.cancel"] = refuse
        with serving(root, environ, script), as_process(root, environ, "machine run one") as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, err) == (0, "")
        assert json.loads(out.splitlines()[-1]) == SUMMARY


class TestParallel:
    @pytest.fixture
    def tool(self, short: Path, environ: dict[str, str]) -> dict[str, str]:
        """The environment with a Rust tool that says how it was called."""
        program = short / "rust"
        program.write_text('#!/bin/sh\necho "$@"\n')
        program.chmod(0o755)
        return {**environ, "CUELOOP_RUST_BIN": str(program)}

    @pytest.mark.parametrize("line", ["run loop --max-tasks 2", "machine run loop"])
    def test_a_loop_that_is_configured_so_is_passed_on_untouched(self, root: Root, tool: dict[str, str], line: str) -> None:
        with serving(root, tool, Script([], config_resolve=PARALLEL)) as daemon:
            done = subprocess.run(
                [*CUELOOP, *line.split()],
                cwd=root.path,
                env=tool,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                stdin=subprocess.DEVNULL,
            )
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{line}\n", "")
        assert [m["method"] for m in daemon.received] == ["config.resolve"]

    @pytest.mark.parametrize("line", ["machine run one", "machine run loop --resume", "run resume", "run one"])
    def test_one_task_and_what_is_resumed_are_not(self, root: Root, tool: dict[str, str], line: str) -> None:
        called = call(root, tool, Script(config_resolve=PARALLEL), line)
        assert len(called.params("run.start")) == 1

    def test_without_the_tool_it_is_one_task_after_the_other(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, {**environ, "PATH": "/nonexistent"}, Script(config_resolve=PARALLEL), "machine run loop")
        assert (called.code, len(called.params("run.start"))) == (0, 1)

    def test_an_option_of_ours_cannot_be_passed_on(self, root: Root, tool: dict[str, str]) -> None:
        called = call(root, tool, Script(config_resolve=PARALLEL), "machine run loop --fresh")
        assert (called.code, called.params("run.start")) == (2, [])
        assert "--repo is not possible here" in called.err
