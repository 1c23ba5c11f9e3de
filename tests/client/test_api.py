"""The asynchronous library, on asyncio and trio, against a fake daemon."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from client.fakes import Connection, FakeDaemon, answering, make_world, serving
from cueloop_client import RawNote, connect
from cueloop_client.api import RepositoryGone
from cueloop_client.api.link import Box, Link
from cueloop_client.failures import BadAnswer, Lost, NoDaemon, Silent, StartFailed
from cueloop_client.world import World
from cueloop_protocol.codes import RpcError, conflict, shutting_down
from cueloop_protocol.cursor import Cursor
from cueloop_protocol.notifications import EventNotification, GapNotification, RunFinishedNotification
from cueloop_protocol.results import Nothing, SessionGetResult, SubscribeResult
from cueloop_protocol.roots import Root

MISSING = {"revision": 1, "observed_at": "t", "settling": False, "path": "/r/s", "state": "missing"}


@pytest.fixture
def world(environ: dict[str, str]) -> World:
    return make_world(environ)


class TestCalls:
    async def test_a_result_as_json_and_as_its_model(self, root: Root, environ: dict[str, str], world: World) -> None:
        newer = {**MISSING, "added_later": {"x": 1}}
        with serving(root, environ, answering({"session.get": newer, "ping": {}})) as daemon:
            async with connect(root, world=world) as client:
                assert client.root == root
                assert await client.call("session.get") == newer
                assert (await client.ask("session.get", SessionGetResult)).state == "missing"
                assert await client.ask("ping", Nothing) == Nothing()
                with pytest.raises(BadAnswer, match="does not fit"):
                    await client.ask("session.get", SubscribeResult)
        assert daemon.received[0]["params"] == {"caller": {"home": environ["HOME"]}}
        assert daemon.received[2]["params"] == {}
        assert len({message["id"] for message in daemon.received}) == 4
        assert daemon.accepted == 1

    async def test_a_given_caller_is_kept(self, root: Root, environ: dict[str, str], world: World) -> None:
        with serving(root, environ, answering({"session.get": MISSING})) as daemon:
            async with connect(root.path, world=world) as client:
                await client.call("session.get", {"caller": {"home": "/other"}})
        assert daemon.received[0]["params"] == {"caller": {"home": "/other"}}

    async def test_an_error_is_raised_as_it_is_and_not_in_a_group(
        self, root: Root, environ: dict[str, str], world: World
    ) -> None:
        async def clear() -> None:
            async with connect(root, world=world) as client:
                await client.call("session.clear", {"etag": "e"})

        with serving(root, environ, answering({"session.clear": conflict("changed")})), pytest.raises(RpcError, match="changed"):
            await clear()

    async def test_answers_find_their_calls_in_any_order(self, root: Root, environ: dict[str, str], world: World) -> None:
        held: list[dict[str, Any]] = []

        def handle(connection: Connection, request: dict[str, Any]) -> None:
            held.append(request)
            if len(held) == 50:
                for waiting in reversed(held):
                    connection.answer(waiting, waiting["params"]["n"])

        got: dict[int, int] = {}
        with serving(root, environ, handle):
            async with connect(root, world=world) as client, anyio.create_task_group() as group:

                async def one(number: int) -> None:
                    got[number] = await client.call("ping", {"n": number})

                for number in range(50):
                    group.start_soon(one, number)
        assert got == {number: number for number in range(50)}

    async def test_d24_a_call_has_a_deadline_and_tells_the_daemon_when_it_passes(
        self, root: Root, environ: dict[str, str], world: World
    ) -> None:
        def handle(connection: Connection, request: dict[str, Any]) -> None:
            if request["method"] == "ping":
                connection.answer(request, {})

        with serving(root, environ, handle) as daemon:
            async with connect(root, world=world) as client:
                with pytest.raises(Silent, match=r"did not answer session.get within 0.1 s"):
                    await client.call("session.get", timeout=0.1)
                assert await client.call("ping") == {}
            withdrawn = daemon.await_message(lambda message: message["method"] == "$/cancelRequest")
        assert withdrawn["params"] == {"id": daemon.received[0]["id"]}
        assert "id" not in withdrawn
        assert daemon.accepted == 1

    async def test_a_cancelled_call_withdraws_its_request_and_its_late_answer_is_read_over(
        self, root: Root, environ: dict[str, str], world: World
    ) -> None:
        asked: list[dict[str, Any]] = []

        def handle(connection: Connection, request: dict[str, Any]) -> None:
            if request["method"] == "$/cancelRequest":
                connection.refuse(asked[0], RpcError(-32800, "cancelled").to_wire())
            elif request["method"] == "ping":
                connection.answer(request, {})
            else:
                asked.append(request)

        with serving(root, environ, handle) as daemon:
            async with connect(root, world=world) as client:
                async with anyio.create_task_group() as group:
                    group.start_soon(client.call, "session.get")
                    await anyio.to_thread.run_sync(daemon.await_message, lambda message: message["method"] == "session.get")
                    group.cancel_scope.cancel()
                assert await client.call("ping") == {}

    async def test_a_reading_call_is_sent_again_over_a_new_connection(
        self, root: Root, environ: dict[str, str], world: World
    ) -> None:
        def handle(connection: Connection, request: dict[str, Any]) -> None:
            connection.answer(request, MISSING) if daemon.accepted > 1 else connection.close()

        with serving(root, environ, handle) as daemon:
            async with connect(root, world=world) as client:
                assert await client.call("session.get") == MISSING
            assert len(daemon.received) == 2

    async def test_a_changing_call_is_never_sent_again(self, root: Root, environ: dict[str, str], world: World) -> None:
        with serving(root, environ, lambda connection, request: connection.close()) as daemon:
            async with connect(root, world=world) as client:
                with pytest.raises(Lost):
                    await client.call("session.clear", {"etag": "e"})
        assert len(daemon.received) == 1

    @pytest.mark.parametrize(
        "data",
        [
            b"hello\n",
            b"[1]\n",
            b'{"id":77,"result":1}\n',
            b'{"id":"1","result":1}\n',
            b'{"id":true,"result":1}\n',
            b'{"id":0,"result":1}\n',
        ],
    )
    async def test_hostile_messages_end_the_call(self, root: Root, environ: dict[str, str], world: World, data: bytes) -> None:
        with serving(root, environ, lambda connection, request: connection.raw(data)):
            async with connect(root, world=world) as client:
                with pytest.raises(BadAnswer):
                    await client.call("session.clear", {"etag": "e"})

    async def test_an_error_without_an_id_is_why_the_connection_ends(
        self, root: Root, environ: dict[str, str], world: World
    ) -> None:
        def handle(connection: Connection, request: dict[str, Any]) -> None:
            connection.send({"jsonrpc": "2.0", "id": None, "error": RpcError(-32010, "too many").to_wire()})
            connection.close()

        with serving(root, environ, handle):
            async with connect(root, world=world) as client:
                with pytest.raises(RpcError, match="too many"):
                    await client.call("ping")

    async def test_nobody_there_and_nobody_to_be_started(self, root: Root, world: World) -> None:
        with pytest.raises(NoDaemon):
            async with connect(root, world=world, start=False):
                pytest.fail("connected to nobody")

    async def test_d27_a_start_that_fails_says_why(self, root: Root, world: World, starts: Any) -> None:
        starts.plan(mode="die")
        with pytest.raises(StartFailed, match="exit code 7"):
            async with connect(root, world=world):
                pytest.fail("connected to a dead daemon")

    async def test_a_daemon_is_started(self, root: Root, world: World, starts: Any) -> None:
        starts.plan(mode="ready")
        async with connect(root, world=world) as client:
            assert (await client.call("ping"))["pid"] == starts.pids[0]

    async def test_a_daemon_that_is_shutting_down_did_nothing_and_says_so(
        self, root: Root, environ: dict[str, str], world: World
    ) -> None:
        with serving(root, environ, answering({"session.clear": shutting_down()})):
            async with connect(root, world=world, start=False) as client:
                with pytest.raises(RpcError, match="shutting down"):
                    await client.call("session.clear", {"etag": "e"})

    async def test_the_successor_of_a_daemon_that_is_shutting_down_is_asked(self, root: Root, world: World, starts: Any) -> None:
        starts.plan(mode="ready", draining=1)
        async with connect(root, world=world) as client:
            assert (await client.call("session.clear", {"etag": "e"}))["pid"] == starts.pids[1]
        assert len(starts.pids) == 2


class TestLinks:
    async def test_a_daemon_that_does_not_read_costs_the_connection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cueloop_client.api.link.SEND_SECONDS", 0.1)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            link = Link(await anyio.abc.UNIXSocketStream.from_socket(ours))
            with pytest.raises(Lost, match="did not take the request"):
                await link.send({"x": "y" * 10_000_000})
            assert not link.is_open
            with pytest.raises(Lost):
                await link.receive()

    async def test_a_message_over_the_limit_ends_the_connection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cueloop_client.api.link.ANSWER_LIMIT", 1000)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            link = Link(await anyio.abc.UNIXSocketStream.from_socket(ours))
            theirs.sendall(b"x" * 2000)
            with pytest.raises(BadAnswer, match="over 1000 bytes"):
                await link.receive()
            assert not link.is_open

    async def test_a_send_that_is_cancelled_is_whole(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            link = Link(await anyio.abc.UNIXSocketStream.from_socket(ours))
            with anyio.CancelScope() as scope:
                scope.cancel()
                await link.send({"a": 1})
            await link.send({"b": 2})
            await link.aclose()
            sent = [json.loads(line) for line in theirs.makefile("rb")]
        assert sent in ([{"a": 1}, {"b": 2}], [{"b": 2}])

    def test_a_socket_that_nobody_wants_any_more_is_closed_whoever_comes_first(self) -> None:
        for abandon_first in (True, False):
            box, (ours, theirs) = Box(), socket.socketpair()
            with theirs:
                if abandon_first:
                    box.abandon()
                    assert box.keep(ours) is None
                else:
                    assert box.keep(ours) is ours
                    box.abandon()
                assert theirs.recv(1) == b""


def event(seq: int, subscription: str = "s", **more: object) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": "event",
        "params": {
            "subscription": subscription,
            "cursor": f"e:{seq}",
            "revision": seq,
            "origin": "watch",
            "event": {"version": 3, "kind": "warning", "timestamp": "t", "message": f"m{seq}"},
            **more,
        },
    }


class Log:
    """A daemon with a log of events, in which each connection gives a few and then something happens to it."""

    def __init__(self, last: int, each: int, ending: Callable[[Connection], None]) -> None:
        self.last, self.each, self.ending = last, each, ending
        self.asked: list[str | None] = []
        self.has_ended = threading.Event()

    def __call__(self, connection: Connection, request: dict[str, Any]) -> None:
        cursor = request["params"].get("cursor")
        self.asked.append(cursor)
        name = f"s{len(self.asked)}"
        start = int(cursor.split(":")[1]) if cursor else 0
        connection.answer(request, {"subscription": name, "cursor": f"e:{start}", "snapshot": None})
        end = min(start + self.each, self.last)
        for seq in range(start + 1, end + 1):
            connection.send(event(seq, name))
        if end < self.last:
            self.ending(connection)
            self.has_ended.set()


def closing(reason: str) -> Callable[[Connection], None]:
    def end(connection: Connection) -> None:
        connection.send({"jsonrpc": "2.0", "method": "daemon.closing", "params": {"reason": reason}})
        connection.close()

    return end


class TestSubscriptions:
    async def test_what_is_asked_and_what_comes(self, root: Root, environ: dict[str, str], world: World) -> None:
        snapshot = {"revision": 4, "observed_at": "t", "settling": False, "questions": [], "error": {
            "version": 1, "code": "unknown", "message": "m", "retryable": False}, "newer": 1}  # fmt: skip

        def handle(connection: Connection, request: dict[str, Any]) -> None:
            connection.answer(request, {"subscription": "s", "cursor": "e:5", "snapshot": snapshot})
            connection.send(event(6, subscription="another"))
            connection.send(event(7, added_later=True))

        with serving(root, environ, handle) as daemon:
            async with connect(root, world=world) as client:
                subscription = client.subscribe(cursor=Cursor("e", 5), kinds=["warning"], run_id="r")
                assert (subscription.cursor, subscription.snapshot) == ("e:5", None)
                async with subscription:
                    assert subscription.snapshot is not None
                    assert subscription.snapshot.revision == 4
                    note = await anext(subscription)
        assert isinstance(note, EventNotification)
        assert (note.cursor, note.event.kind) == ("e:7", "warning")
        assert daemon.received[0]["params"] == {
            "cursor": "e:5", "kinds": ["warning"], "run_id": "r", "caller": {"home": environ["HOME"]}
        }  # fmt: skip

    async def test_without_a_cursor_it_goes_on_from_where_the_stream_began(
        self, root: Root, environ: dict[str, str], world: World
    ) -> None:
        def handle(connection: Connection, request: dict[str, Any]) -> None:
            connection.answer(request, {"subscription": "s", "cursor": "e:41", "snapshot": None})
            if "cursor" not in request["params"]:
                connection.close()
            else:
                connection.send(event(42))

        with serving(root, environ, handle) as daemon:
            async with connect(root, world=world) as client:
                note = await anext(client.subscribe())
        assert note.cursor == "e:42"
        assert [message["params"].get("cursor") for message in daemon.received] == [None, "e:41"]

    @pytest.mark.parametrize("reason", ["lost", "idle", "upgrade", "replaced", "stopped", "newfangled"])
    async def test_each_event_once_and_in_order_over_lost_connections(
        self, root: Root, environ: dict[str, str], world: World, reason: str
    ) -> None:
        log = Log(10, 3, Connection.close if reason == "lost" else closing(reason))
        told: list[str] = []
        with serving(root, environ, log):
            async with connect(root, world=world) as client:
                subscription = client.subscribe(cursor="e:0", on_interruption=told.append)
                cursors = [(await anext(subscription)).cursor for _ in range(10)]
        assert cursors == [f"e:{seq}" for seq in range(1, 11)]
        assert log.asked == ["e:0", "e:3", "e:6", "e:9"]
        assert told == [reason] * 3

    async def test_a_frame_that_is_cut_is_not_a_note(self, root: Root, environ: dict[str, str], world: World) -> None:
        def cut(connection: Connection) -> None:
            connection.raw(b'{"jsonrpc":"2.0","method":"event","params":{"subscription":"s1","cursor":"e:9')
            connection.close()

        log = Log(2, 1, cut)
        with serving(root, environ, log):
            async with connect(root, world=world) as client, client.subscribe(cursor="e:0") as subscription:
                assert [(await anext(subscription)).cursor for _ in range(2)] == ["e:1", "e:2"]

    async def test_a_cancelled_wait_loses_nothing(self, root: Root, environ: dict[str, str], world: World) -> None:
        go = threading.Event()

        def handle(connection: Connection, request: dict[str, Any]) -> None:
            connection.answer(request, {"subscription": "s", "cursor": "e:0", "snapshot": None})
            first = json.dumps(event(1)).encode() + b"\n"
            connection.raw(first[:20])
            go.wait(10)
            connection.raw(first[20:])

        with serving(root, environ, handle):
            async with connect(root, world=world) as client, client.subscribe() as subscription:
                with anyio.move_on_after(0.05) as scope:
                    await anext(subscription)
                assert scope.cancelled_caught
                go.set()
                assert (await anext(subscription)).cursor == "e:1"

    async def test_a_gap_is_an_item_and_moves_the_cursor(self, root: Root, environ: dict[str, str], world: World) -> None:
        snapshot = {"revision": 9, "observed_at": "t", "settling": False, "questions": [], "error": {
            "version": 1, "code": "unknown", "message": "m", "retryable": False}}  # fmt: skip
        gap = {"subscription": "s", "cursor": "new:9", "from": "old:3", "to": "new:9", "snapshot": snapshot}

        def handle(connection: Connection, request: dict[str, Any]) -> None:
            connection.answer(request, {"subscription": "s", "cursor": "new:9", "snapshot": snapshot})
            connection.send({"jsonrpc": "2.0", "method": "gap", "params": gap})

        with serving(root, environ, handle):
            async with connect(root, world=world) as client, client.subscribe(cursor="old:3") as subscription:
                note = await anext(subscription)
                assert isinstance(note, GapNotification)
                assert (note.from_, note.to, note.snapshot.revision, subscription.cursor) == ("old:3", "new:9", 9, "new:9")

    async def test_what_this_version_cannot_read_is_handed_out_as_it_is(
        self, root: Root, environ: dict[str, str], world: World
    ) -> None:
        params = {"subscription": "s", "cursor": "e:1", "x": 1}
        finished = {"subscription": "s", "cursor": "e:3", "revision": 1, "run_id": "r", "summary": {
            "version": 2, "task_id": None, "exit_code": 0, "outcome": "stopped"}}  # fmt: skip

        def handle(connection: Connection, request: dict[str, Any]) -> None:
            connection.answer(request, {"subscription": "s", "cursor": "e:0", "snapshot": None})
            connection.send({"jsonrpc": "2.0", "method": "newer.note", "params": params})
            connection.send({"jsonrpc": "2.0", "method": "event", "params": {**params, "cursor": "e:2"}})
            connection.send({"jsonrpc": "2.0", "method": "run.finished", "params": finished})

        with serving(root, environ, handle):
            async with connect(root, world=world) as client, client.subscribe() as subscription:
                assert await anext(subscription) == RawNote("newer.note", "e:1", params)
                assert await anext(subscription) == RawNote("event", "e:2", {**params, "cursor": "e:2"})
                assert isinstance(await anext(subscription), RunFinishedNotification)

    async def test_a_repository_that_is_gone_ends_it(self, root: Root, environ: dict[str, str], world: World) -> None:
        with serving(root, environ, Log(9, 1, closing("repository_gone"))):
            async with connect(root, world=world) as client, client.subscribe() as subscription:
                await anext(subscription)
                with pytest.raises(RepositoryGone):
                    await anext(subscription)

    async def test_a_refused_subscription_is_raised(self, root: Root, environ: dict[str, str], world: World) -> None:
        with serving(root, environ, answering({"events.subscribe": RpcError(-32602, "Invalid params")})):
            async with connect(root, world=world) as client:
                with pytest.raises(RpcError, match="Invalid params"):
                    await anext(client.subscribe(kinds=["frob"]))

    @pytest.mark.parametrize(
        "data", [b"hello\n", b'{"id":1,"result":{}}\n', b'{"id":2,"result":{}}\n', b'{"id":1,"result":[]}\n']
    )
    async def test_hostile_answers_are_raised(self, root: Root, environ: dict[str, str], world: World, data: bytes) -> None:
        with serving(root, environ, lambda connection, request: connection.raw(data)):
            async with connect(root, world=world) as client:
                with pytest.raises(BadAnswer):
                    await anext(client.subscribe())

    async def test_nonsense_in_the_middle_is_raised_and_does_not_repeat_for_ever(
        self, root: Root, environ: dict[str, str], world: World
    ) -> None:
        with serving(root, environ, Log(9, 1, lambda connection: connection.raw(b"nonsense\n"))):
            async with connect(root, world=world) as client, client.subscribe() as subscription:
                await anext(subscription)
                with pytest.raises(BadAnswer):
                    await anext(subscription)

    async def test_d24_subscribing_has_a_deadline(self, root: Root, environ: dict[str, str], world: World) -> None:
        with serving(root, environ, lambda connection, request: None):
            async with connect(root, world=world, timeout=0.1) as client:
                with pytest.raises(Silent, match=r"events.subscribe within 0.1 s"):
                    await anext(client.subscribe())

    async def test_a_slow_reader_holds_up_no_call(self, root: Root, environ: dict[str, str], world: World) -> None:
        def handle(connection: Connection, request: dict[str, Any]) -> None:
            if request["method"] == "ping":
                connection.answer(request, {})
                return
            connection.answer(request, {"subscription": "s", "cursor": "e:0", "snapshot": None})
            for seq in range(1, 2000):
                connection.send(event(seq, padding="x" * 1000))

        with serving(root, environ, handle):
            async with connect(root, world=world) as client, client.subscribe() as subscription:
                for seq in range(1, 20):
                    assert await client.call("ping", timeout=5) == {}
                    assert (await anext(subscription)).cursor == f"e:{seq}"

    async def test_a_daemon_that_was_killed_is_started_again_and_one_that_was_stopped_is_waited_for(
        self, root: Root, environ: dict[str, str], world: World, starts: Any
    ) -> None:
        starts.plan(mode="die")
        log = Log(9, 1, closing("stopped"))
        daemon = FakeDaemon(root, environ, log)
        daemon.serve()
        try:
            async with connect(root, world=world) as client, client.subscribe() as subscription:
                await anext(subscription)
                await anyio.to_thread.run_sync(log.has_ended.wait, 10)
                await anyio.to_thread.run_sync(daemon.close)
                with anyio.move_on_after(0.5):
                    await anext(subscription)
                assert starts.pids == []
                with serving(root, environ, Log(9, 1, Connection.close)) as successor:
                    assert (await anext(subscription)).cursor == "e:2"
                    await anyio.to_thread.run_sync(successor.close)
                    with pytest.raises(StartFailed):
                        await anext(subscription)
                assert len(starts.pids) == 1
        finally:
            daemon.close()
