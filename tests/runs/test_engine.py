"""The engine: one run at a time, answered from its record, cancelled at each step, gone on with by the next daemon."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import TypeAdapter

from cueloop_daemon.core.model import Unusable
from cueloop_daemon.events import Filter
from cueloop_daemon.runs.batches import keep_conversation
from cueloop_daemon.runs.journal import RunJournal
from cueloop_daemon.runs.records import Conversation
from cueloop_daemon.runs.state import Ending, State
from cueloop_daemon.runs.types import Diverged, NotStarted, Order
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_protocol import codes
from cueloop_protocol.codes import RpcError
from cueloop_protocol.cursor import Cursor
from cueloop_protocol.shapes import Question, QuestionChoice
from decision_world import ETAG, loaded, snapshot
from events.hubs import FakeSink
from runs.engines import FakeWorld, Life, Office, Program
from runs.fakes import NOW, FakeShim, Script, ending
from runs.records import warned

NUMBER: TypeAdapter[int] = TypeAdapter(int)
NOTHING: TypeAdapter[None] = TypeAdapter(None)


def order(number: int) -> Order:
    return Order(number, "token", "agent", ("/bin/agent",), {}, None, None, None, 5)


async def quick(state: State, journal: RunJournal, world: FakeWorld) -> State:
    """A run that says two things and is over."""
    await journal.emit("begun", warned("begun"))
    await journal.emit("done", warned("done"))
    return ending({})


async def agent(state: State, journal: RunJournal, world: FakeWorld) -> State:
    """A run of three scopes with the steps of a task: lock, an agent that runs until it is ended, what follows, close."""
    link = world.living.carrier.link
    if state.next == "open":
        await journal.emit("begun", warned("begun"))
        return state.model_copy(update={"next": "phase"})
    if state.next == "phase":
        await journal.converge("lock", lambda again: link.lock(journal.order_number(), "run one", "c", NOW), TypeAdapter(object))

        async def act(number: int, again: bool) -> int:
            started = await link.start(order(number))
            assert not isinstance(started, NotStarted)
            news = link.follow(number)
            while True:
                found = await journal.wait(anext(news))
                if hasattr(found, "cause"):
                    return number

        await journal.step("agent", journal.order_number(), act, NUMBER, NUMBER)
        await journal.emit("done", warned("agent is done"))
        done = Ending(outcome="completed", exit_code=0)
        return state.model_copy(update={"next": "close", "ending": done})
    await journal.converge("child", lambda again: link.end_child(5), NOTHING)
    await journal.converge("unlock", lambda again: link.unlock(journal.order_number()), NOTHING)
    return state.model_copy(update={"next": "over"})


async def hangs(state: State, journal: RunJournal, world: FakeWorld) -> State:
    """Nothing new is ever written."""
    await anyio.sleep_forever()
    raise AssertionError


def runs_until_signalled(order: Order) -> Script:
    return Script(end=None)


async def refused(wanted: Any, code: int) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await wanted
    assert caught.value.code == code
    return caught.value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "cueloopd"
    folder.mkdir()
    return folder


async def test_a_run_is_told_from_its_beginning_to_its_end_and_can_be_asked_for(folder: Path) -> None:
    office = Office(folder, quick)
    async with office.life() as life:
        began = await life.start(env={"TOKEN": "hush-hush"})
        assert (began.run_id, began.repeated, began.cursor) == ("run-1", False, "e1:0")
        await life.finished()
        assert life.told == ["begun", "done", "run.finished"]
        record = await life.engine.record(await life.engine.find("run-1"))
        assert (record.state, record.mode, record.output_bytes) == ("finished", "loop", 0)
        assert record.summary is not None
        assert record.summary.outcome == "completed"
    assert office.shown[-1] is None
    assert office.written[-1] is None
    assert office.carriers.calls[-1] == "end run-1"
    assert b"hush-hush" not in (folder / "runs.db").read_bytes() + (folder / "events.db").read_bytes()


async def test_active_json_says_which_run_and_shim_before_the_program_does_anything(folder: Path) -> None:
    seen: list[object] = []

    async def looks(state: State, journal: RunJournal, world: FakeWorld) -> State:
        seen.append(office.written[-1])
        return ending({})

    office = Office(folder, looks)
    async with office.life() as life:
        await life.start()
        await life.finished()
    (run,) = seen
    assert run is not None
    assert (run.run_id, run.shim.pid, run.mode) == ("run-1", 4242, "loop")  # type: ignore[attr-defined]


# --- starting ------------------------------------------------------------------------------------------------------------------------


async def test_a08_of_two_starts_in_one_moment_one_is_the_run_200_rounds(folder: Path) -> None:
    office = Office(folder, quick)
    async with office.life() as life:
        for number in range(1, 201):
            results: list[object] = []

            async def start(results: list[object] = results) -> None:
                try:
                    results.append((await life.start()).run_id)
                except RpcError as exc:
                    results.append((exc.code, exc.data["run_id"]))

            async with anyio.create_task_group() as both:
                both.start_soon(start)
                both.start_soon(start)
            winners = [one for one in results if isinstance(one, str)]
            losers = [one for one in results if isinstance(one, tuple)]
            if len(winners) == 1:
                assert losers == [(codes.RUN_ACTIVE, winners[0])]
            else:  # the first was over before the second began
                assert len(set(winners)) == 2
            await life.finished(life.office.carriers.calls.count(f"carry {winners[0]}") + number - 1)
            with anyio.fail_after(10):
                while life.engine.active_id is not None:
                    await anyio.sleep(0)
        assert life.told.count("run.finished") >= 200


async def test_two_starts_of_an_endless_run_are_one_run(folder: Path) -> None:
    office = Office(folder, agent)
    office.carriers.shims["run-1"] = FakeShim(play=runs_until_signalled)
    async with office.life() as life:
        results: list[object] = []

        async def start() -> None:
            try:
                results.append((await life.start()).run_id)
            except RpcError as exc:
                results.append(exc.data["run_id"] if exc.code == codes.RUN_ACTIVE else exc)

        async with anyio.create_task_group() as both:
            for _ in range(10):
                both.start_soon(start)
        assert results == ["run-1"] * 10
        assert list(office.carriers.envs) == ["run-1"]
        await life.engine.cancel(None)


async def test_a_key_that_was_used_is_the_same_run_also_in_the_next_life(folder: Path) -> None:
    office = Office(folder, quick)
    async with office.life() as life:
        first = await life.start(idempotency_key="k")
        await life.finished()
        assert (await life.start(idempotency_key="k")).repeated
    async with office.life() as life:
        again = await life.start(idempotency_key="k", env={"OTHER": "environment"})
        assert (again.run_id, again.cursor, again.repeated) == (first.run_id, first.cursor, True)
        await refused(life.start(idempotency_key="k", force=True), codes.CONFLICT)


async def test_errors_before_the_run_leave_nothing(folder: Path) -> None:
    office = Office(folder, quick)
    bad = Unusable("config_incompatible", "Bad config.", None, "/repo/.cueloop/config.jsonc")
    async with office.life() as life:
        office.facts = snapshot(settings=bad)
        error = await refused(life.start(), codes.DOCUMENT_UNUSABLE)
        assert error.document["code"] == "config_incompatible"
        office.facts = snapshot(tasks=Unusable("queue_corrupted", "Bad queue.", None, "/repo/queue"))
        assert (await refused(life.start(), codes.DOCUMENT_UNUSABLE)).document["code"] == "queue_corrupted"
        office.facts = snapshot()
        office.carriers.full = True
        await refused(life.start(), codes.NOT_WRITABLE)
        assert life.engine.active_id is None
        assert life.told == []
    assert office.carriers.envs == {}
    assert office.shown == []


async def test_a_person_who_must_decide_is_asked_and_an_old_answer_is_stale(folder: Path) -> None:
    office = Office(folder, quick)
    office.facts = snapshot(loaded())
    async with office.life() as life:
        error = await refused(life.start(interactive=True), codes.CONFIRMATION_REQUIRED)
        assert error.data["session_etag"] == ETAG
        assert error.data["choices"] == ["resume", "fresh"]
        assert error.data["session"]["task_id"] == "RQ-0001"
        assert error.data["session"]["age_seconds"] == 3600
        stale = {"choice": "resume", "session_etag": "another"}
        assert (await refused(life.start(interactive=True, answer=stale), codes.CONFIRMATION_STALE)).data["session_etag"] == ETAG
        assert life.engine.active_id is None
        await life.start(interactive=True, answer={"choice": "resume", "session_etag": ETAG})
        await life.finished()
        decision = (await life.engine.record(await life.engine.find("run-1"))).decision
        assert decision is not None
        assert decision.reason == "session_valid"


# --- stopping and cancelling ---------------------------------------------------------------------------------------------------------


async def test_a_stop_reaches_the_program_and_is_shown(folder: Path) -> None:
    async def loop(state: State, journal: RunJournal, world: FakeWorld) -> State:
        await journal.emit("begun", warned("begun"))
        await journal.flush()
        while not journal.stop_wanted:
            await journal.wait(anyio.sleep(0))
        return ending({})

    office = Office(folder, loop)
    async with office.life() as life:
        await life.start()
        await life.until_told("begun")
        assert await life.engine.stop(None) == "run-1"
        await life.finished()
        await refused(life.engine.stop(None), codes.NO_SUCH_RUN)
        await refused(life.engine.stop("run-1"), codes.NO_SUCH_RUN)


async def test_cancel_is_answered_after_the_end_is_told_and_nothing_is_left(folder: Path) -> None:
    office = Office(folder, cancellable(agent))
    shim = office.carriers.shims["run-1"] = FakeShim(play=runs_until_signalled)
    async with office.life() as life:
        await life.at_work(shim)
        run_id, summary = await life.engine.cancel("run-1")
        assert (run_id, summary.outcome, summary.exit_code) == ("run-1", "stopped", 0)
        assert life.told[-1] == "run.finished"
        assert set(shim.ended) == set(shim.orders)
        assert shim.lock is None
        assert office.carriers.calls[-1] == "end run-1"
        assert (await life.engine.cancel("run-1"))[1] == summary  # once more: it is as it was
        await refused(life.engine.cancel("run-9"), codes.NO_SUCH_RUN)
        await refused(life.engine.cancel(None), codes.NO_SUCH_RUN)


def cancellable(program: Program) -> Program:
    """As the real program does: a cancelled scope goes on in the closing one."""
    from cueloop_daemon.runs.types import RunCancelled

    async def run(state: State, journal: RunJournal, world: FakeWorld) -> State:
        try:
            return await program(state, journal, world)
        except RunCancelled:
            return state.model_copy(update={"next": "close", "ending": Ending(outcome="stopped", exit_code=0)})

    return run


async def test_cancel_at_each_place_of_the_run(folder: Path, tmp_path: Path) -> None:
    """The cancel comes when the program is at its n-th place; for each there is one end, and no child or lock is left."""
    places = 0
    while True:
        home = tmp_path / f"at{places}"
        home.mkdir()
        passed = await cancelled_at(home, places)
        if passed <= places:
            break
        places += 1
    assert places >= 12


async def cancelled_at(folder: Path, place: int) -> int:
    passed = 0
    arrived, go_on = anyio.Event(), anyio.Event()

    async def watched(state: State, journal: RunJournal, world: FakeWorld) -> State:
        def probe(key: str, point: str) -> None:
            nonlocal passed
            if passed == place:
                arrived.set()
                journal.cancel()
            passed += 1

        journal._probe = probe
        return await cancellable(agent)(state, journal, world)

    office = Office(folder, watched)
    shim = office.carriers.shims["run-1"] = FakeShim(play=lambda order: Script())
    del go_on
    async with office.life() as life:
        await life.start()
        await life.finished()
        assert life.told.count("run.finished") == 1
        assert shim.lock is None
        assert set(shim.ended) == set(shim.orders)
    return passed


async def test_a_cancel_that_nobody_can_write_down_is_one_all_the_same(folder: Path) -> None:
    from events.test_degraded import Faulty

    faulty = Faulty()
    office = Office(folder, cancellable(agent), connect=faulty.connect)
    shim = office.carriers.shims["run-1"] = FakeShim(play=runs_until_signalled)
    async with office.life() as life:
        await life.at_work(shim)
        faulty.failures = float("inf")
        _, summary = await life.engine.cancel(None)
        assert summary.outcome == "stopped"
        assert life.told[-1] == "run.finished"
        assert life.engine.active_id is None
        assert "abort run-1" in office.carriers.calls
        faulty.failures = 0
    async with office.life() as life:  # if the end could not be written even later, the next life tells nothing again
        if life.engine.active_id is not None:
            await life.engine.cancel(None)
        assert "run.finished" not in life.told


# --- the next daemon -----------------------------------------------------------------------------------------------------------------


async def test_e03_a_new_daemon_goes_on_with_the_run_and_starts_nothing_twice(folder: Path) -> None:
    office = Office(folder, agent)
    shim = office.carriers.shims["run-1"] = FakeShim(play=runs_until_signalled)
    async with office.life() as life:
        await life.at_work(shim)
    async with office.life(serve=False) as life:
        assert life.engine.active_id == "run-1"
        shown = office.shown[-1]
        assert shown is not None
        assert shown.state == "adopting"
        await refused(life.start(), codes.RUN_ACTIVE)
        life.engine.serve()
        while shim.calls[-1] != "follow 3" or shim.calls.count("start 3") < 2:
            await anyio.sleep(0)
        shim.ended[next(iter(shim.orders))] = Script().end  # type: ignore[assignment]
        shim.tell()
        await life.finished()
        assert life.told == ["agent is done", "run.finished"]
        assert len(shim.orders) == 1


async def test_a_run_whose_shim_is_gone_is_over_once_and_says_so(folder: Path) -> None:
    office = Office(folder, agent)
    office.carriers.left = ("What run run-1 had left running was ended: 77 sleep.",)
    shim = office.carriers.shims["run-1"] = FakeShim(play=runs_until_signalled)
    async with office.life() as life:
        await life.at_work(shim)
        killed = office.as_after_a_kill("killed")
    shim.is_gone = True
    async with killed.life() as life:
        await life.finished()
        assert [word for word in life.told if word != "begun"] == [
            "What run run-1 had left running was ended: 77 sleep.",
            "The run was interrupted: the process that carried it is gone.",
            "run.finished",
        ]
        record = await life.engine.record(await life.engine.find("run-1"))
        assert record.summary is not None
        assert (record.summary.outcome, record.summary.exit_code) == ("failed", 1)
        assert record.error is not None
    async with killed.life() as life:
        assert life.engine.active_id is None
        assert life.told == []


async def test_a_shim_that_dies_while_the_program_waits_ends_the_run(folder: Path) -> None:
    async def waits(state: State, journal: RunJournal, world: FakeWorld) -> State:
        await journal.emit("begun", warned("begun"))
        await journal.wait(anyio.sleep_forever())
        raise AssertionError

    office = Office(folder, waits)
    async with office.life() as life:
        await life.start()
        await life.until_told("begun")
        office.carriers.carried["run-1"].lose()
        await life.finished()
        assert life.told[-2:] == ["The run was interrupted: the process that carried it is gone.", "run.finished"]
        assert life.engine.active_id is None


async def test_a_term_to_the_shim_is_a_cancel(folder: Path) -> None:
    office = Office(folder, cancellable(agent))
    shim = office.carriers.shims["run-1"] = FakeShim(play=runs_until_signalled)
    async with office.life() as life:
        await life.at_work(shim)
        office.carriers.carried["run-1"].told.set()
        await life.finished()
        assert (await life.engine.cancel("run-1"))[1].outcome == "stopped"


async def test_a_cancelled_run_whose_daemon_is_killed_goes_on_being_cancelled(folder: Path) -> None:
    office = Office(folder, cancellable(agent))
    shim = office.carriers.shims["run-1"] = FakeShim(play=runs_until_signalled)
    async with office.life() as life:
        await life.at_work(shim)
        async with anyio.create_task_group() as tasks:
            killed: list[Office] = []

            async def cancel() -> None:
                await life.engine.cancel(None)

            before = office.as_after_a_kill("before")
            del before
            tasks.start_soon(cancel)
            while not any(run is not None and run.state == "cancelling" for run in office.shown):
                await anyio.sleep(0)
            killed.append(office)
    assert (await ended_summary(office)) == "stopped"


async def ended_summary(office: Office) -> str:
    async with office.life() as life:
        row = await life.engine.find("run-1")
        if row.is_open:
            await life.finished()
        record = await life.engine.record(await life.engine.find("run-1"))
        assert record.summary is not None
        return record.summary.outcome


async def test_a_shim_that_does_not_answer_is_ended_with_the_run_that_is_cancelled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cueloop_daemon.runs.life.PATIENCE", 0.0)
    office = Office(folder, agent)
    office.carriers.answers = False
    async with office.life() as life:
        await life.start()
        _, summary = await life.engine.cancel(None)
        assert summary.outcome == "stopped"
        assert "bury run-1" in office.carriers.calls


async def test_a_run_that_ends_every_daemon_is_given_up(folder: Path) -> None:
    office = Office(folder, hangs)
    async with office.life() as life:
        await life.start()
        await carried(office, 1)
    for lives in range(2, 6):
        async with office.life() as life:
            await carried(office, lives)
            assert life.engine.active_id == "run-1"
    async with office.life() as life:
        await life.finished()
        assert "without getting any further" in life.told[0]
        assert office.carriers.calls.count("carry run-1") == 5


async def test_daemons_that_leave_as_they_should_do_not_count(folder: Path) -> None:
    office = Office(folder, hangs)
    async with office.life() as life:
        await life.start()
        await carried(office, 1)
        life.engine.leave()
    for lives in range(2, 9):
        async with office.life() as life:
            await carried(office, lives)
            assert life.engine.active_id == "run-1"
            life.engine.leave()


async def carried(office: Office, times: int) -> None:
    with anyio.fail_after(20):
        while office.carriers.calls.count("carry run-1") < times:
            await anyio.sleep(0)


async def test_shims_that_nobody_knows_are_ended_and_told_of(folder: Path) -> None:
    office = Office(folder, quick)
    office.carriers.strangers = ("A process of run x, of which nothing is on record, was ended.",)
    async with office.life():
        while not office.warnings:
            await anyio.sleep(0)
    assert office.warnings == ["A process of run x, of which nothing is on record, was ended."]


# --- what goes wrong -------------------------------------------------------------------------------------------------------------------


async def test_an_exception_closes_the_run_and_the_log_has_it(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(state: State, journal: RunJournal, world: FakeWorld) -> State:
        if state.next == "close":
            return state.model_copy(update={"next": "over"})
        raise RuntimeError("a mistake")

    office = Office(folder, broken)
    async with office.life() as life:
        await life.start()
        await life.finished()
        assert (await life.engine.cancel("run-1"))[1].outcome == "failed"
        assert "a mistake" not in str(life.sink.messages)
        assert office.carriers.calls[-1] == "end run-1"
    assert "a mistake" in caplog.text


async def test_what_cannot_be_written_is_said_in_its_own_words(folder: Path) -> None:
    async def full(state: State, journal: RunJournal, world: FakeWorld) -> State:
        if state.next == "close":
            return state.model_copy(update={"next": "over"})
        raise NotWritable("The queue cannot be written.", "Make room.", path="/repo/queue", code="unknown")

    office = Office(folder, full)
    async with office.life() as life:
        await life.start()
        await life.finished()
        assert life.told == ["The queue cannot be written.", "run.finished"]


async def test_a_run_that_cannot_even_be_closed_is_over_all_the_same(folder: Path) -> None:
    async def broken(state: State, journal: RunJournal, world: FakeWorld) -> State:
        raise RuntimeError("in every scope")

    office = Office(folder, broken)
    async with office.life() as life:
        await life.start()
        await life.finished()
        assert "abort run-1" in office.carriers.calls
        assert life.engine.active_id is None


async def test_another_version_reads_a_converging_scope_anew_and_settles_a_phase(folder: Path) -> None:
    readings: list[str] = []

    async def other(state: State, journal: RunJournal, world: FakeWorld) -> State:
        readings.append(state.next)
        if state.next == "open":
            await journal.emit("said", warned("said once"))
            if len(readings) == 1:
                await journal.flush()
                raise Diverged("another key")
            return state.model_copy(update={"next": "phase"})
        if state.next == "phase":
            raise Diverged("another key")
        return state.model_copy(update={"next": "over"})

    office = Office(folder, other)
    async with office.life() as life:
        await life.start()
        await life.finished()
        assert readings == ["open", "open", "phase", "close"]
        assert life.told == ["said once", "run.finished"]
        record = await life.engine.record(await life.engine.find("run-1"))
        assert record.error is not None
        assert "another version" in record.error.message.lower()


async def test_a_state_of_another_version_is_closed(folder: Path) -> None:
    import sqlite3

    async def closes(state: State, journal: RunJournal, world: FakeWorld) -> State:
        assert state.next == "close"
        return state.model_copy(update={"next": "over"})

    office = Office(folder, agent)
    shim = office.carriers.shims["run-1"] = FakeShim(play=runs_until_signalled)
    async with office.life() as life:
        await life.at_work(shim)
    with sqlite3.connect(folder / "runs.db") as db:
        db.execute("UPDATE runs SET checkpoint = ?", (b'{"version": 99}',))
    db.close()
    office.program = closes
    async with office.life() as life:
        await life.finished()
        record = await life.engine.record(await life.engine.find("run-1"))
        assert record.summary is not None
        assert record.summary.outcome == "failed"


async def test_a_record_of_a_newer_version_is_not_touched_and_no_run_starts(folder: Path) -> None:
    import sqlite3

    office = Office(folder, quick)
    async with office.life() as life:
        await life.start()
        await life.finished()
    with sqlite3.connect(folder / "runs.db") as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    before = (folder / "runs.db").read_bytes()
    async with office.life() as life:
        await refused(life.start(), codes.VERSION_MISMATCH)
        await refused(life.engine.find("run-1"), codes.VERSION_MISMATCH)
    assert (folder / "runs.db").read_bytes() == before


async def test_a_record_that_is_removed_under_a_run_ends_it_and_the_next_run_has_a_new_one(folder: Path) -> None:
    office = Office(folder, cancellable(agent))
    shim = office.carriers.shims["run-1"] = FakeShim(play=runs_until_signalled)
    async with office.life() as life:
        await life.at_work(shim)
        for name in ("runs.db", "runs.db-wal"):
            (folder / name).unlink()
        _, summary = await life.engine.cancel(None)
        assert summary.outcome == "stopped"
        assert life.told[-1] == "run.finished"
        assert (await life.start()).run_id == "run-2"
        await life.engine.cancel("run-2")


async def test_old_runs_go_but_for_the_newest_and_their_agents_conversations_with_them(folder: Path) -> None:
    office = Office(folder, quick, history=3)
    async with office.life() as life:
        lane = life.engine._around.lane
        for number in range(6):
            run_id, task_id = (await life.start()).run_id, f"T-{number + 1}"
            one = Conversation(task_id, "s", 1, 2, "pi", "{}", "reported")
            await lane.write(partial(keep_conversation, run_id=run_id, one=one))
            await life.finished(number + 1)
            while life.engine.active_id is not None:
                await anyio.sleep(0)
        with anyio.fail_after(10):
            while await lane.read(_tasks_of_conversations) != ["T-4", "T-5", "T-6"]:
                await anyio.sleep(0)
        assert "discard run-3" in office.carriers.calls
        rows, more = await life.engine.history.page(50, None)
        assert [row.run_id for row in rows] == ["run-6", "run-5", "run-4"]
        assert not more
        rows, more = await life.engine.history.page(1, "run-6")
        assert ([row.run_id for row in rows], more) == (["run-5"], True)
        await refused(life.engine.history.page(1, "run-1"), codes.NO_SUCH_RUN)


def _tasks_of_conversations(db: sqlite3.Connection) -> list[str]:
    return [task_id for (task_id,) in db.execute("SELECT task_id FROM conversations ORDER BY task_id")]


# --- questions -----------------------------------------------------------------------------------------------------------------------


def question(number: int, run_id: str = "run-1") -> Question:
    return Question(
        question_id=f"q{number}",
        run_id=run_id,
        message="What now?",
        detail="The gate failed.",
        choices=(
            QuestionChoice(choice="keep", title="Keep", takes_text=False),
            QuestionChoice(choice="continue", title="Continue", takes_text=True),
        ),
        default="keep",
        asked_at=NOW,
        expires_at="2126-11-30T12:00:00Z",
    )


async def never(moment: object) -> None:
    await anyio.sleep_forever()


def asking(count: int) -> Program:
    async def asks(state: State, journal: RunJournal, world: FakeWorld) -> State:
        for number in range(count):

            async def ask(wanted: int, again: bool) -> tuple[str, str | None]:
                desk = world.living.desk
                return await journal.wait(desk.ask("run-1", question(wanted), never))

            pair: TypeAdapter[tuple[str, str | None]] = TypeAdapter(tuple[str, str | None])
            choice, text = await journal.step(f"ask/{number}", number, ask, NUMBER, pair)
            await journal.emit(f"said/{number}", warned(f"{choice} {text}"))
        return ending({})

    return asks


async def test_a_question_is_shown_and_answered_once_by_one_of_two(folder: Path) -> None:
    office = Office(folder, asking(60))
    async with office.life() as life:
        await life.start()
        for number in range(60):
            await until_asked(life, number)
            assert [one.question_id for one in life.engine.questions] == [f"q{number}"]
            found: list[tuple[str, bool]] = []

            async def answer(text: str, number: int = number, found: list[tuple[str, bool]] = found) -> None:
                given = await life.engine.answer("run-1", f"q{number}", "continue", text)
                found.append((given.text or "", given.first))

            async with anyio.create_task_group() as both:
                both.start_soon(answer, "a")
                both.start_soon(answer, "b")
            (first,) = [text for text, is_first in found if is_first]
            assert {text for text, _ in found} == {first}
            await life.until_told(f"continue {first}")
        await life.finished()
        assert life.told.count("question") == life.told.count("question.resolved") == 60
        assert life.engine.questions == ()


async def test_a_question_survives_the_daemon_and_is_not_asked_again_once_answered(folder: Path, tmp_path: Path) -> None:
    office = Office(folder, asking(2))
    async with office.life() as life:
        await life.start()
        await life.until_told("question")
        while office.shown[-1] is None or office.shown[-1].state != "asking":
            await anyio.sleep(0)
    async with office.life() as life:
        assert [one.question_id for one in life.engine.questions] == ["q0"]
        with pytest.raises(RpcError):
            await life.engine.answer("run-1", "q0", "revert", None)
        with pytest.raises(RpcError):
            await life.engine.answer("run-1", "q0", "keep", "with a text")
        assert (await life.engine.answer("run-1", "q0", "keep", None)).first
        killed = office.as_after_a_kill("answered")  # at once: whether the program has heard of it or not
    async with killed.life() as life:
        await life.sink.until(lambda: [one.question_id for one in life.engine.questions] == ["q1"])
        assert life.told.count("question") <= 1
        again = await life.engine.answer("run-1", "q0", "continue", "too late")
        assert (again.choice, again.first) == ("keep", False)
        await refused(life.engine.answer("run-1", "q9", "keep", None), codes.CONFLICT)
        await refused(life.engine.answer("run-9", "q1", "keep", None), codes.NO_SUCH_RUN)
        await life.engine.answer("run-1", "q1", "keep", None)
        await life.finished()


async def test_a_question_whose_run_is_cancelled_is_resolved_by_its_end(folder: Path) -> None:
    office = Office(folder, cancellable(asking_then_closing()))
    async with office.life() as life:
        await life.start()
        await life.until_told("question")
        await life.engine.cancel(None)
        assert life.told[-2:] == ["question.resolved", "run.finished"]
        resolved = life.sink.messages[-2]["params"]
        assert (resolved["choice"], resolved["by"]) == ("keep", "run_over")
        assert life.engine.questions == ()


def asking_then_closing() -> Program:
    asks = asking(1)

    async def run(state: State, journal: RunJournal, world: FakeWorld) -> State:
        if state.next == "close":
            return state.model_copy(update={"next": "over"})
        return await asks(state, journal, world)

    return run


async def test_a_question_that_nobody_answers_in_time_has_its_default(folder: Path) -> None:
    async def asks(state: State, journal: RunJournal, world: FakeWorld) -> State:
        async def ask(wanted: int, again: bool) -> tuple[str, str | None]:
            return await journal.wait(world.living.desk.ask("run-1", question(wanted), lambda moment: anyio.sleep(0)))

        pair: TypeAdapter[tuple[str, str | None]] = TypeAdapter(tuple[str, str | None])
        choice, _ = await journal.step("ask", 0, ask, NUMBER, pair)
        await journal.emit("said", warned(choice))
        return ending({})

    async with Office(folder, asks).life() as life:
        await life.start()
        await life.finished()
        assert life.told == ["question", "question.resolved", "keep", "run.finished"]
        assert life.sink.messages[1]["params"]["by"] == "timeout"


async def test_a_world_that_cannot_be_made_ends_the_run_and_not_the_daemon(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(folder, quick)

    def broken(run_id: str) -> dict[str, str]:
        raise RuntimeError("no world")

    async with office.life() as life:
        with monkeypatch.context() as patched:
            patched.setattr(office.carriers, "environment", broken)
            await life.start()
            await life.finished()
            assert (await life.engine.cancel("run-1"))[1].outcome == "failed"
        await life.start()
        await life.finished(2)
    assert "no world" in caplog.text


async def test_an_environment_that_is_gone_ends_the_run(folder: Path) -> None:
    office = Office(folder, quick)
    async with office.life() as life:
        began = await life.start()
        office.carriers.envs.clear()
        await life.finished()
        assert began.run_id == "run-1"
        assert "the environment is not there any more" in life.told[0]


async def test_a_record_that_is_lost_while_a_run_waits_for_its_daemon(folder: Path) -> None:
    office = Office(folder, agent)
    shim = office.carriers.shims["run-1"] = FakeShim(play=runs_until_signalled)
    async with office.life() as life:
        await life.at_work(shim)
    async with office.life(serve=False) as life:
        for name in ("runs.db", "runs.db-wal"):
            (folder / name).unlink()
        life.engine.serve()
        await life.finished()
        assert "bury run-1" in office.carriers.calls
        assert life.engine.active_id is None
        assert (await life.start()).run_id == "run-2"
        await life.engine.cancel("run-2")


async def test_a_daemon_that_leaves_answers_who_waits_for_a_cancel(folder: Path) -> None:
    async def deaf(state: State, journal: RunJournal, world: FakeWorld) -> State:
        with anyio.CancelScope():
            await anyio.sleep_forever()
        raise AssertionError

    office = Office(folder, deaf)
    answers: list[int] = []
    async with office.life() as life:

        async def cancel() -> None:
            try:
                await life.engine.cancel(None)
            except RpcError as exc:
                answers.append(exc.code)

        await life.start()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            while office.shown[-1] is None or office.shown[-1].state != "cancelling":
                await anyio.sleep(0)
            life.leave()
    assert answers == [codes.SHUTTING_DOWN]


async def test_kills_lose_no_question_and_none_is_asked_again_once_answered(folder: Path, tmp_path: Path) -> None:
    """Each question meets one kill: before its answer, or right after it was acknowledged. `faults/runs_questions.py` makes 100."""
    office = Office(folder, asking(30))
    async with office.life() as life:
        await life.start()
        await life.until_told("question")
        office = office.as_after_a_kill("k0")
    for number in range(30):
        async with office.life() as life:
            await until_asked(life, number)
            if number % 2:
                assert (await life.engine.answer("run-1", f"q{number}", "continue", f"text {number}")).first
            office = office.as_after_a_kill(f"k{number + 1}")
        if number % 2 == 0:
            async with office.life() as life:
                await until_asked(life, number)
                assert (await life.engine.answer("run-1", f"q{number}", "continue", f"text {number}")).first
                office = office.as_after_a_kill(f"after{number}")
    async with office.life() as life:
        while life.engine.active_id is not None:
            await anyio.sleep(0)
        sink = FakeSink()
        subscribed = await life.hub.subscribe(sink, Filter(), Cursor(life.hub.cursor.epoch, 0))
        life.hub.start(subscribed.subscription)
        await sink.until(lambda: bool(sink.messages) and sink.messages[-1]["method"] == "run.finished")
        params = [(message["method"], message["params"]) for message in sink.messages]
        asked = [one["question"]["question_id"] for method, one in params if method == "question"]
        settled = [one["question_id"] for method, one in params if method == "question.resolved"]
        said = [one["event"]["message"] for method, one in params if method == "event"]
    assert asked == settled == [f"q{number}" for number in range(30)]
    assert said == [f"continue text {number}" for number in range(30)]


async def until_asked(life: Life, number: int) -> None:
    with anyio.fail_after(20):
        while [one.question_id for one in life.engine.questions] != [f"q{number}"]:
            await anyio.sleep(0)
