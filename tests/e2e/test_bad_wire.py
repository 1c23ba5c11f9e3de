"""Bad input over the socket: the error that the specification names, and a daemon that goes on."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from support.runs import Stage, finished, nothing_left, start
from support.wire import SECONDS, Ended, Refused, Wire, wait_for
from support.world import Daemon, World

MIB = 1024 * 1024


@pytest.fixture
def daemon(shared: tuple[World, Daemon]) -> Daemon:
    """One daemon for all of them: whatever one connection is told, the others never notice."""
    return shared[1]


@pytest.fixture
def wire(daemon: Daemon) -> Iterator[Wire]:
    with daemon.connect() as wire:
        yield wire


def _error(wire: Wire, data: bytes) -> dict[str, Any]:
    wire.send(data)
    answer = wire.answer()
    assert answer["jsonrpc"] == "2.0"
    error: dict[str, Any] = answer["error"]
    return {"id": answer["id"], **error}


@pytest.mark.parametrize(
    ("line", "code", "number"),
    [
        (b"nonsense", -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"', -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"\x00\x00\x00", -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": "\xb2"}}', -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": NaN}}', -32700, None),
        (b"[" * 20_000 + b"]" * 20_000, -32700, None),
        (b"42", -32600, None),
        (b"null", -32600, None),
        (b'"ping"', -32600, None),
        (b"{}", -32600, None),
        (b"[]", -32600, None),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 7}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "method": "daemon.shutdown"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "nothing.such"}', -32601, 1),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "__class__"}', -32601, 1),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"more": 1}}', -32602, 1),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', -32602, 1),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "session.clear", "params": {}}', -32602, 1),
    ],
)
def test_what_is_no_request_is_answered_and_the_connection_goes_on_b04_b08_d19(
    wire: Wire, line: bytes, code: int, number: int | None
) -> None:
    found = _error(wire, line + b"\n")
    assert found["code"] == code, found
    if number is not None:
        assert found["id"] == number
    assert "Traceback" not in json.dumps(found)
    assert wire.call("ping") == {}


@pytest.mark.parametrize(
    ("method", "params", "path"),
    [
        ("config.resolve", {"resume": "yes"}, "resume"),
        ("config.resolve", {"task_id": 5}, "task_id"),
        ("config.resolve", {"task_id": "  "}, "task_id"),
        ("config.resolve", {"caller": {"home": "relative"}}, "caller"),
        ("config.resolve", {"caller": {}}, "caller.home"),
        ("config.resolve", {"nothing": 1}, "nothing"),
        ("resume.preview", {"request": {"mode": "all"}}, "request.mode"),
        ("resume.preview", {}, "request"),
        ("session.clear", {"etag": 1}, "etag"),
        ("events.subscribe", {"cursor": "nonsense"}, "cursor"),
        ("events.subscribe", {"kinds": ["nothing_such"]}, "kinds"),
        ("hello", {"client": {"name": "x"}, "protocol": {"min": "1", "max": 1}}, "protocol.min"),
    ],
)
def test_wrong_params_are_named_by_their_path(wire: Wire, method: str, params: dict[str, Any], path: str) -> None:
    with pytest.raises(Refused) as refused:
        wire.call(method, **params)
    assert refused.value.code == -32602
    assert refused.value.data["error"]["code"] == "parse_error"
    assert path in json.dumps(refused.value.error)
    assert wire.call("ping") == {}


@pytest.mark.parametrize("number", [0, "", 1.5, None, "x" * 1000, 2**53, -1], ids=repr)
def test_an_id_comes_back_as_it_came(wire: Wire, number: object) -> None:
    wire.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}).encode() + b"\n")
    answer = wire.answer()
    assert answer == {"jsonrpc": "2.0", "id": number, "result": {}}
    assert type(answer["id"]) is type(number)


class TestBatches:
    """JSON-RPC 2.0, section 6."""

    @staticmethod
    def answers(wire: Wire, items: list[object]) -> list[Any]:
        wire.send(json.dumps(items).encode() + b"\n")
        answer = wire.line()
        assert isinstance(answer, list)
        return answer

    def test_each_item_has_its_answer_d21(self, wire: Wire) -> None:
        ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
        (wrong,) = self.answers(wire, [1])
        assert (wrong["id"], wrong["error"]["code"]) == (None, -32600)
        found = self.answers(wire, [1, ping, [ping], {**ping, "id": 8, "method": "nothing"}])
        assert [item.get("error", {}).get("code") for item in found] == [-32600, None, -32600, -32601]
        assert [item["id"] for item in found] == [None, 7, None, 8]

    def test_notifications_alone_have_none_d21(self, wire: Wire) -> None:
        wire.send(json.dumps([{"jsonrpc": "2.0", "method": "ping"}] * 3).encode() + b"\n")
        assert wire.ask("ping") == {"jsonrpc": "2.0", "id": 1, "result": {}}

    def test_ten_thousand_items_d21(self, wire: Wire) -> None:
        found = self.answers(wire, [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(10_000)])
        assert sorted(item["id"] for item in found) == list(range(10_000))
        assert _error(wire, json.dumps([1] * 10_001).encode() + b"\n")["code"] in (-32600, -32010)
        assert wire.call("ping") == {}


class TestFraming:
    """Lines or headers, decided by the first byte; frames of any size up to the limit."""

    @pytest.mark.parametrize("size", [65_535, 65_536, 70_000, 5 * MIB, 16 * MIB])
    def test_frames_up_to_the_limit_are_taken_d17(self, wire: Wire, size: int) -> None:
        head, tail = b'{"jsonrpc": "2.0", "id": 1, "method": "config.resolve", "params": {"task_id": "', b'"}}'
        wire.send(head + b"x" * (size - len(head) - len(tail)) + tail + b"\n")
        answer = wire.answer()
        assert answer["id"] == 1
        assert wire.call("ping") == {}

    def test_a_frame_over_the_limit_ends_the_connection_with_a_reason_d17(self, daemon: Daemon, wire: Wire) -> None:
        before = daemon.resident()
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(64):
                wire.send(b"x" * MIB)
        answer = wire.answer()
        assert (answer["id"], answer["error"]["code"]) == (None, -32010)
        with pytest.raises(Ended):
            wire.line()
        assert daemon.resident() - before < 40 * MIB
        with daemon.connect() as other:
            assert other.call("ping") == {}

    @pytest.mark.parametrize("name", [b"Content-Length", b"content-length", b"CONTENT-LENGTH"])
    def test_headers_are_answered_with_headers(self, daemon: Daemon, name: bytes) -> None:
        with daemon.connect() as wire:
            body = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
            wire.send(b"%b: %d\r\n\r\n%b" % (name, len(body), body))
            head, _, rest = wire.sock.recv(65536).partition(b"\r\n\r\n")
            assert head == b"Content-Length: %d" % len(rest)
            assert json.loads(rest) == {"jsonrpc": "2.0", "id": 1, "result": {}}

    @pytest.mark.parametrize(
        "data",
        [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", b"GET / HTTP/1.1\r\n\r\n", b"Content-Length: x\r\n\r\n"],
        ids=["tls", "http", "no-number"],
    )
    def test_foreign_protocols_harm_nobody_d19(self, daemon: Daemon, wire: Wire, data: bytes) -> None:
        with daemon.connect() as stranger:
            stranger.send(data)
            assert stranger.sock.recv(65536) != b""
        assert wire.call("ping") == {}

    def test_a_bom_and_empty_lines_before_the_first_message_b02_d19(self, daemon: Daemon) -> None:
        with daemon.connect() as wire:
            wire.send(b"\xef\xbb\xbf\n\r\n  \n")
            assert wire.call("ping") == {}
            wire.send(b"\n\n")
            assert wire.call("ping") == {}

    def test_one_byte_at_a_time(self, wire: Wire) -> None:
        for byte in b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n':
            wire.send(bytes([byte]))
        assert wire.answer()["result"] == {}


class TestCrowds:
    """Connections have limits, and what happens at them is told."""

    def test_one_that_never_speaks_is_closed_after_five_seconds_with_a_reason_d24(self, wire: Wire) -> None:
        began = time.monotonic()
        answer = wire.answer()
        assert (answer["id"], answer["error"]["code"]) == (None, -32010)
        assert 4.5 < time.monotonic() - began < 8
        with pytest.raises(Ended):
            wire.line()

    def test_more_than_64_silent_ones_make_the_oldest_leave_d24(self, daemon: Daemon) -> None:
        with ExitStack() as stack:
            silent = [stack.enter_context(daemon.connect()) for _ in range(80)]
            answer = silent[0].answer(4)
            assert answer["error"]["code"] == -32010
            with daemon.connect() as wire:
                assert wire.call("ping") == {}
            assert silent[-1].call("ping") == {}

    def test_one_more_than_the_limit_is_told_so_d24(self, world: World) -> None:
        settings = world.home / ".config/cueloop/cueloopd.jsonc"
        settings.parent.mkdir(parents=True)
        settings.write_text('{"max_connections": 3} // few')
        daemon = world.start(at_home=True)
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(daemon.connect()).call("ping")
            with daemon.connect() as wire:
                answer = wire.answer()
                assert (answer["id"], answer["error"]["code"]) == (None, -32010)
                assert "3 connections" in answer["error"]["message"]
                with pytest.raises(Ended):
                    wire.line()
        wait_for(lambda: _is_served(daemon), "a place is free again")
        assert daemon.stop() == 0

    def test_one_without_a_place_for_a_caller_can_be_stopped_but_not_under_a_run_d24(self, world: World) -> None:
        stage = Stage.make(world, "begin()\nwait_for('go')\nend()\n")
        stage.settings(max_connections=2)
        daemon = world.start(at_home=True)
        with nothing_left(stage), daemon.connect() as first, daemon.connect() as second:
            second.call("ping")
            run_id = start(first, stage)
            stage.was_called()
            refused = world.run("daemon", "stop")
            assert (refused.returncode, b"2 connections" in refused.stderr, run_id in refused.stderr.decode()) == (1, True, True)
            assert b"cueloop daemon stop" in world.run("daemon", "restart").stderr
            assert first.call("ping") == {}
            stopped = world.run("daemon", "stop", "--leave-runs")
            assert (stopped.returncode, daemon.process.wait(SECONDS)) == (0, 0), stopped.stderr
            stage.make_file("go")
            with world.start(at_home=True).connect() as wire:
                assert finished(wire, run_id)["summary"]["outcome"] == "ran"
        world.run("daemon", "stop")

    def test_2000_idle_connections_with_256_descriptors_d24(self, world: World) -> None:
        def few() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

        daemon = world.start(at_home=True, before=few)
        with daemon.connect() as first, ExitStack() as stack:
            first.call("ping")
            for _ in range(2000):
                sock = stack.enter_context(socket.socket(socket.AF_UNIX))
                sock.setblocking(False)
                if sock.connect_ex(daemon.socket):
                    break  # the kernel's queue is full: whoever comes now waits outside
            before = _cpu_seconds(daemon.pid)
            for _ in range(50):
                assert first.call("ping") == {}
            assert first.call("config.resolve", caller=world.caller)["document"]["version"] == 5
            assert _cpu_seconds(daemon.pid) - before < 2
        with daemon.connect() as wire:
            assert wire.call("ping") == {}
        assert daemon.stop() == 0

    def test_callers_do_not_take_the_descriptors_that_a_successor_needs_d24(self, world: World) -> None:
        def few() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

        daemon = world.start(at_home=True, before=few)
        with ExitStack() as stack:
            wires = []
            for _ in range(128):
                wires.append(stack.enter_context(daemon.connect()))
                wires[-1].call("ping")  # at once: who says nothing for five seconds is closed
            with daemon.connect() as one_more:
                assert one_more.answer()["error"]["code"] == -32010
            for wire in wires[:3]:
                wire.sock.close()
            wait_for(lambda: _is_served(daemon), "a place is free again")
            heir = world.start(at_home=True, before=few, more=("--take-over", "refuse"))
            assert daemon.process.wait(SECONDS) == 0
        assert heir.stop() == 0

    def test_a_client_gives_up_at_its_deadline_and_all_goes_on_afterwards_d04_d24(self, shared: tuple[World, Daemon]) -> None:
        world, daemon = shared
        place = Path(daemon.socket).stat().st_ino
        daemon.send(signal.SIGSTOP)
        began = time.monotonic()
        done = world.run("--timeout", "1", "session", "show")
        assert done.returncode == 1
        assert b"does not answer" in done.stderr
        assert time.monotonic() - began < 5
        second = subprocess.run(
            [sys.executable, "-P", "-m", "cueloop_daemon", "--root", str(world.repository.path)],
            env=world.environ, capture_output=True, timeout=30,
        )  # fmt: skip
        assert second.returncode == 3
        assert f"pid {daemon.pid}".encode() in second.stderr
        daemon.send(signal.SIGCONT)
        assert world.run("session", "show").returncode == 0
        assert Path(daemon.socket).stat().st_ino == place
        assert world.daemons() == [daemon.pid]


def _is_served(daemon: Daemon) -> bool:
    with daemon.connect() as wire:
        try:
            return bool(wire.call("ping") == {})
        except (AssertionError, Ended, OSError):
            return False


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
