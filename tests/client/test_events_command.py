"""`cueloop events`, and a notification in words."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import timedelta, timezone
from typing import Any

import pytest

from client.fakes import Connection, Handler, Recorder, make_world, serving
from cueloop_client.main import run
from cueloop_client.note_text import is_wanted, note_line
from cueloop_protocol.roots import Root

CUELOOP = [sys.executable, "-m", "cueloop_client"]


def note(seq: int, kind: str = "warning", epoch: str = "e") -> dict[str, Any]:
    event = {"version": 3, "kind": kind, "timestamp": f"t{seq}", "message": f"m{seq}"}
    return {"cursor": f"{epoch}:{seq}", "revision": seq, "origin": "watch", "event": event}


def log_of(notes: list[dict[str, Any]], last: int, *, epoch: str = "e", method: str = "event", **status: int) -> Handler:
    """A daemon whose log ends at `last` and which sends these notes to whoever subscribes."""

    def handle(connection: Connection, request: dict[str, Any]) -> None:
        if request["method"] == "daemon.status":
            connection.answer(request, {"events": {"epoch": epoch, "last_seq": last, **status}})
            return
        cursor = request["params"].get("cursor", f"{epoch}:{last}")
        connection.answer(request, {"subscription": "s", "cursor": cursor, "snapshot": None})
        for params in notes:
            connection.send({"jsonrpc": "2.0", "method": method, "params": {"subscription": "s", **params}})

    return handle


def row(moment: str, kind: str, *words: str) -> str:
    """A printed line: columns of their own for time and kind."""
    return "  ".join([f"{moment:<19}", f"{kind:<21}", *words]).rstrip() + "\n"


def call(root: Root, environ: dict[str, str], handler: Handler, line: str) -> tuple[int, Recorder, list[dict[str, Any]]]:
    recorder = Recorder()
    with serving(root, environ, handler) as daemon:
        code = run(["--repo", root.path, *line.split()], make_world(environ, recorder))
    subscribed = [message["params"] for message in daemon.received if message["method"] == "events.subscribe"]
    return code, recorder, subscribed


def test_it_prints_the_log_and_ends_where_it_ended_when_asked(root: Root, environ: dict[str, str]) -> None:
    code, recorder, subscribed = call(root, environ, log_of([note(1), note(2), note(3), note(4)], 3), "events --json")
    printed = [json.loads(line) for line in recorder.out.splitlines()]
    assert (code, recorder.err) == (0, "")
    assert printed == [{"method": "event", **note(seq)} for seq in (1, 2, 3)]
    assert subscribed == [{"caller": {"home": environ["HOME"]}, "cursor": "e:0"}]


def test_for_people_one_line_each(root: Root, environ: dict[str, str]) -> None:
    _, recorder, _ = call(root, environ, log_of([note(1), note(2, "resume_decision")], 2), "events")
    assert recorder.out == row("t1", "warning", "m1") + row("t2", "resume_decision", "m2")


def test_since_goes_on_after_a_cursor(root: Root, environ: dict[str, str]) -> None:
    code, recorder, subscribed = call(root, environ, log_of([note(3)], 3), "events --since e:2")
    assert (code, subscribed[0]["cursor"], recorder.out) == (0, "e:2", row("t3", "warning", "m3"))


@pytest.mark.parametrize(("line", "last"), [("events", 0), ("events --since=", 0), ("events --since e:3", 3)])
def test_nothing_new_needs_no_subscription(root: Root, environ: dict[str, str], line: str, last: int) -> None:
    code, recorder, subscribed = call(root, environ, log_of([], last), line)
    assert (code, recorder.out, subscribed) == (0, "", [])


def test_the_filter_hides_notes_and_not_the_end(root: Root, environ: dict[str, str]) -> None:
    notes = [note(1), note(2, "resume_decision"), note(3)]
    code, recorder, subscribed = call(root, environ, log_of(notes, 3), "events --kind resume_decision")
    assert (code, recorder.out) == (0, row("t2", "resume_decision", "m2"))
    assert "kinds" not in subscribed[0]


def test_a_log_whose_beginning_is_no_longer_kept_starts_where_it_starts(root: Root, environ: dict[str, str]) -> None:
    _, _, subscribed = call(root, environ, log_of([note(9)], 9, first_seq=8), "events")
    assert subscribed[0]["cursor"] == "e:7"


def test_a_gap_is_said_and_ends_what_cannot_be_told(root: Root, environ: dict[str, str]) -> None:
    gap = {"cursor": "e:5", "from": "old:1", "to": "e:5", "snapshot": {}}
    code, recorder, _ = call(root, environ, log_of([gap], 5, method="gap"), "events --since old:1")
    assert (code, recorder.out) == (0, row("", "gap", "events from old:1 to e:5 are no longer kept"))


def test_a_log_that_ends_with_what_is_not_for_us_still_ends(root: Root, environ: dict[str, str]) -> None:
    code, recorder, _ = call(root, environ, log_of([note(1)], 7), "events")
    assert (code, recorder.out) == (0, row("t1", "warning", "m1"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("events --since x", "one colon"),
        ("events --since e:-1", "plain decimal number"),
        ("events --kind frob", "the kinds are run_started, resume_decision"),
        ("events --frob", "There is no option"),
    ],
)
def test_mistakes(root: Root, environ: dict[str, str], line: str, said: str) -> None:
    recorder = Recorder()
    assert run(["--repo", root.path, *line.split()], make_world(environ, recorder)) == 2
    assert said in recorder.err


def test_without_a_folder_there_are_no_events(short: Any, environ: dict[str, str]) -> None:
    (short / "bare").mkdir()
    recorder = Recorder()
    assert run(["--repo", str(short / "bare"), "events"], make_world(environ, recorder)) == 1
    assert "has no .cueloop folder" in recorder.err
    assert list((short / "bare").iterdir()) == []


def test_follow_prints_as_it_comes_over_a_lost_connection_until_ctrl_c(root: Root, environ: dict[str, str]) -> None:
    def handle(connection: Connection, request: dict[str, Any]) -> None:
        cursor = request["params"].get("cursor", "e:4")
        connection.answer(request, {"subscription": "s", "cursor": cursor, "snapshot": None})
        connection.send({"jsonrpc": "2.0", "method": "event", "params": {"subscription": "s", **note(int(cursor[2:]) + 1)}})
        if cursor == "e:4":
            connection.close()

    line = [*CUELOOP, "events", "--follow", "--kind", "warning", "--json"]
    with serving(root, environ, handle) as daemon:
        process = subprocess.Popen(line, cwd=root.path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stderr is not None
        with process.stdout, process.stderr:
            printed = [json.loads(process.stdout.readline())["cursor"] for _ in range(2)]
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
            assert process.stderr.read() == "cueloop: The connection to the daemon was lost; connecting again.\n"
    assert printed == ["e:5", "e:6"]
    assert [message["params"]["kinds"] for message in daemon.received] == [["warning"]] * 2


def test_follow_ends_quietly_when_its_reader_goes(root: Root, environ: dict[str, str]) -> None:
    def handle(connection: Connection, request: dict[str, Any]) -> None:
        connection.answer(request, {"subscription": "s", "cursor": "e:0", "snapshot": None})
        for seq in range(1, 20_000):
            connection.send({"jsonrpc": "2.0", "method": "event", "params": {"subscription": "s", **note(seq)}})

    with serving(root, environ, handle):
        process = subprocess.Popen(
            [*CUELOOP, "events", "-f"], cwd=root.path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 141
        with process.stderr:
            assert process.stderr.read() == b""


DECIDED = {"kind": "resume_decision", "task_id": "X", "message": "Resume: no.", "payload": {"detail": "It is 25 hour(s) old."}}
LINES: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    (
        "event",
        {"event": {"timestamp": "t", "kind": "phase_entered", "task_id": "X", "phase": "plan"}},
        ("t", "phase_entered", "X", "plan"),
    ),
    (
        "event",
        {"event": {"timestamp": "2026-02-07T23:30:05.999999999Z", **DECIDED}},
        ("2026-02-08 01:30:05", "resume_decision", "X", "Resume: no. It is 25 hour(s) old."),
    ),
    (
        "event",
        {"event": {"timestamp": "2026-02-07T10:30:00", "kind": "queue_snapshot", "payload": {"paths": {}}}},
        ("2026-02-07T10:30:00", "queue_snapshot", "the queue changed"),
    ),
    (
        "event",
        {"event": {"timestamp": "t", "kind": "config_resolved", "payload": {"config": {}}}},
        ("t", "config_resolved", "the configuration, or what the next run would do, changed"),
    ),
    (
        "event",
        {"event": {"timestamp": "t", "kind": "runner_output", "task_id": "X", "phase": "plan", "payload": {"text": "a\nb\n"}}},
        ("t", "runner_output", "X", "a b"),
    ),
    ("event", {"event": 3}, ("", "event")),
    ("run.finished", {"run_id": "r", "summary": {"outcome": "ran"}}, ("", "run finished", "r", "ran")),
    ("run.finished", {"run_id": "r", "summary": None}, ("", "run finished", "r")),
    ("question", {"run_id": "r", "question": {"message": "Keep?"}}, ("", "question", "r", "Keep?")),
    ("question.resolved", {"run_id": "r", "choice": "keep"}, ("", "question resolved", "r", "keep")),
    ("newer.note", {}, ("", "newer.note")),
]


@pytest.mark.parametrize(("method", "params", "columns"), LINES, ids=[" ".join(row[2]) for row in LINES])
def test_a_note_in_one_line(method: str, params: dict[str, Any], columns: tuple[str, str]) -> None:
    assert note_line(method, params, timezone(timedelta(hours=2))) + "\n" == row(*columns)


def test_a_filter_by_kinds_is_about_events_alone() -> None:
    kinds = frozenset({"warning"})
    assert is_wanted("event", note(1), kinds)
    assert is_wanted("event", note(1, "task_selected"), frozenset())
    assert is_wanted("gap", {}, kinds)
    assert not is_wanted("event", note(1, "task_selected"), kinds)
    assert not is_wanted("event", {}, kinds)
