"""Handlers against a real workspace, a real hub and a real store: a call is a function, its effects are performed by the test."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import anyio
import pytest
from pydantic import BaseModel

from cueloop_daemon.core.model import ActiveRun
from cueloop_daemon.events import Hub, Journal
from cueloop_daemon.runs.engine import Engine
from cueloop_daemon.server.handlers import TABLE
from cueloop_daemon.server.requests import Call, Peer, When
from cueloop_daemon.services import Identity, Services, WatcherHealth
from cueloop_daemon.store.atomic import Author
from cueloop_daemon.store.git import Git
from cueloop_daemon.store.history import History
from cueloop_daemon.store.session_store import SessionStore
from cueloop_daemon.store.system import System
from cueloop_daemon.takeover.succession import Wanted
from cueloop_daemon.workspace import Workspace
from cueloop_protocol.base import to_json_bytes
from cueloop_protocol.codes import CONFLICT, DOCUMENT_UNUSABLE, RUN_ACTIVE, VERSION_MISMATCH, RpcError
from cueloop_protocol.examples import CALLS, ERRORS
from cueloop_protocol.methods import METHODS
from cueloop_protocol.roots import Caller, Root
from events.hubs import FakeSink, running
from events.hubs import World as LogWorld
from fake_clock import FakeClock
from support.repository import Repository, session


class FakeLife:
    """Remembers why the daemon was to leave."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.heir: int | None = None
        self.wanted: list[Wanted] = []

    @property
    def draining(self) -> bool:
        return bool(self.reasons)

    def hand_over(self, wanted: Wanted) -> None:
        self.wanted.append(wanted)

    def leave(self, reason: str) -> None:
        self.reasons.append(reason)


class FakeEngine:
    """No run is active, and none was."""

    questions = ()
    active_id: str | None = None
    outcomes: Mapping[str, int] = MappingProxyType({"ran": 2})
    adopted = 1

    async def look(self, query: object) -> list[object]:
        """No run was ever recorded."""
        return []


class Desk:
    """Calls methods as the server does: params, prepare, handler, effects in their order."""

    def __init__(self, services: Services, clock: FakeClock, sink: FakeSink) -> None:
        self.services = services
        self.peer = Peer(1, None, sink)
        self._clock = clock

    async def ask(self, method: str, **params: object) -> Any:
        """The result as plain values. Raises RpcError."""
        entry = TABLE[method]
        asked = entry.params.model_validate(params)
        call = Call(self.services, self.peer, self._clock.now(), self._clock.monotonic())
        if entry.prepare is not None and not (entry.is_fresh is not None and entry.is_fresh(call, asked)):
            await entry.prepare(call, asked)
        reply = entry.handler(call, asked)
        result = reply.result
        for when in When:
            for effect in reply.effects:
                if effect.when == when:
                    result = await effect.perform(call) or result
        body = (
            result
            if isinstance(result, bytes)
            else to_json_bytes(result)
            if isinstance(result, BaseModel)
            else json.dumps(result)
        )
        return json.loads(body)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path.resolve() / "repo").lay()


@pytest.fixture
async def desk(repository: Repository, tmp_path: Path) -> AsyncIterator[Desk]:
    clock, root = FakeClock(), Root(str(repository.path), str(repository.path))
    (tmp_path / "home").mkdir()
    author, system = Author(os.getpid(), "1"), System()
    ticks = count()
    error = {"version": 1, "code": "unknown", "message": "There is no document in this test.", "retryable": False}
    beside = {"revision": 1, "observed_at": "2026-02-07T10:00:00Z", "settling": False, "questions": []}
    snapshot = json.dumps({**beside, "error": error}).encode()
    async with running(Hub(Journal(LogWorld(tmp_path / "log").place, clock.monotonic), lambda audience: snapshot)) as hub:
        workspace = Workspace(
            root,
            Caller(str(tmp_path / "home"), None),
            clock=clock,
            next_revision=hub.next_revision,
            git=Git({"PATH": os.environ["PATH"]}),
        )
        sessions = SessionStore(
            root,
            system=system,
            clock=lambda: datetime(2026, 2, 7, microsecond=next(ticks), tzinfo=UTC),
            history=History(root, system, author, os.getuid()),
            author=author,
            uid=os.getuid(),
            still_ours=lambda: True,
        )

        async def attend(caller: Caller) -> object:
            view = workspace.view(caller)
            await workspace.refresh(view)
            return view

        told: list[str] = []
        yield Desk(
            Services(
                root=root,
                identity=Identity(os.getpid(), "1.2.3", "instance", clock.now(), clock.monotonic()),
                workspace=workspace,
                hub=hub,
                sessions=sessions,
                engine=cast(Engine, FakeEngine()),
                life=FakeLife(),
                watcher=lambda: WatcherHealth("polling", "why"),
                connections=lambda: 3,
                counters=lambda: {"requests": 7},
                look_again=lambda: told.append("look"),
                attend=attend,
                warn=told.append,
                socket="/run/d.sock",
                folder="/folder",
                log="/folder/daemon.log",
            ),
            clock,
            FakeSink(),
        )
        assert set(told) <= {"look"}


