"""The commands, against a fake daemon and in-process, with everything they print."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from client.fakes import Connection, Handler, Recorder, answering, make_world, serving
from cueloop_client.main import run
from cueloop_protocol.codes import (
    RpcError,
    conflict,
    document_unusable,
    error_document,
    lock_held,
    method_not_found,
    run_active,
)
from cueloop_protocol.documents.stop import StopDocument
from cueloop_protocol.roots import Root

if TYPE_CHECKING:
    from client.conftest import FakeStarts

SESSION = {
    "version": 1,
    "session_id": "s",
    "task_id": "RQ-0001",
    "run_started_at": "2026-02-07T10:00:00.000000000Z",
    "last_updated_at": "2026-02-07T10:30:00.000000000Z",
    "iterations_planned": 2,
    "iterations_completed": 1,
    "current_phase": 2,
    "runner": "claude",
    "model": "sonnet",
    "tasks_completed_in_loop": 3,
    "max_tasks": 10,
}
DECISION = {
    "status": "resuming_same_session", "scope": "run_session", "reason": "session_valid", "task_id": "RQ-0001",
    "message": "Resume: continuing.", "detail": "From phase 2.",
}  # fmt: skip
COMMON = {"revision": 1, "observed_at": "2026-02-07T10:35:00Z", "settling": False, "path": "/r/.cueloop/cache/session.jsonc"}
LOADED = {**COMMON, "state": "loaded", "session": SESSION, "etag": "e1", "age_seconds": 90_061, "decision": DECISION}
UNDECIDED = {name: value for name, value in LOADED.items() if name != "decision"}
MISSING = {**COMMON, "state": "missing"}
DAMAGED = {**COMMON, "state": "corrupt", "etag": "e2", "detail": "Line 3: two keys."}
UNREADABLE = {**COMMON, "state": "unreadable", "detail": "It is a link."}

DOCUMENT = {"version": 5, "paths": {"repo_root": "/é"}, "config": {"x": 2.0, "big": 2**70}, "a": None}
CLEARED = {"revision": 2, "observed_at": "t", "history": "/r/history/1", "task_id": "RQ-0001"}


class Called:
    """What a command line did."""

    def __init__(self, code: int, recorder: Recorder) -> None:
        self.code, self.out, self.err = code, recorder.out, recorder.err

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)


def call(root: Root, environ: dict[str, str], line: str, *, lines: tuple[str, ...] = (), terminal: bool = False) -> Called:
    recorder = Recorder()
    world = make_world(environ, recorder, lines=lines, terminal=terminal)
    return Called(run(["--repo", root.path, *line.split()], world), recorder)


def call_with(
    root: Root, environ: dict[str, str], handler: Handler, line: str, **person: Any
) -> tuple[Called, list[dict[str, Any]]]:
    with serving(root, environ, handler) as daemon:
        called = call(root, environ, line, **person)
    return called, daemon.received


class TestMachine:
    def test_config_resolve_prints_the_document_alone_and_pretty(self, root: Root, environ: dict[str, str]) -> None:
        results = {"config.resolve": {"document": DOCUMENT, "revision": 3}}
        called, received = call_with(root, environ, answering(results), "machine config resolve")
        assert called.out == json.dumps(DOCUMENT, indent=2, ensure_ascii=False) + "\n"
        assert (called.code, called.err) == (0, "")
        assert received[0]["params"] == {"exact": True, "caller": {"home": environ["HOME"]}}

    def test_the_caller_is_the_environments(self, root: Root, environ: dict[str, str]) -> None:
        results = {"config.resolve": {"document": {}}}
        elsewhere = {**environ, "XDG_CONFIG_HOME": "/cfg"}
        _, received = call_with(root, elsewhere, answering(results), "machine config resolve")
        assert received[0]["params"]["caller"] == {"home": environ["HOME"], "config_home": "/cfg"}
        _, received = call_with(root, {**environ, "XDG_CONFIG_HOME": "relative"}, answering(results), "machine config resolve")
        assert received[0]["params"]["caller"] == {"home": environ["HOME"]}

    def test_overview(self, root: Root, environ: dict[str, str]) -> None:
        results = {"workspace.overview": {"document": {"version": 1, "queue": {}}}}
        called, received = call_with(root, environ, answering(results), "machine workspace overview")
        assert called.document == {"version": 1, "queue": {}}
        assert received[0]["params"]["exact"] is True

    def test_a_folder_that_is_not_there_is_an_error_document(self, root: Root, environ: dict[str, str]) -> None:
        missing = f"{root.path}-that-is-missing"
        called = call(Root(missing, missing), environ, "machine config resolve")
        assert (called.code, called.out, called.error["version"]) == (1, "", 1)
        assert missing in called.error["message"]

    @pytest.mark.parametrize("line", ["--repo= session show", "machine config resolve --repo="])
    def test_an_empty_repo_is_wrong_usage(self, environ: dict[str, str], line: str) -> None:
        recorder = Recorder()
        assert run(line.split(), make_world(environ, recorder)) == 2
        assert run(["--repo", "", "session", "show"], make_world(environ, recorder)) == 2
        assert (recorder.out, recorder.err.count("--repo needs a folder")) == ("", 2)

    def test_an_error_is_one_document_and_nothing_else(self, root: Root, environ: dict[str, str]) -> None:
        error = document_unusable("config_incompatible", "config.jsonc: x", "the key y")
        called, _ = call_with(root, environ, answering({"config.resolve": error}), "machine config resolve")
        assert (called.code, called.out, called.error) == (1, "", error.document)
        assert called.err == json.dumps(error.document, indent=2) + "\n"

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (RpcError(-32008, "x"), "task_mutation_conflict"),
            (RpcError(-32004, "x"), "resource_busy"),
            (RpcError(-32012, "x"), "permission_denied"),
            (RpcError(-32602, "x"), "parse_error"),
            (RpcError(-32603, "x"), "unknown"),
            (method_not_found("config.resolve"), "version_mismatch"),
        ],
    )
    def test_the_code_is_chosen_by_the_error(self, root: Root, environ: dict[str, str], error: RpcError, code: str) -> None:
        called, _ = call_with(root, environ, answering({"config.resolve": error}), "machine config resolve")
        assert (called.code, called.error["code"]) == (1, code)
        assert called.error["retryable"] == (code == "resource_busy")

    def test_d12_a_daemon_that_does_not_know_the_method_names_the_remedy(self, root: Root, environ: dict[str, str]) -> None:
        results = {"workspace.overview": method_not_found("workspace.overview")}
        called, _ = call_with(root, environ, answering(results), "machine workspace overview")
        assert "cueloop daemon restart" in called.error["detail"]

    @pytest.mark.parametrize("result", [None, [], {}, {"document": 3}])
    def test_a_result_without_its_document_is_a_document_of_an_error(
        self, root: Root, environ: dict[str, str], result: object
    ) -> None:
        called, _ = call_with(root, environ, answering({"config.resolve": result}), "machine config resolve")
        assert (called.code, called.out, called.error["code"]) == (1, "", "unknown")

    def test_d24_a_silent_daemon_is_an_error_document(self, root: Root, environ: dict[str, str]) -> None:
        called, _ = call_with(root, environ, lambda connection, request: None, "--timeout 0.2 machine config resolve")
        assert (called.code, called.error["code"]) == (1, "unknown")
        assert "does not answer" in called.error["message"]

    def test_usage_is_prose_even_here(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, "machine config resolve --frob")
        assert (called.code, called.out) == (2, "")
        assert called.err == "cueloop: There is no option --frob.\n"
        assert call(root, environ, "machine config resolve extra").code == 2
        assert call(root, environ, "--host ssh://x/y machine config resolve").err == (
            "cueloop: --repo and --host contradict each other: the path is part of --host.\n"
        )

    def test_a_lone_surrogate_does_not_break_the_output(self, root: Root, environ: dict[str, str]) -> None:
        called, _ = call_with(
            root, environ, answering({"config.resolve": {"document": {"x": "\ud800"}}}), "machine config resolve"
        )
        assert called.document == {"x": "\ud800"}


class TestAskedTwice:
    def test_a_daemon_that_leaves_in_the_middle_is_asked_again_when_reading(self, root: Root, environ: dict[str, str]) -> None:
        seen: list[int] = []

        def handle(connection: Connection, request: dict[str, Any]) -> None:
            seen.append(1)
            connection.answer(request, MISSING) if len(seen) > 1 else connection.close()

        called, _ = call_with(root, environ, handle, "session show")
        assert (called.code, len(seen)) == (0, 2)

    def test_a_change_is_never_sent_twice(self, root: Root, environ: dict[str, str]) -> None:
        called, received = call_with(root, environ, lambda connection, request: connection.close(), "session clear --etag e1")
        assert (called.code, len(received)) == (1, 1)
        assert "without an answer" in called.err

    @pytest.mark.parametrize("line", ["session show --json", "session clear --etag e --json"])
    def test_a_daemon_that_is_shutting_down_is_outlived_and_its_successor_asked(
        self, root: Root, environ: dict[str, str], starts: FakeStarts, line: str
    ) -> None:
        starts.plan(mode="ready", draining=1)
        called = call(root, environ, line)
        assert (called.code, called.err) == (0, "")
        assert called.document["pid"] == starts.pids[1]
        assert len(starts.pids) == 2

    def test_one_that_keeps_shutting_down_is_an_error(self, root: Root, environ: dict[str, str], starts: FakeStarts) -> None:
        starts.plan(mode="ready", draining=9)
        called = call(root, environ, "session show")
        assert (called.code, "shutting down" in called.err, len(starts.pids)) == (1, True, 2)


class TestSession:
    def test_show_for_people(self, root: Root, environ: dict[str, str]) -> None:
        called, received = call_with(root, environ, answering({"session.get": LOADED}), "session show")
        assert received[0]["params"] == {"caller": {"home": environ["HOME"]}}
        assert called.out == (
            "Interrupted session of RQ-0001\n"
            "  age         1 day 1 hour\n"
            "  started     2026-02-07T10:00:00.000000000Z\n"
            "  phase       2 (implement)\n"
            "  iterations  1 of 2 done\n"
            "  runner      claude, model sonnet\n"
            "  tasks       3 done in this loop, at most 10\n"
            "\n"
            "With --resume, the next run says: Resume: continuing.\n"
            "  From phase 2.\n"
            "\n"
            "To abandon it: cueloop session clear (its file goes to the history)\n"
        )
        assert called.code == 0

    def test_the_runner_is_that_of_the_phase(self, root: Root, environ: dict[str, str]) -> None:
        settings = {"phase1_settings": {"runner": "pi", "model": "x"}, "phase2_settings": {"runner": "codex", "model": "gpt-5.4"}}
        found = {**LOADED, "session": {**LOADED["session"], **settings}}
        called, _ = call_with(root, environ, answering({"session.get": found}), "session show")
        assert "  runner      codex, model gpt-5.4\n" in called.out

    def test_show_json_is_the_whole_answer(self, root: Root, environ: dict[str, str]) -> None:
        called, _ = call_with(root, environ, answering({"session.get": LOADED}), "session show --json")
        assert called.document == LOADED

    @pytest.mark.parametrize(
        ("found", "said"),
        [
            (MISSING, ["No interrupted session.\n"]),
            (DAMAGED, ["The session file is damaged.", "Line 3: two keys.", "cueloop session clear", COMMON["path"]]),
            (UNREADABLE, ["The session file cannot be read.", "It is a link.", "never touched"]),
            ({**COMMON, "state": "too_large", "etag": "e", "detail": "2 MB"}, ["too large", "2 MB", "session clear"]),
            ({**COMMON, "state": "too_new", "etag": "e", "detail": "version 2"}, ["newer version", "version 2"]),
            ({**COMMON, "state": "newfangled"}, ["newfangled"]),
            ({**LOADED, "age_seconds": None}, ["cannot be told from its time stamp (2026-02-07T10:30:00.000000000Z)"]),
            (
                {**UNDECIDED, "error": error_document("config_incompatible", "phases is 7.", "1 to 3.")},
                ["Interrupted session of RQ-0001", "The next run cannot start: phases is 7.\n  1 to 3.\n", "session clear"],
            ),
            (
                {**MISSING, "error": error_document("queue_corrupted", "There is no queue file at /q.")},
                ["No interrupted session.\n\nThe next run cannot start: There is no queue file at /q.\n"],
            ),
            ({**MISSING, "settling": True}, ["look again in a moment"]),
        ],
    )
    def test_each_state_in_words(self, root: Root, environ: dict[str, str], found: dict[str, Any], said: list[str]) -> None:
        called, _ = call_with(root, environ, answering({"session.get": found}), "session show")
        assert called.code == 0
        assert all(words in called.out for words in said), called.out

    @pytest.mark.parametrize(
        ("beside", "said"),
        [
            (
                {"active_run": {"run_id": "r7"}, "decision": DECISION},
                "Run r7 is at work here.\n  To see it: cueloop run status\n",
            ),
            (
                {"queue_lock": {"label": "run loop", "pid": 77, "started_at": "10:00", "live": True}},
                "Another tool is at work here (run loop, process 77, since 10:00).",
            ),
        ],
    )
    def test_a_running_session_is_not_called_interrupted(
        self, root: Root, environ: dict[str, str], beside: dict[str, Any], said: str
    ) -> None:
        called, _ = call_with(root, environ, answering({"session.get": {**UNDECIDED, **beside}}), "session show")
        assert called.out.startswith("Session of a run that is under way, for RQ-0001\n")
        assert said in called.out
        assert "With --resume" not in called.out
        assert "session clear" not in called.out

    @pytest.mark.parametrize(
        "lock",
        [
            {"label": "task", "pid": 77, "live": True},
            {"label": "run one", "pid": 77, "live": False},
        ],
    )
    def test_a_lock_that_is_no_live_run_leaves_the_session_interrupted(
        self, root: Root, environ: dict[str, str], lock: dict[str, Any]
    ) -> None:
        called, _ = call_with(root, environ, answering({"session.get": {**LOADED, "queue_lock": lock}}), "session show")
        assert called.out.startswith("Interrupted session of RQ-0001\n")
        assert "With --resume, the next run says: Resume: continuing." in called.out

    @pytest.mark.parametrize("error", [run_active("r7"), lock_held("run one", 7, "10:00")])
    def test_a_clear_that_is_refused_says_what_to_do(self, root: Root, environ: dict[str, str], error: RpcError) -> None:
        called, _ = call_with(root, environ, answering({"session.clear": error}), "session clear --etag e1")
        assert called.code == 1
        message, remedy = called.err.splitlines()
        assert error.message in message
        assert "cueloop run stop" in remedy or "end it where it was started" in remedy

    def test_no_escape_sequence_of_a_file_reaches_the_terminal(self, root: Root, environ: dict[str, str]) -> None:
        found = {**LOADED, "session": {**SESSION, "task_id": "RQ\x1b[2J\r", "model": "é\x9b31m"}}
        called, _ = call_with(root, environ, answering({"session.get": found}), "--no-color session show", terminal=True)
        assert "\x1b" not in called.out
        assert "\x9b" not in called.out
        assert "\r" not in called.out
        assert "é" in called.out

    @pytest.mark.parametrize(
        ("options", "extra", "terminal", "bold"),
        [
            ("", {"TERM": "xterm"}, True, True),
            ("", {"TERM": "xterm"}, False, False),
            ("", {"TERM": "xterm", "NO_COLOR": "1"}, True, False),
            ("", {"TERM": "dumb"}, True, False),
            ("--color always", {}, False, True),
            ("--color never", {"TERM": "xterm"}, True, False),
            ("--no-color", {"TERM": "xterm"}, True, False),
        ],
    )
    def test_colour(
        self, root: Root, environ: dict[str, str], options: str, extra: dict[str, str], terminal: bool, bold: bool
    ) -> None:
        line = f"{options} session show"
        called, _ = call_with(root, {**environ, **extra}, answering({"session.get": MISSING}), line, terminal=terminal)
        assert called.out == ("\x1b[1mNo interrupted session.\x1b[0m\n" if bold else "No interrupted session.\n")

    def test_clear_with_yes_sends_the_etag_that_it_saw(self, root: Root, environ: dict[str, str]) -> None:
        handler = answering({"session.get": LOADED, "session.clear": CLEARED})
        called, received = call_with(root, environ, handler, "session clear --yes")
        assert (called.code, received[1]["params"]) == (0, {"etag": "e1"})
        assert "/r/history/1" in called.out

    def test_clear_with_an_etag_asks_nobody(self, root: Root, environ: dict[str, str]) -> None:
        called, received = call_with(root, environ, answering({"session.clear": CLEARED}), "session clear --etag e9 --json")
        assert [message["params"] for message in received] == [{"etag": "e9"}]
        assert called.document == {"cleared": True, **CLEARED}

    @pytest.mark.parametrize(("typed", "cleared"), [("y\n", True), ("YES\n", True), ("\n", False), ("", False), ("no\n", False)])
    def test_clear_asks_a_person_and_enter_leaves_it(
        self, root: Root, environ: dict[str, str], typed: str, cleared: bool
    ) -> None:
        handler = answering({"session.get": DAMAGED, "session.clear": CLEARED})
        called, received = call_with(root, environ, handler, "session clear", lines=(typed,), terminal=True)
        assert "Line 3: two keys." in called.err
        assert "[y/N]" in called.err
        assert (called.code, len(received)) == ((0, 2) if cleared else (1, 1))

    def test_clear_with_nobody_to_ask_does_nothing(self, root: Root, environ: dict[str, str]) -> None:
        called, received = call_with(root, environ, answering({"session.get": LOADED}), "session clear")
        assert (called.code, len(received)) == (2, 1)
        assert "--yes" in called.err

    def test_clear_of_nothing_is_done(self, root: Root, environ: dict[str, str]) -> None:
        called, received = call_with(root, environ, answering({"session.get": MISSING}), "session clear --json")
        assert (called.code, called.document, len(received)) == (0, {"cleared": False}, 1)

    def test_clear_never_touches_what_cannot_be_read(self, root: Root, environ: dict[str, str]) -> None:
        called, received = call_with(root, environ, answering({"session.get": UNREADABLE}), "session clear --yes")
        assert (called.code, len(received)) == (1, 1)
        assert "It is a link." in called.err

    def test_with_json_a_failure_is_an_error_document_too(self, root: Root, environ: dict[str, str]) -> None:
        error = conflict("The session changed.", detail="Look again.")
        for words in ("session clear --etag old --json", "--json session clear --etag old"):
            called, _ = call_with(root, environ, answering({"session.clear": error}), words)
            assert (called.code, called.out, called.error) == (1, "", error.document)
        assert call(root, environ, "session show --json --frob").err.startswith("cueloop: There is no option")

    def test_a_command_that_was_mistyped_is_named_before_the_rust_tool_is(self, environ: dict[str, str]) -> None:
        recorder = Recorder()
        assert run(["sesion", "show"], make_world({**environ, "PATH": ""}, recorder)) == 2
        assert recorder.err.startswith("cueloop: There is no command `sesion show`. Did you mean `session show`?\n")

    def test_a_conflict_is_told_in_words(self, root: Root, environ: dict[str, str]) -> None:
        error = conflict("The session changed.", detail="Look again.")
        called, _ = call_with(root, environ, answering({"session.clear": error}), "session clear --etag old")
        assert (called.code, called.err) == (1, "cueloop: The session changed.\nLook again.\n")

    def test_clear_where_nothing_can_be_written_creates_nothing(self, short: Path, environ: dict[str, str]) -> None:
        (short / "bare").mkdir()
        called = call(Root(str(short / "bare"), str(short / "bare")), environ, "session clear --etag e")
        assert called.code == 1
        assert os.listdir(short / "bare") == []
        assert called.err.splitlines() == [
            f"cueloop: {short}/bare has no .cueloop folder.",
            "Make it a CueLoop repository with `cueloop init`, or name another one with --repo.",
        ]


class TestWithoutADaemon:
    def test_the_same_code_answers_here(self, root: Root, environ: dict[str, str]) -> None:
        called = call(root, environ, "--no-daemon machine config resolve")
        assert (called.code, called.err) == (0, "")
        assert called.document["paths"]["repo_root"] == root.path
        assert sorted(os.listdir(root.join(".cueloop"))) == ["queue.jsonc"]

    def test_without_the_folder_it_answers_and_creates_nothing(self, short: Path, environ: dict[str, str]) -> None:
        (short / "bare").mkdir()
        bare = Root(str(short / "bare"), str(short / "bare"))
        assert call(bare, environ, "session show").out.splitlines() == [
            "No interrupted session.",
            f"{short}/bare has no .cueloop folder.",
            "Make it a CueLoop repository with `cueloop init`, or name another one with --repo.",
        ]
        assert call(bare, environ, "machine config resolve").code == 0
        assert os.listdir(short / "bare") == []

    def test_its_errors_are_the_daemons(self, root: Root, environ: dict[str, str]) -> None:
        Path(root.join(".cueloop/config.jsonc")).write_text('{"frob": 1}')
        called = call(root, environ, "machine config resolve --no-daemon")
        assert (called.code, called.error["code"]) == (1, "config_incompatible")
        assert "frob" in called.err

    @pytest.mark.parametrize("line", ["session clear --etag e", "daemon status", "events", "daemon stop"])
    def test_it_is_for_reading_alone(self, root: Root, environ: dict[str, str], line: str) -> None:
        called = call(root, environ, f"--no-daemon {line}")
        assert (called.code, "only read" in called.err) == (2, True)


class TestRunStop:
    def test_it_needs_no_daemon_and_says_so(self, root: Root, environ: dict[str, str]) -> None:
        assert call(root, environ, "--no-daemon machine run stop").document["action"] == "created"
        assert sorted(os.listdir(root.join(".cueloop/cache"))) == ["stop_requested"]

    def test_it_creates_the_marker_once(self, root: Root, environ: dict[str, str]) -> None:
        marker = Path(root.join(".cueloop/cache/stop_requested"))
        dry = call(root, environ, "machine run stop --dry-run")
        assert StopDocument.model_validate_json(dry.out).action == "would_create"
        assert sorted(os.listdir(root.join(".cueloop"))) == ["queue.jsonc"]
        first = call(root, environ, "machine run stop")
        assert StopDocument.model_validate_json(first.out).action == "created"
        assert stat.S_ISREG(marker.lstat().st_mode)
        assert first.document["marker"] == {"path": str(marker), "existed_before": False, "exists_after": True}
        for line, dry_run in (("machine run stop", False), ("machine run stop --dry-run", True)):
            again = call(root, environ, line)
            document = StopDocument.model_validate_json(again.out)
            assert (document.action, document.dry_run) == ("already_present", dry_run)
        assert first.document["paths"] == call(root, environ, "--no-daemon machine config resolve").document["paths"]

    def test_a_dangling_link_counts_as_a_marker(self, root: Root, environ: dict[str, str], short: Path) -> None:
        os.makedirs(root.join(".cueloop/cache"))
        os.symlink(short / "nowhere", root.join(".cueloop/cache/stop_requested"))
        assert call(root, environ, "machine run stop").document["action"] == "already_present"
        assert not (short / "nowhere").exists()

    def test_the_daemon_that_runs_is_asked_for_the_paths(self, root: Root, environ: dict[str, str]) -> None:
        paths = dict.fromkeys(("repo_root", "queue_path", "done_path", "project_config_path", "global_config_path"), "/x")
        results = {"config.resolve": {"document": {"paths": paths}}}
        called, _ = call_with(root, environ, answering(results), "machine run stop --dry-run")
        assert called.document["paths"] == paths

    def test_a_configuration_that_cannot_be_used_is_its_error_and_nothing_is_created(
        self, root: Root, environ: dict[str, str]
    ) -> None:
        Path(root.join(".cueloop/config.jsonc")).write_text("{")
        called = call(root, environ, "machine run stop")
        assert (called.code, called.out, called.error["code"]) == (1, "", "config_incompatible")
        assert not os.path.exists(root.join(".cueloop/cache"))

    def test_without_the_folder_nothing_is_created(self, short: Path, environ: dict[str, str]) -> None:
        (short / "bare").mkdir()
        bare = Root(str(short / "bare"), str(short / "bare"))
        called = call(bare, environ, "machine run stop")
        assert (called.code, called.error["code"]) == (1, "unknown")
        assert call(bare, environ, "machine run stop --dry-run").error == called.error
        assert os.listdir(short / "bare") == []

    def test_a_file_in_the_way_is_a_sentence(self, root: Root, environ: dict[str, str]) -> None:
        Path(root.join(".cueloop/cache")).write_text("")
        called = call(root, environ, "machine run stop")
        assert "not a folder" in called.error["message"]
        assert call(root, environ, "machine run stop --dry-run").error == called.error

    @pytest.mark.parametrize("name", [".cueloop", ".cueloop/cache"])
    def test_a_closed_folder_is_named_before_and_when_it_is_tried(
        self, root: Root, environ: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        os.makedirs(root.join(name), exist_ok=True)
        closed = root.join(name)
        real_open, real_makedirs, real_access = os.open, os.makedirs, os.access

        def refuse_open(path: str, flags: int, mode: int = 0o777, **rest: int) -> int:
            if str(path) == root.join(".cueloop/cache/stop_requested"):
                raise PermissionError(errno.EACCES, "Permission denied")
            return real_open(path, flags, mode, **rest)

        def refuse_makedirs(path: str, mode: int = 0o777, exist_ok: bool = False) -> None:
            if str(path) == root.join(".cueloop/cache") and name == ".cueloop":
                raise PermissionError(errno.EACCES, "Permission denied")
            real_makedirs(path, mode, exist_ok)

        monkeypatch.setattr("os.access", lambda path, mode, **rest: path != closed and real_access(path, mode, **rest))
        monkeypatch.setattr("os.open", refuse_open)
        monkeypatch.setattr("os.makedirs", refuse_makedirs)
        called = call(root, environ, "machine run stop")
        assert (called.code, called.error["code"]) == (1, "permission_denied")
        assert called.error["detail"].startswith(f"Make {closed} writable")
        assert call(root, environ, "machine run stop --dry-run").error == called.error
