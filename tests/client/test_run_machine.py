"""`cueloop machine run one|loop`: NDJSON alone on standard output, one error document on standard error, the exit code."""

from __future__ import annotations

import json

from client.run_fakes import RUN, STORY, SUMMARY, Script, call, event, finished
from cueloop_protocol.codes import document_unusable
from cueloop_protocol.roots import Root

FAILED = {"version": 2, "task_id": None, "exit_code": 1, "outcome": "failed"}


def test_the_events_of_the_run_and_the_summary_last(root: Root, environ: dict[str, str]) -> None:
    called = call(root, environ, Script(), "machine run one")
    told = [json.loads(line) for line in called.out.splitlines()]
    assert told == [*(note["params"]["event"] for note in STORY[:-1]), SUMMARY]
    assert (called.code, called.err) == (0, "")


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


def test_what_is_not_the_runs_is_left_out(root: Root, environ: dict[str, str]) -> None:
    notes = [event(1, "warning", message="a"), event(2, "config_resolved", None), event(3, "warning", "other"), finished(4)]
    told = call(root, environ, Script(notes), "machine run loop").out.splitlines()
    assert [json.loads(line).get("kind") for line in told] == ["warning", None]


def test_a_failure_is_the_summary_and_an_error_document(root: Root, environ: dict[str, str]) -> None:
    error = {"version": 1, "code": "cli_unavailable", "message": "no claude", "retryable": False}
    called = call(root, environ, Script([finished(1, FAILED, error=error)]), "machine run one")
    assert (called.code, json.loads(called.out), json.loads(called.err)) == (1, FAILED, error)


def test_what_fails_before_the_run_is_one_error_document_alone(root: Root, environ: dict[str, str]) -> None:
    refused = document_unusable("config_incompatible", "The config is bad.", "Key x.")
    called = call(root, environ, Script(run_start=refused), "machine run one")
    assert (called.code, called.out) == (1, "")
    assert json.loads(called.err)["code"] == "config_incompatible"