PARAMS: dict[str, dict[str, object]] = {
    "hello": {"client": {"name": "test"}, "protocol": {"min": 1, "max": 9}},
    "resume.preview": {"request": {"mode": "one", "resume": True}},
    "client.state": {"active_window": True},
    "events.unsubscribe": {"subscription": "nothing"},
}
GIVEN = [name for name in METHODS if name not in ("session.clear", "daemon.handover") and not name.startswith("run.")]
"""Runs have tests of their own, with an engine."""


def test_every_method_has_its_handler_and_takes_its_params() -> None:
    assert {name: entry.params for name, entry in TABLE.items()} == {name: spec.params for name, spec in METHODS.items()}


def test_what_writes_starts_or_stops_outlives_its_connection() -> None:
    acting = {"session.clear", "daemon.shutdown", "daemon.handover", "run.start", "run.answer", "run.stop", "run.cancel"}
    assert {name for name, entry in TABLE.items() if entry.durable} == acting


@pytest.mark.parametrize("method", GIVEN)
async def test_every_result_is_what_the_reference_says(desk: Desk, repository: Repository, method: str) -> None:
    repository.put(repository.session, session())
    result = await desk.ask(method, **PARAMS.get(method, {}))
    METHODS[method].result.model_validate_json(json.dumps(result))


async def test_hello_agrees_on_the_highest_common_version(desk: Desk) -> None:
    assert (await desk.ask("hello", **PARAMS["hello"]))["protocol"] == 1
    assert desk.peer.client is not None
    assert desk.peer.client.name == "test"


@pytest.mark.parametrize(("low", "remedy"), [(2, "daemon restart"), (9, "daemon restart")])
async def test_hello_names_both_versions_and_one_remedy_d12(desk: Desk, low: int, remedy: str) -> None:
    with pytest.raises(RpcError) as refused:
        await desk.ask("hello", client={"name": "test"}, protocol={"min": low, "max": low})
    assert refused.value.code == -32006
    assert remedy in json.dumps(refused.value.document)


async def test_status_tells_what_the_parts_tell(desk: Desk) -> None:
    status = await desk.ask("daemon.status")
    assert status["watcher"] == {"backend": "polling", "degraded": True, "reason": "why"}
    assert (status["connections"], status["counters"]["requests"], status["state"]) == (3, 7, "serving")
    assert status["memory_bytes"] > 1_000_000
    metrics = status["metrics"]
    assert (metrics["runs"], metrics["runs_adopted"], metrics["snapshot_refreshes"]) == ({"ran": 2}, 1, 1)
    assert metrics["open_descriptors"] > 3


async def test_shutdown_leaves_after_the_reply_and_not_under_a_run(desk: Desk) -> None:
    engine = cast(FakeEngine, desk.services.engine)
    engine.active_id = "r1"
    with pytest.raises(RpcError, match="r1"):
        await desk.ask("daemon.shutdown")
    engine.active_id = None
    entry = TABLE["daemon.shutdown"]
    call = Call(desk.services, desk.peer, datetime.now(UTC), 0.0)
    (effect,) = entry.handler(call, entry.params.model_validate({})).effects
    assert effect.when == When.AFTER_REPLY
    assert not desk.services.life.draining
    await effect.perform(call)
    assert desk.services.life.draining


HEIR = {"pid": 4711, "socket": "/tmp/cueloopd-1/h.heir-4711", "token": "0" * 32}
SUCCESSOR: dict[str, Any] = {"version": "9", "protocol": {"min": 1, "max": 9}, "events_schema": 9, "runs_schema": 9, "record": 1}


async def test_a_handover_is_granted_and_begins_after_the_reply(desk: Desk) -> None:
    said = await desk.ask("daemon.handover", **SUCCESSOR, heir=HEIR, later="ignored")
    assert said["leaves_within"] > 0
    entry = TABLE["daemon.handover"]
    call = Call(desk.services, desk.peer, datetime.now(UTC), 0.0)
    (effect,) = entry.handler(call, entry.params.model_validate({**SUCCESSOR, "heir": HEIR})).effects
    await effect.perform(call)
    life = desk.services.life
    assert isinstance(life, FakeLife)
    assert life.wanted[-1].heir.pid == 4711


