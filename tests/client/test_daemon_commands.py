"""`cueloop daemon …`, with a fake daemon as a real process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from client.fakes import Recorder, answering, make_world, serving
from cueloop_client.logfile import last_lines
from cueloop_client.main import run
from cueloop_client.reach import Process
from cueloop_client.successor import Replaced
from cueloop_client.versions import waiting
from cueloop_client.waiting import await_end
from cueloop_client.world import Deadline
from cueloop_protocol.codes import run_active
from cueloop_protocol.identity import boot_id, process_start_time
from cueloop_protocol.roots import Root

if TYPE_CHECKING:
    from client.conftest import FakeStarts

CUELOOP = [sys.executable, "-m", "cueloop_client"]


def call(root: Root, environ: dict[str, str], line: str) -> tuple[int, Recorder]:
    recorder = Recorder()
    return run(["--repo", root.path, *line.split()], make_world(environ, recorder)), recorder


class TestStartAndStop:
    def test_start_is_said_and_is_no_failure_twice(self, root: Root, environ: dict[str, str], starts: FakeStarts) -> None:
        starts.plan(mode="ready")
        code, first = call(root, environ, "daemon start")
        assert (code, first.out) == (0, f"The daemon was started (process {starts.pids[0]}).\n")
        code, again = call(root, environ, "daemon start --json")
        assert (code, json.loads(again.out)) == (0, {"running": True, "pid": starts.pids[0], "started": False})

    def test_stop_returns_when_the_process_is_gone_and_is_no_failure_twice(
        self, root: Root, environ: dict[str, str], starts: FakeStarts
    ) -> None:
        starts.plan(mode="ready")
        call(root, environ, "daemon start")
        pid = starts.pids[0]
        code, stopped = call(root, environ, "daemon stop")
        assert process_start_time(pid) is None
        assert (code, stopped.out) == (0, f"The daemon (process {pid}) is stopped.\n")
        code, again = call(root, environ, "daemon stop")
        assert (code, again.out) == (0, "No daemon runs here.\n")
        assert json.loads(call(root, environ, "daemon stop --json")[1].out) == {"running": False, "stopped": False}

    @pytest.mark.parametrize("protocol", [(1, 1), (2, 9)])
    @pytest.mark.parametrize("knows", [True, False])
    def test_d12_stop_works_for_every_version(
        self, root: Root, environ: dict[str, str], starts: FakeStarts, protocol: tuple[int, int], knows: bool
    ) -> None:
        starts.plan(mode="ready", protocol=protocol, knows_shutdown=knows)
        call(root, environ, "daemon start")
        code, stopped = call(root, environ, "daemon stop --json")
        assert (code, json.loads(stopped.out)) == (0, {"running": False, "stopped": True, "pid": starts.pids[0]})
        assert process_start_time(starts.pids[0]) is None

    def test_d12_restart_replaces_a_daemon_of_another_version(
        self, root: Root, environ: dict[str, str], starts: FakeStarts
    ) -> None:
        starts.plan(mode="ready", protocol=(2, 9))
        call(root, environ, "daemon start")
        code, said = call(root, environ, "session show")
        assert (code, "update cueloop to 0.0.1" in said.err) == (1, True)
        starts.plan(mode="ready")
        code, restarted = call(root, environ, "daemon restart")
        assert (code, restarted.out) == (0, f"The daemon was replaced (process {starts.pids[1]}).\n")
        assert process_start_time(starts.pids[0]) is None

    def test_a_daemon_that_lost_its_socket_is_stopped_too(self, root: Root, environ: dict[str, str], starts: FakeStarts) -> None:
        starts.plan(mode="ready", lose_socket=True)
        call(root, environ, "daemon start")
        code, stopped = call(root, environ, "daemon stop")
        assert (code, stopped.out) == (0, f"The daemon (process {starts.pids[0]}) is stopped.\n")

    @pytest.mark.parametrize("lose_socket", [False, True])
    def test_d04_a_daemon_that_hangs_is_named_and_ended_after_the_deadline(
        self, root: Root, environ: dict[str, str], starts: FakeStarts, monkeypatch: pytest.MonkeyPatch, lose_socket: bool
    ) -> None:
        starts.plan(mode="ready", lose_socket=lose_socket, deaf=True)
        call(root, environ, "daemon start")
        (pid,) = starts.pids
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr("cueloop_client.control.TERM_SECONDS", 0.3)
        began = time.monotonic()
        code, said = call(root, environ, "--timeout 0.3 daemon stop")
        assert time.monotonic() - began < 10  # the time that was asked for, not the twenty seconds
        assert (code, said.out) == (0, f"The daemon (process {pid}) is stopped.\n")
        assert said.err.splitlines()[-1] == f"The daemon (process {pid}) does not leave; sending it SIGKILL."
        assert process_start_time(pid) is None

    def test_an_active_run_is_a_reason_to_refuse(self, root: Root, environ: dict[str, str]) -> None:
        recorder = Recorder()
        with serving(root, environ, answering({"daemon.shutdown": run_active("r1")})) as daemon:
            code = run(["--repo", root.path, "daemon", "stop"], make_world(environ, recorder))
        assert (code, "Run r1 is active" in recorder.err) == (1, True)
        assert daemon.received[0]["params"] == {"runs": "refuse"}

    @pytest.mark.parametrize(("flag", "runs"), [("--leave-runs", "leave"), ("--cancel-runs", "cancel")])
    def test_what_to_do_with_runs_is_passed_on(self, root: Root, environ: dict[str, str], flag: str, runs: str) -> None:
        with serving(root, environ, answering({"daemon.shutdown": run_active("r1")})) as daemon:
            call(root, environ, f"daemon stop {flag}")
        assert daemon.received[0]["params"] == {"runs": runs}

    def test_a_daemon_that_stays_is_not_touched_and_says_why(
        self, root: Root, environ: dict[str, str], starts: FakeStarts
    ) -> None:
        starts.plan(mode="ready")
        call(root, environ, "daemon start")
        error = {"code": "resource_busy", "message": "Run r1 is active in this repository.", "detail": "End it."}
        starts.plan(mode="ready", stays={"why": "refused", "pid": 7, "error": error})
        code, said = call(root, environ, "daemon restart")
        assert (code, said.out, "Run r1 is active" in said.err) == (1, "", True)
        assert process_start_time(starts.pids[0]) is not None
        assert call(root, environ, "daemon restart --when-idle --leave-runs")[0] == 2
        call(root, environ, "daemon stop")

    def test_a_successor_is_told_by_its_own_word_whatever_files_still_name(
        self, root: Root, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A full disk keeps the locator of the one before, which lives a moment longer than its place."""
        before = Process(os.getpid(), process_start_time(os.getpid()) or "", boot_id())
        ours, theirs = socket.socketpair()
        monkeypatch.setattr("cueloop_client.control.located_process", lambda root, world: before)
        monkeypatch.setattr("cueloop_client.reach.located_process", lambda root, world: before)
        monkeypatch.setattr("cueloop_client.control.replace", lambda *_: (ours, Replaced(4711, "handover")))
        with theirs:
            code, said = call(root, environ, "daemon restart")
        assert (code, said.out) == (0, "The daemon was replaced (process 4711); no caller was turned away.\n")

    def test_d04_one_that_does_not_answer_is_ended_and_replaced(
        self, root: Root, environ: dict[str, str], starts: FakeStarts, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        starts.plan(mode="ready", deaf=True)
        call(root, environ, "daemon start")
        (pid,) = starts.pids
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr("cueloop_client.control.TERM_SECONDS", 0.3)
        error = {"code": "unknown", "message": "The daemon does not answer."}
        starts.plan(mode="ready", stays={"why": "silent", "pid": pid, "error": error})
        code, said = call(root, environ, "daemon restart --json")
        assert (code, process_start_time(pid)) == (0, None)
        assert json.loads(said.out)["pid"] == starts.pids[1]
        assert said.err.splitlines()[0] == f"The daemon (process {pid}) does not answer; it is ended, and a new one is started."

    def test_d12_an_older_daemon_without_a_common_protocol_is_replaced_by_itself(
        self, root: Root, environ: dict[str, str], starts: FakeStarts, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        starts.plan(mode="ready", protocol=(1, 1))
        call(root, environ, "daemon start")
        for name in ("PROTOCOL", "OLDEST_PROTOCOL_VERSION"):
            monkeypatch.setattr(f"cueloop_client.reach.{name}", 2)
        error = {"code": "resource_busy", "message": "Run r1 is active in this repository."}
        starts.plan(mode="ready", protocol=(2, 2), stays={"why": "refused", "pid": 7, "error": error})
        code, said = call(root, environ, "session show")
        assert (code, "Run r1 is active" in said.err, "cueloop daemon restart --when-idle" in said.err) == (1, True, True)
        code, said = call(root, environ, "daemon status")
        assert (code, "cueloop daemon restart" in said.err, len(starts.pids)) == (1, True, 1)
        starts.plan(mode="ready", protocol=(2, 2))
        code, said = call(root, environ, "session show")
        assert said.err.count("was replaced by this one's") == 1
        assert (len(starts.pids), process_start_time(starts.pids[0])) == (2, None)

    def test_two_answers_to_one_question_are_a_mistake(self, root: Root, environ: dict[str, str]) -> None:
        for command in ("stop", "restart"):
            assert call(root, environ, f"daemon {command} --leave-runs --cancel-runs")[0] == 2

    def test_d27_start_tries_at_once_what_others_wait_for(self, root: Root, environ: dict[str, str], starts: FakeStarts) -> None:
        starts.plan(mode="die")
        for line, count in (("session show", 1), ("session show", 1), ("daemon start", 2)):
            code, said = call(root, environ, line)
            assert (code, "no room on the disk" in said.err, len(starts.pids)) == (1, True, count)
        starts.plan(mode="ready")
        assert call(root, environ, "daemon start")[0] == 0

    def test_where_no_daemon_can_run_nothing_is_created(self, short: Path, environ: dict[str, str]) -> None:
        (short / "bare").mkdir()
        code, said = call(Root(str(short / "bare"), str(short / "bare")), environ, "daemon start")
        assert (code, "has no .cueloop folder" in said.err) == (1, True)
        assert os.listdir(short / "bare") == []


STATUS: dict[str, Any] = {
    "pid": 77, "daemon_version": "1.2.3", "state": "serving", "uptime_seconds": 3700.5, "connections": 2, "subscribers": 1,
    "memory_bytes": 41_000_000, "watcher": {"backend": "polling", "degraded": True, "reason": "no inotify left"},
    "events": {"epoch": "e", "last_seq": 5, "bytes": 1_200_000, "degraded": False},
    "paths": {"socket": "/run/d.sock", "log": "/r/daemon.log"}, "active_run": {"run_id": "r1", "state": "running"},
}  # fmt: skip


class TestStatus:
    def test_running(self, root: Root, environ: dict[str, str]) -> None:
        with serving(root, environ, answering({"daemon.status": STATUS})):
            code, told = call(root, environ, "daemon status")
            as_json = call(root, environ, "daemon status --json")[1]
        assert code == 0
        for words in ("77", "1.2.3", "1 hour 1 minute", "41 MB", "2, 1 subscribed", "polling; degraded: no inotify left"):
            assert words in told.out
        for words in ("5 so far, 1.2 MB\n", "r1, running", "/run/d.sock", "/r/daemon.log", root.path):
            assert words in told.out
        older = "this command (0.1.0) is older than the daemon: update cueloop"
        assert json.loads(as_json.out) == {"running": True, **STATUS, "newer": older}
        assert older in told.out

    def test_not_running_is_exit_code_3_and_starts_nothing(self, root: Root, environ: dict[str, str], starts: FakeStarts) -> None:
        starts.plan(mode="ready")
        code, told = call(root, environ, "daemon status")
        assert (code, told.out) == (3, f"No daemon runs for {root.path}.\n")
        assert json.loads(call(root, environ, "daemon status --json")[1].out) == {"running": False}
        assert starts.pids == []

    def test_a_stranger_answer_is_still_told(self, root: Root, environ: dict[str, str]) -> None:
        with serving(root, environ, answering({"daemon.status": {"paths": 3, "events": [], "uptime_seconds": "x"}})):
            assert call(root, environ, "daemon status")[0] == 0


@pytest.mark.parametrize(
    ("daemon", "ours", "has_run", "said"),
    [
        ("0.1.0", "0.1.0", True, ""),
        ("0.1.0", "0.2.0", False, "version 0.2.0 waits: cueloop daemon restart"),
        ("0.9.0", "0.10.0", True, "version 0.10.0 waits: cueloop daemon restart --when-idle"),
        ("1.0", "0.10.0", False, "this command (0.10.0) is older than the daemon: update cueloop"),
        ("", "0.1.0", False, ""),
        ("unknown", "0.1.0", False, ""),
        ("0.1.0+g1", "0.1.0", False, ""),
    ],
)
def test_d12_another_version_is_said_with_what_brings_it(daemon: str, ours: str, has_run: bool, said: str) -> None:
    assert waiting(daemon, has_run, ours=ours) == said


class TestLogs:
    def log(self, root: Root, text: str) -> Path:
        path = Path(root.join(".cueloop/cache/cueloopd/daemon.log"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def test_the_last_lines(self, root: Root, environ: dict[str, str]) -> None:
        self.log(root, "".join(f"{number}\n" for number in range(100)))
        assert call(root, environ, "daemon logs")[1].out == "".join(f"{number}\n" for number in range(50, 100))
        assert call(root, environ, "daemon logs -n 2")[1].out == "98\n99\n"
        assert call(root, environ, "daemon logs --lines 0")[1].out == ""
        assert call(root, environ, "daemon logs -n x")[0] == 2

    def test_a_running_daemon_says_where_its_log_is(self, root: Root, environ: dict[str, str], short: Path) -> None:
        self.log(root, "old\n")
        (short / "elsewhere.log").write_text("new\n")
        with serving(root, environ, answering({"daemon.status": {"paths": {"log": str(short / "elsewhere.log")}}})):
            assert call(root, environ, "daemon logs")[1].out == "new\n"

    def test_an_ill_daemon_is_no_obstacle(self, root: Root, environ: dict[str, str]) -> None:
        self.log(root, "why it is ill\n")
        with serving(root, environ, lambda connection, request: connection.raw(b"nonsense\n")):
            assert call(root, environ, "daemon logs")[1].out == "why it is ill\n"

    def test_no_log_yet(self, root: Root, environ: dict[str, str]) -> None:
        code, said = call(root, environ, "daemon logs")
        assert (code, "There is no log yet" in said.err) == (1, True)

    @pytest.mark.parametrize("number", [0, 1, 3, 1000])
    @pytest.mark.parametrize("text", [b"", b"\n", b"a", b"a\nb", b"a\nb\n", b"x" * 200_000 + b"\nb\nc\nd\n", b"a\n" * 100_000])
    def test_any_end_of_any_file(self, tmp_path: Path, text: bytes, number: int) -> None:
        (tmp_path / "log").write_bytes(text)
        fd = os.open(tmp_path / "log", os.O_RDONLY)
        try:
            lines = text.splitlines(keepends=True)
            assert last_lines(fd, number) == (b"".join(lines[-number:]) if number else b"")
            assert os.read(fd, 1) == b""
        finally:
            os.close(fd)

    def test_follow_goes_on_after_a_rotation(self, root: Root, environ: dict[str, str]) -> None:
        path = self.log(root, "one\n")
        process = subprocess.Popen(
            [*CUELOOP, "daemon", "logs", "-f"], cwd=root.path, env=environ, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == "one\n"
            with path.open("a") as file:
                file.write("two\n")
            assert process.stdout.readline() == "two\n"
            path.rename(path.with_suffix(".1"))
            with path.with_suffix(".1").open("a") as file:
                file.write("three\n")
            path.write_text("four\n")
            assert [process.stdout.readline() for _ in range(2)] == ["three\n", "four\n"]
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130


class TestWaitingForTheEnd:
    def deadline(self, seconds: float) -> Deadline:
        return Deadline(time.monotonic, time.monotonic() + seconds, seconds)

    def test_another_process_with_the_same_number_is_not_waited_for(self) -> None:
        await_end(Process(os.getpid(), "1", boot_id()), self.deadline(0.1))
        started = process_start_time(os.getpid())
        assert started is not None
        await_end(Process(os.getpid(), started, "another boot"), self.deadline(0.1))

    @pytest.mark.parametrize("has_descriptors", [True, False])
    def test_the_end_is_noticed_with_process_descriptors_and_without(
        self, has_descriptors: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def unknown_call(pid: int) -> int:
            raise OSError(38, "Function not implemented")

        if not has_descriptors:
            monkeypatch.setattr("os.pidfd_open", unknown_call)
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        started = process_start_time(process.pid)
        assert started is not None
        with pytest.raises(Exception, match=f"process {process.pid}. is still there"):
            await_end(Process(process.pid, started, boot_id()), self.deadline(0.1))
        process.kill()
        await_end(Process(process.pid, started, boot_id()), self.deadline(30))
        process.communicate()
