"""One request and one answer, with hostile and slow peers."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client.fakes import Connection, serving
from cueloop_client.exchange import ANSWER_LIMIT, ask, await_close, connect, read_message
from cueloop_client.failures import BadAnswer, Failure, Lost, Silent, Stranger
from cueloop_client.world import Deadline
from cueloop_protocol.codes import RpcError
from cueloop_protocol.roots import Root


def soon(seconds: float = 10.0) -> Deadline:
    return Deadline(time.monotonic, time.monotonic() + seconds, seconds)


def asked(root: Root, environ: dict[str, str], handler: Callable[[Connection, dict[str, Any]], None]) -> Any:
    with serving(root, environ, handler) as daemon:
        sock = connect(daemon.path, os.getuid(), soon())
        assert sock is not None
        with sock:
            return ask(sock, "ping", {"a": "é"}, soon())


def test_request_and_result(root: Root, environ: dict[str, str]) -> None:
    seen: list[object] = []

    def handle(connection: Connection, request: dict[str, Any]) -> None:
        seen.append(request)
        connection.answer(request, {"x": [1]})

    assert asked(root, environ, handle) == {"x": [1]}
    assert seen == [{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": "é"}}]


def test_notifications_and_pieces_before_the_answer_are_read_over(root: Root, environ: dict[str, str]) -> None:
    def handle(connection: Connection, request: dict[str, Any]) -> None:
        connection.send({"jsonrpc": "2.0", "method": "daemon.closing", "params": {"reason": "idle"}})
        for byte in b'{"jsonrpc":"2.0","id":1,"result":"\xc3\xa9"}\n':
            connection.raw(bytes([byte]))

    assert asked(root, environ, handle) == "é"


def test_an_error_is_raised_with_its_document(root: Root, environ: dict[str, str]) -> None:
    def handle(connection: Connection, request: dict[str, Any]) -> None:
        connection.refuse(request, RpcError(-32001, "bad queue", word="queue_corrupted", detail="line 3").to_wire())

    with pytest.raises(RpcError, match="bad queue") as caught:
        asked(root, environ, handle)
    assert caught.value.document == {
        "version": 1, "code": "queue_corrupted", "message": "bad queue", "detail": "line 3", "retryable": False
    }  # fmt: skip


def test_an_error_without_an_id_is_the_reason_of_a_close(root: Root, environ: dict[str, str]) -> None:
    def handle(connection: Connection, request: dict[str, Any]) -> None:
        connection.send({"jsonrpc": "2.0", "id": None, "error": RpcError(-32010, "too many connections").to_wire()})
        connection.close()

    with pytest.raises(RpcError, match="too many connections"):
        asked(root, environ, handle)


HOSTILE = [
    (b"hello\n", BadAnswer, "not JSON"),
    (b"\xff\xfe\n", BadAnswer, "not JSON"),
    (b"\n", BadAnswer, "not JSON"),
    (b"[" * 100_000 + b"\n", BadAnswer, "not JSON"),
    (b"[]\n", BadAnswer, "not a JSON-RPC message"),
    (b"null\n", BadAnswer, "not a JSON-RPC message"),
    (b'{"jsonrpc":"2.0","id":2,"result":{}}\n', BadAnswer, "request 2, which was not asked"),
    (b'{"jsonrpc":"2.0","id":"1","result":{}}\n', BadAnswer, "request '1'"),
    (b'{"jsonrpc":"2.0","id":true,"result":{}}\n', BadAnswer, "request True"),
    (b'{"jsonrpc":"2.0","id":null,"result":{}}\n', BadAnswer, "request None"),
    (b'{"jsonrpc":"2.0","id":1}\n', BadAnswer, "neither a result nor an error"),
    (b"{}\n", BadAnswer, "request None"),
    (b'{"jsonrpc":"2.0","id":1,"resu', Lost, "in the middle"),
    (b"", Lost, "without an answer"),
]


@pytest.mark.parametrize(("data", "kind", "said"), HOSTILE, ids=[repr(row[0][:30]) for row in HOSTILE])
def test_hostile_answers(root: Root, environ: dict[str, str], data: bytes, kind: type[Failure], said: str) -> None:
    def handle(connection: Connection, request: dict[str, Any]) -> None:
        connection.raw(data)
        connection.close()

    with pytest.raises(kind, match=said):
        asked(root, environ, handle)


def test_an_error_that_is_no_object_still_has_a_document(root: Root, environ: dict[str, str]) -> None:
    with pytest.raises(RpcError) as caught:
        asked(root, environ, lambda connection, request: connection.refuse(request, "boo"))
    assert caught.value.document["code"] == "unknown"


def test_an_endless_stream_of_notifications_has_an_end(root: Root, environ: dict[str, str]) -> None:
    def handle(connection: Connection, request: dict[str, Any]) -> None:
        connection.raw(b'{"jsonrpc":"2.0","method":"x"}\n' * 1001)

    with pytest.raises(BadAnswer, match="no answer"):
        asked(root, environ, handle)


def test_an_answer_over_the_limit_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ANSWER_LIMIT == 256 * 1024 * 1024
    monkeypatch.setattr("cueloop_client.exchange.ANSWER_LIMIT", 1000)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"x" * 2000)
        with pytest.raises(BadAnswer, match="over 1000 bytes"):
            read_message(ours, bytearray(), soon())


def test_d24_the_deadline_covers_the_answer(root: Root, environ: dict[str, str]) -> None:
    with serving(root, environ, lambda connection, request: None) as daemon:
        sock = connect(daemon.path, os.getuid(), soon())
        assert sock is not None
        with sock, pytest.raises(Silent, match=r"does not answer \(waited 0.2 s\)"):
            ask(sock, "ping", {}, soon(0.2))


def test_d24_bytes_that_trickle_in_do_not_prolong_the_deadline(root: Root, environ: dict[str, str]) -> None:
    over = threading.Event()

    def handle(connection: Connection, request: dict[str, Any]) -> None:
        while not over.wait(0.02):
            connection.raw(b" ")

    with serving(root, environ, handle) as daemon:
        sock = connect(daemon.path, os.getuid(), soon())
        assert sock is not None
        began = time.monotonic()
        with sock, pytest.raises(Silent):
            ask(sock, "ping", {}, soon(0.3))
        over.set()
        assert time.monotonic() - began < 5


def test_d24_the_deadline_covers_writing() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(Silent, match="does not read"):
        ask(ours, "ping", {"x": "y" * 10_000_000}, soon(0.2))


def test_d24_the_deadline_covers_connecting_to_a_full_backlog(short: Path) -> None:
    path = str(short / "full.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = []
        try:
            for _ in range(8):
                sock = socket.socket(socket.AF_UNIX)
                sock.setblocking(False)
                waiting.append(sock)
                try:
                    sock.connect(path)
                except BlockingIOError:
                    break
            else:
                pytest.fail("the backlog never filled")
            began = time.monotonic()
            with pytest.raises(Silent, match="does not take connections"):
                connect(path, os.getuid(), soon(0.2))
            assert 0.15 < time.monotonic() - began < 5
        finally:
            for sock in waiting:
                sock.close()


def test_d01_nobody_listens_at_a_stale_socket_a_file_or_nothing(short: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(short / "stale.sock"))
    (short / "file").write_text("")
    for name in ("stale.sock", "file", "missing"):
        assert connect(str(short / name), os.getuid(), soon()) is None


def test_somebody_elses_process_gets_nothing(root: Root, environ: dict[str, str]) -> None:
    with serving(root, environ, lambda connection, request: None) as daemon:
        with pytest.raises(Stranger, match=f"another user .uid {os.getuid()}"):
            connect(daemon.path, os.getuid() + 1, soon())
        assert daemon.received == []


def test_a_reset_connection_is_lost_and_not_a_traceback() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(Lost):
        ask(ours, "ping", {}, soon())


def test_waiting_for_the_other_side_to_close_reads_over_what_still_comes() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(b"something")
        with pytest.raises(Silent, match="does not close"):
            await_close(ours, soon(0.1))
        theirs.close()
        await_close(ours, soon())
    await_close(ours, soon())