@pytest.mark.parametrize(
    ("changes", "code", "word"),
    [
        ({"events_schema": 0}, VERSION_MISMATCH, "cannot read"),
        ({"runs_schema": 0}, VERSION_MISMATCH, "cannot read"),
        ({"run": "r1"}, RUN_ACTIVE, "r1"),
        ({"run": "r1", "runs": "leave", "record": 2}, VERSION_MISMATCH, "cannot go on with run r1"),
        ({"heir": 77}, CONFLICT, "77"),
        ({"managed": True}, CONFLICT, "service manager"),
    ],
)
async def test_what_a_successor_could_not_go_on_with_is_not_handed_over(
    desk: Desk, changes: dict[str, Any], code: int, word: str
) -> None:
    changes = dict(changes)
    cast(FakeEngine, desk.services.engine).active_id = changes.pop("run", None)
    life = desk.services.life
    assert isinstance(life, FakeLife)
    life.heir = changes.pop("heir", None)
    desk.services.is_managed = changes.pop("managed", False)
    with pytest.raises(RpcError) as refused:
        await desk.ask("daemon.handover", **{**SUCCESSOR, **changes}, heir=HEIR)
    assert (refused.value.code, word in refused.value.message) == (code, True)


async def test_the_reference_shows_what_this_daemon_says_of_itself(desk: Desk) -> None:
    said = await desk.ask("hello", client={"name": "test"}, protocol={"min": 1, "max": 1})
    shown = CALLS["hello"].result
    assert {name: said[name] for name in ("capabilities", "documents")} == {
        name: shown[name] for name in ("capabilities", "documents")
    }
    with pytest.raises(RpcError) as refused:
        await desk.ask("hello", client={"name": "test"}, protocol={"min": 2, "max": 2})
    assert refused.value.to_wire() in [error.to_wire() for error in ERRORS]


async def test_a_session_is_refused_in_the_words_of_the_reference(desk: Desk, repository: Repository) -> None:
    repository.configure(phases=7)
    found = (await desk.ask("session.get"))["error"]
    shown = next(error.document for error in ERRORS if error.code == DOCUMENT_UNUSABLE)
    assert found == {**shown, "message": shown["message"].replace("/home/ann/shop", str(repository.path))}


async def test_a_window_in_front_is_forgotten_with_its_connection(desk: Desk) -> None:
    for _ in range(2):
        await desk.ask("client.state", active_window=True)
    assert desk.services.active_windows == {1}
    assert len(desk.peer.farewells) == 1
    for farewell in desk.peer.farewells:
        farewell()
    assert desk.services.active_windows == set()
    await desk.ask("client.state", active_window=False)


async def test_clear_moves_what_was_seen_and_nothing_else(desk: Desk, repository: Repository) -> None:
    data = session()
    repository.put(repository.session, data)
    etag = (await desk.ask("session.get"))["etag"]
    with pytest.raises(RpcError) as refused:
        await desk.ask("session.clear", etag="another")
    assert refused.value.code == -32008
    assert repository.session.read_bytes() == data
    found = await desk.ask("session.clear", etag=etag)
    assert Path(found["history"]).read_bytes() == data
    assert found["task_id"] == "RQ-0001"
    with pytest.raises(RpcError, match="no session"):
        await desk.ask("session.clear", etag=etag)


async def test_clear_is_refused_under_our_own_run(desk: Desk, repository: Repository) -> None:
    repository.put(repository.session, session())
    etag = (await desk.ask("session.get"))["etag"]
    desk.services.workspace.active_run = ActiveRun("r1", "one", "RQ-0001", "plan", "running", "2026-02-07T10:00:00Z", None)
    with pytest.raises(RpcError) as refused:
        await desk.ask("session.clear", etag=etag)
    assert refused.value.code == -32004
    assert repository.session.exists()


async def test_a_preview_is_what_a_run_with_the_same_request_would_decide(desk: Desk, repository: Repository) -> None:
    repository.put(repository.session, session(last_updated_at="2026-02-07T09:59:00Z"))
    cases = {
        "session_valid": {"mode": "one", "resume": True},
        "resume_confirmation_required": {"mode": "loop"},
        "explicit_task_selection_overrides_session": {"mode": "one", "task_id": "RQ-0002"},
        "session_declined": {"mode": "one", "fresh": True},
    }
    for reason, request in cases.items():
        assert (await desk.ask("resume.preview", request=request))["decision"]["reason"] == reason


async def test_an_answer_for_another_file_is_void(desk: Desk, repository: Repository) -> None:
    repository.put(repository.session, session(last_updated_at="2026-02-07T09:59:00Z"))
    asked = {"mode": "one", "interactive": True}
    offered = await desk.ask("resume.preview", request=asked)
    assert offered["choices"]
    answer = {"choice": "resume", "session_etag": offered["session_etag"]}
    assert (await desk.ask("resume.preview", request={**asked, "answer": answer}))["decision"]["reason"] == "session_valid"
    repository.put(repository.session, session(last_updated_at="2026-02-07T09:58:00Z"))
    with pytest.raises(RpcError) as stale:
        await desk.ask("resume.preview", request={**asked, "answer": answer})
    assert stale.value.code == -32003


async def test_a_subscription_is_silent_until_its_reply_is_out(desk: Desk) -> None:
    entry = TABLE["events.subscribe"]
    call = Call(desk.services, desk.peer, datetime.now(UTC), 0.0)
    asked = entry.params.model_validate({})
    await desk.services.workspace.refresh(desk.services.view(None))
    register, start = entry.handler(call, asked).effects
    assert (register.when, start.when) == (When.SUBSCRIBE, When.AFTER_REPLY)
    result = await register.perform(call)
    assert isinstance(result, bytes)
    name = json.loads(result)["subscription"]
    assert await desk.ask("events.unsubscribe", subscription=name) == {"removed": True}
    assert await desk.ask("events.unsubscribe", subscription=name) == {"removed": False}
    await start.perform(call)


async def test_a_document_that_cannot_be_used_is_minus_32001_with_its_error(desk: Desk, repository: Repository) -> None:
    repository.put(repository.queue, b"[]")
    for method in ("config.resolve", "workspace.overview"):
        with pytest.raises(RpcError) as refused:
            await desk.ask(method)
        assert refused.value.code == -32001
        assert refused.value.document["code"] == "queue_corrupted"
        assert str(repository.queue) in refused.value.document["message"]
    found = await desk.ask("session.get")
    assert (found["state"], found["error"]["code"]) == ("missing", "queue_corrupted")


async def test_a_session_is_shown_with_what_keeps_the_next_run_from_starting(desk: Desk, repository: Repository) -> None:
    repository.put(repository.session, session())
    assert "decision" in await desk.ask("session.get")
    repository.put(repository.config, b'{"agent": {"phases": 7}}')
    found = await desk.ask("session.get")
    assert (found["state"], found["error"]["code"]) == ("loaded", "config_incompatible")
    assert "decision" not in found
    repository.config.unlink()
    repository.queue.unlink()
    found = await desk.ask("session.get")
    assert found["error"]["message"] == f"There is no queue file at {repository.queue}."
    assert "decision" not in found


async def test_a_session_of_a_run_is_shown_with_that_run(desk: Desk, repository: Repository) -> None:
    repository.put(repository.session, session())
    repository.take_lock("run loop", os.getppid())
    found = await desk.ask("session.get")
    lock = found["queue_lock"]
    assert (lock["label"], lock["pid"], lock["live"]) == ("run loop", os.getppid(), True)
    assert not {"decision", "error"} & set(found)
    with pytest.raises(RpcError, match="queue lock") as refused:
        await desk.ask("session.clear", etag=found["etag"])
    assert "detail" in refused.value.document
    desk.services.workspace.active_run = ActiveRun("r1", "one", "RQ-0001", "plan", "running", "2026-02-07T10:00:00Z", None)
    assert (await desk.ask("session.get"))["active_run"]["run_id"] == "r1"


@pytest.mark.parametrize("stamp", ["2099-01-01T00:00:00Z", "yesterday"])
async def test_an_age_that_cannot_be_known_is_left_out(desk: Desk, repository: Repository, stamp: str) -> None:
    repository.put(repository.session, session(last_updated_at=stamp))
    found = await desk.ask("session.get")
    assert found["decision"]["reason"] == "session_timed_out_requires_confirmation"
    assert "age_seconds" not in found


async def test_many_answers_at_once_are_all_of_one_revision(desk: Desk) -> None:
    found: list[int] = []

    async def ask() -> None:
        found.append((await desk.ask("config.resolve"))["revision"])

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ask)
    assert len(set(found[5:])) == 1
