"""The laws of the journal, in memory and on disk: order, nothing done twice, events once, whatever point a life ends at."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import pytest
from pydantic import BaseModel, TypeAdapter

from cueloop_daemon.runs.journal import RunJournal
from cueloop_daemon.runs.records import Conversation
from cueloop_daemon.runs.state import State
from cueloop_daemon.runs.store import Unrecordable
from cueloop_daemon.runs.types import Diverged, RunCancelled, TaskConflict
from runs.conftest import NewRecord
from runs.fakes import Killed, MemoryStore, ending, later
from runs.records import KillAt, Record, warned

NUMBER: TypeAdapter[int] = TypeAdapter(int)
TEXT: TypeAdapter[str] = TypeAdapter(str)


class Order(BaseModel):
    number: int


ORDER: TypeAdapter[Order] = TypeAdapter(Order)


@dataclass
class Outside:
    """What the acts have done. A door that is asked twice for one order opens once, like the shim."""

    clock: int = 0
    orders: dict[int, int] = field(default_factory=dict)
    asked: list[tuple[int, bool]] = field(default_factory=list)
    made: list[bool] = field(default_factory=list)

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    async def order(self, wanted: Order, again: bool) -> int:
        self.asked.append((wanted.number, again))
        return self.orders.setdefault(wanted.number, self.tick())

    async def make(self, again: bool) -> str:
        self.made.append(again)
        return "made"


Scope = Callable[[State, RunJournal, Outside], Awaitable[State]]


async def first(state: State, journal: RunJournal, outside: Outside) -> State:
    now = await journal.note("now", later(outside.tick), NUMBER)
    await journal.emit("begun", warned(f"begun at {now}"))
    await journal.converge("made", outside.make, TEXT)
    result = await journal.step("order", Order(number=journal.order_number()), outside.order, ORDER, NUMBER)
    await journal.emit("ordered", warned(f"ordered {result}"))
    await journal.converge("made/2", outside.make, TEXT)
    return state.model_copy(update={"next": "phase", "number": result})


async def second(state: State, journal: RunJournal, outside: Outside) -> State:
    for attempt in range(2):
        result = await journal.step(f"order/{attempt}", Order(number=journal.order_number()), outside.order, ORDER, NUMBER)
        await journal.emit(f"ordered/{attempt}", warned(f"ordered {result} after {state.number}"))
    return ending({"number": state.number})


SCOPES: dict[str, Scope] = {"open": first, "phase": second}


async def run(journal: RunJournal, outside: Outside) -> None:
    state = journal.state
    while state.next != "over":
        state = await SCOPES[state.next](state, journal, outside)
        await journal.checkpoint(state)


async def lives(record: Record, outside: Outside, *kills: KillAt) -> None:
    """One life after the other, each ended by its kill; the last one lives to the end."""
    for kill in kills:
        with pytest.raises(Killed):
            await run(await record.journal(kill), outside)
    journal = await record.journal()
    if journal.state.next != "over":
        await run(journal, outside)


async def points(record: Record) -> int:
    """At how many places a life of this program can end."""
    kill = KillAt()
    await run(await record.journal(kill), Outside())
    return len(kill.passed)


async def test_a_life_without_an_end_does_everything_once(record: Record) -> None:
    assert await points(record) > 25
    assert await record.told() == ["begun at 1", "ordered 2", "ordered 3 after 2", "ordered 4 after 2", "run.finished"]


def is_right(outside: Outside, told: list[str]) -> bool:
    """Three orders, whatever happened, and each event once, in order."""
    said = [text.split()[0] for text in told]
    return len(outside.orders) == 3 and said == ["begun", "ordered", "ordered", "ordered", "run.finished"]


async def test_killed_at_any_point_no_order_is_given_twice_and_each_event_is_said_once(new_record: NewRecord) -> None:
    for point in range(await points(await new_record())):
        record, outside, kill = await new_record(), Outside(), KillAt(point)
        await lives(record, outside, kill)
        assert is_right(outside, await record.told()), kill.passed[-1]


async def test_killed_twice_at_any_two_points(new_record: NewRecord) -> None:
    last = await points(await new_record())
    for first_point in range(0, last, 3):
        for second_point in range(0, last - first_point, 4):
            record, outside, kills = await new_record(), Outside(), (KillAt(first_point), KillAt(second_point))
            with contextlib.suppress(pytest.fail.Exception):  # where less is left to do than that, the second life just lives
                await lives(record, outside, *kills)
            assert is_right(outside, await record.told()), [kill.passed[-1] for kill in kills]


async def test_an_act_hears_that_it_may_have_been_done(record: Record) -> None:
    outside = Outside()
    with pytest.raises(Killed):
        await run(await record.journal(KillAt(key="made", point="acted")), outside)
    await run(await record.journal(), outside)
    assert outside.made == [False, True, False]
    assert outside.asked[0][1] is False


async def test_a_step_whose_intent_is_on_record_hears_the_recorded_intent(record: Record) -> None:
    outside = Outside()
    journal = await record.journal(KillAt(key="order", point="intent"))
    with pytest.raises(Killed):
        await journal.step("order", Order(number=7), outside.order, ORDER, NUMBER)
    journal = await record.journal()
    await journal.step("order", Order(number=8), outside.order, ORDER, NUMBER)
    assert outside.asked == [(7, True)]


async def test_another_key_is_refused_before_anything_is_done(record: Record) -> None:
    outside = Outside()
    journal = await record.journal()
    await journal.note("now", later(outside.tick), NUMBER)
    await journal.emit("begun", warned("begun"))
    await journal.flush()
    acts: tuple[Callable[[RunJournal], Awaitable[object]], ...] = (
        lambda journal: journal.note("later", later(outside.tick), NUMBER),
        lambda journal: journal.converge("now", outside.make, TEXT),
        lambda journal: journal.step("now", Order(number=1), outside.order, ORDER, NUMBER),
        lambda journal: journal.emit("now", warned("now")),
    )
    for act in acts:
        with pytest.raises(Diverged):
            await act(await record.journal())
    assert (outside.clock, outside.made, outside.asked) == (1, [], [])
    assert await record.told() == ["begun"]


async def test_a_scope_that_ends_before_what_is_on_record_has_diverged(record: Record) -> None:
    journal = await record.journal()
    await journal.note("now", later(lambda: 1), NUMBER)
    await journal.flush()
    journal = await record.journal()
    with pytest.raises(Diverged):
        await journal.checkpoint(State(next="begin"))


async def test_a_scope_begun_anew_says_nothing_twice_and_gives_no_number_twice(record: Record) -> None:
    outside = Outside()
    journal = await record.journal(KillAt(key="order", point="acted"))
    with pytest.raises(Killed):
        await run(journal, outside)
    used = set(outside.orders)

    async def other(state: State, journal: RunJournal, outside: Outside) -> State:
        await journal.emit("ordered", warned("said by another version"))
        await journal.emit("new", warned("new"))
        await journal.step("order", Order(number=journal.order_number()), outside.order, ORDER, NUMBER)
        return ending({})

    journal = await record.journal()
    with pytest.raises(Diverged):
        await other(journal.state, journal, outside)
    await journal.restart()
    journal = await record.journal(KillAt(key="order", point="acted"))  # the second reading ends, too
    with pytest.raises(Killed):
        await other(journal.state, journal, outside)
    journal = await record.journal()
    await journal.checkpoint(await other(journal.state, journal, outside))
    assert len(outside.orders) == len(used) + 1
    told = await record.told()
    assert told.count("new") == 1
    assert told[-1] == "run.finished"
    assert len([text for text in told if text.startswith("begun")]) == 1


async def test_a_scope_begun_anew_forgets_what_it_did_and_gives_higher_numbers(record: Record) -> None:
    """Also what was not committed yet; what it said stays said, and is told."""
    outside = Outside()
    journal = await record.journal()
    await journal.step("order", Order(number=journal.order_number()), outside.order, ORDER, NUMBER)
    await journal.note("now", later(lambda: 5), NUMBER)
    await journal.emit("begun", warned("begun"))
    highest = journal.order_number()
    await journal.restart()
    for again in (journal, await record.journal()):
        assert again.order_number() > highest
        assert await again.note("now", later(lambda: 6), NUMBER) == 6
        await again.emit("begun", warned("begun"))
        await again.converge("made", outside.make, TEXT)
        if again is journal:
            await again.restart()
    await again.flush()
    assert (await record.told(), outside.made) == (["begun"], [True, True])


async def test_what_an_earlier_life_said_is_known_after_beginning_anew(record: Record) -> None:
    journal = await record.journal()
    await journal.note("now", later(lambda: 5), NUMBER)
    await journal.emit("said", warned("once"))
    await journal.flush()
    journal = await record.journal()
    await journal.restart()
    await journal.emit("said", warned("twice"))
    await journal.emit("now", warned("not said before"))
    await journal.flush()
    assert await record.told() == ["once", "not said before"]


async def test_what_an_earlier_scope_said_is_said_again_by_a_later_one_that_begins_anew(record: Record) -> None:
    journal = await record.journal()
    await journal.emit("said", warned("in the first"))
    await journal.checkpoint(State(next="phase"))
    await journal.restart()
    await journal.emit("said", warned("in the second"))
    await journal.flush()
    assert await record.told() == ["in the first", "in the second"]


async def test_a_wish_to_stop_is_known_from_the_record_and_from_now_on() -> None:
    store = MemoryStore()
    journal = store.journal()
    assert not journal.stop_wanted
    journal.ask_stop()
    assert journal.stop_wanted
    assert store.journal(stop_wanted=True).stop_wanted


async def test_a_cancel_is_known_from_the_record_and_from_now_on() -> None:
    asked, known = MemoryStore().journal(), MemoryStore().journal(cancelled=True)
    seen: list[str] = []

    async def look() -> None:
        await asked.until_cancelled()
        seen.append("cancelled")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        await anyio.wait_all_tasks_blocked()
        assert (asked.cancelled, seen) == (False, [])
        asked.cancel()
    assert seen == ["cancelled"]
    for journal in (asked, known):
        assert journal.cancelled
        with anyio.fail_after(10):
            await journal.until_cancelled()
        with pytest.raises(RunCancelled):
            await journal.heed()
        with pytest.raises(RunCancelled):
            await journal.wait(anyio.sleep_forever())


async def test_what_is_on_record_is_answered_from_there_and_not_done_again(record: Record) -> None:
    outside = Outside()
    journal = await record.journal()
    assert await journal.note("now", later(lambda: 5), NUMBER) == 5
    assert await journal.converge("made", outside.make, TEXT) == "made"
    assert await journal.step("order", Order(number=7), outside.order, ORDER, NUMBER) == 1
    await journal.flush()
    journal = await record.journal()
    assert await journal.note("now", later(lambda: 6), NUMBER) == 5
    assert await journal.converge("made", outside.make, TEXT) == "made"
    assert await journal.step("order", Order(number=8), outside.order, ORDER, NUMBER) == 1
    assert (outside.asked, outside.made) == ([(7, False)], [False])


async def test_whatever_waits_for_a_commit_asks_for_one() -> None:
    """Else it would be told only with the next step, which may be an hour away."""
    store = MemoryStore()
    journal = store.journal()
    asked: list[str] = []
    journal.dirty = lambda: asked.append("")
    await journal.note("now", later(lambda: 5), NUMBER)
    await journal.converge("made", Outside().make, TEXT)
    await journal.emit("begun", warned("begun"))
    journal.say(warned("still here"))
    journal.keep_conversation(Conversation("T", "S", 1, 2, "pi", "{}", "chosen"))
    assert (len(asked), store.commits) == (5, 0)
    await journal.flush()
    assert (len(store.records), len(store.out), len(store.conversations)) == (3, 2, 1)


async def test_a_key_is_used_once_in_a_scope(record: Record) -> None:
    journal = await record.journal()
    await journal.note("now", later(lambda: 1), NUMBER)
    with pytest.raises(ValueError, match="twice"):
        await journal.note("now", later(lambda: 2), NUMBER)


async def test_what_waits_is_written_by_the_next_intent_and_by_a_wait(record: Record) -> None:
    journal = await record.journal()
    await journal.emit("a", warned("a"))
    assert await record.told() == []
    await journal.wait(anyio.sleep(0))
    assert await record.told() == ["a"]
    await journal.emit("b", warned("b"))
    await journal.step("order", Order(number=1), Outside().order, ORDER, NUMBER)
    assert await record.told() == ["a", "b"]


async def test_an_abandoned_scope_ends_whatever_is_on_record(record: Record) -> None:
    outside = Outside()
    with pytest.raises(Killed):
        await run(await record.journal(KillAt(key="order", point="acted")), outside)
    journal = await record.journal()
    before = journal.order_number()
    await journal.abandon(State(next="close"))
    assert (await record.journal()).state.next == "close"
    assert journal.order_number() > before


async def test_conversations_are_there_with_the_next_commit() -> None:
    store = MemoryStore()
    journal = store.journal()
    journal.keep_conversation(Conversation("T", "S", 1, 2, "pi", "{}", "chosen"))
    assert store.conversations == []
    await journal.step("order", Order(number=1), Outside().order, ORDER, NUMBER)
    assert len(store.conversations) == 1


# --- waiting and cancelling --------------------------------------------------------------------------------------------------------


async def test_a_cancel_ends_a_wait_that_is_under_way_and_every_later_one(record: Record) -> None:
    journal = await record.journal()

    async def program() -> None:
        with pytest.raises(RunCancelled):
            await journal.wait(anyio.sleep_forever())
        with pytest.raises(RunCancelled):
            await journal.wait(anyio.sleep(0))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(program)
            await anyio.wait_all_tasks_blocked()
            journal.cancel()


async def test_a_wait_that_is_only_repeated_is_not_ended(record: Record) -> None:
    journal = await record.journal()
    await journal.note("now", later(lambda: 1), NUMBER)
    await journal.flush()
    journal = await record.journal()
    journal.cancel()
    await journal.wait(anyio.sleep(0))  # what follows it is on record: that life was not cancelled here
    await journal.note("now", later(lambda: 2), NUMBER)
    with pytest.raises(RunCancelled):
        await journal.wait(anyio.sleep(0))


async def test_what_was_waited_for_and_is_there_counts_before_a_cancel(record: Record) -> None:
    journal = await record.journal()

    async def wanted() -> int:
        journal.cancel()
        return 3

    assert await journal.wait(wanted()) == 3


async def test_a_cancel_in_an_act_leaves_the_step_and_the_scope_can_end(record: Record) -> None:
    outside = Outside()
    with pytest.raises(Killed):
        await run(await record.journal(KillAt(key="order", point="intent")), outside)
    journal = await record.journal()
    journal.cancel()

    async def act(wanted: Order, again: bool) -> int:
        assert again
        return await journal.wait(never())

    async def never() -> int:
        await anyio.sleep_forever()
        raise AssertionError

    await journal.note("now", later(outside.tick), NUMBER)
    await journal.emit("begun", warned("begun"))
    await journal.converge("made", outside.make, TEXT)
    with pytest.raises(RunCancelled):
        await journal.step("order", Order(number=9), act, ORDER, NUMBER)
    await journal.checkpoint(State(next="close"))
    assert (await record.journal()).state.next == "close"


async def test_the_end_of_a_scope_rides_with_the_first_commit_of_the_next_where_it_may(record: Record) -> None:
    outside, again = Outside(), list[bool]()

    async def act(wanted: bool) -> str:
        again.append(wanted)
        return "made"

    journal = await record.journal()
    await journal.checkpoint(State(next="phase"))
    await journal.note("worked", later(outside.tick), NUMBER)
    await journal.checkpoint(State(next="finish"))
    assert journal.state.next == "finish"
    assert (await record.journal()).state.next == "phase"  # killed now, the phase is read again
    await journal.converge("before", act, TEXT)
    await journal.step("order", Order(number=journal.order_number()), outside.order, ORDER, NUMBER)
    journal = await record.journal()
    assert journal.state.next == "finish"
    assert await journal.converge("before", act, TEXT) == "made"
    await journal.step("order", Order(number=journal.order_number()), outside.order, ORDER, NUMBER)
    await journal.checkpoint(State(next="close"))
    await journal.converge("closing", act, TEXT)
    assert again == [False, True]  # an earlier life may have closed before, without a trace
    await journal.checkpoint(ending({"number": 1}))
    assert (await record.journal()).state.next == "over"


async def refuse(wanted: Order, again: bool) -> int:
    raise TaskConflict("somebody keeps writing the file")


@pytest.mark.parametrize("lives_before", [0, 1])
async def test_an_act_that_raises_ends_the_scope_in_the_first_life_and_in_a_later_one(record: Record, lives_before: int) -> None:
    for _ in range(lives_before):
        with pytest.raises(Killed):
            await (await record.journal(KillAt(key="order", point="intent"))).step(
                "order", Order(number=1), refuse, ORDER, NUMBER
            )
    journal = await record.journal()
    with pytest.raises(TaskConflict):
        await journal.step("order", Order(number=1), refuse, ORDER, NUMBER)
    used = journal.order_number() - 1
    await journal.checkpoint(State(next="fail"))
    journal = await record.journal()
    assert (journal.state.next, journal.order_number() > used) == ("fail", True)


async def test_what_a_program_does_after_an_act_that_raised_is_answered_from_the_record_and_the_act_is_asked_again(
    record: Record,
) -> None:
    asked: list[bool] = []

    async def refused(wanted: Order, again: bool) -> int:
        asked.append(again)
        return await refuse(wanted, again)

    outside = Outside()
    for _ in range(2):
        journal = await record.journal()
        with pytest.raises(TaskConflict):
            await journal.step("order", Order(number=1), refused, ORDER, NUMBER)
        assert await journal.note("now", later(outside.tick), NUMBER) == 1
        await journal.flush()
    assert asked == [False, True]
    assert outside.clock == 1


async def test_a_daemon_that_leaves_finishes_an_act_but_not_its_wait(record: Record) -> None:
    journal = await record.journal()
    seen: list[str] = []

    async def short(wanted: Order, again: bool) -> int:
        await anyio.sleep(0.01)
        seen.append("short is done")
        return 1

    async def long(wanted: Order, again: bool) -> int:
        seen.append("long waits")
        await journal.wait(anyio.sleep_forever())
        raise AssertionError

    async def program() -> None:
        try:
            await journal.step("short", Order(number=1), short, ORDER, NUMBER)
            await journal.step("long", Order(number=2), long, ORDER, NUMBER)
        finally:
            seen.append("left")

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(program)
            while "long waits" not in seen:
                await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
    assert seen == ["short is done", "long waits", "left"]


async def test_a_daemon_that_leaves_waits_for_an_act_that_was_begun(record: Record) -> None:
    journal = await record.journal()
    begun, go, leaving = anyio.Event(), anyio.Event(), anyio.CancelScope()
    seen: list[str] = []

    async def act(again: bool) -> str:
        begun.set()
        await go.wait()
        seen.append("done")
        return "made"

    async def program() -> None:
        with leaving:
            await journal.converge("made", act, TEXT)
        seen.append("left")

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(program)
            await begun.wait()
            leaving.cancel()
            await anyio.wait_all_tasks_blocked()
            assert seen == []
            go.set()
    assert seen == ["done", "left"]


# --- a medium that takes nothing -----------------------------------------------------------------------------------------------------


async def test_a_full_disk_holds_the_run_before_the_act_and_says_so() -> None:
    store, outside, said = MemoryStore(refusals=3), Outside(), list[str]()
    journal = store.journal()
    journal.trouble = said.append
    await journal.step("order", Order(number=1), outside.order, ORDER, NUMBER)
    assert said == ["the disk is full"] * 3
    assert outside.asked == [(1, False)]


async def test_a_cancel_on_a_full_disk_gives_up_the_record() -> None:
    store, outside = MemoryStore(refusals=10**9), Outside()
    journal = store.journal()
    journal.trouble = lambda reason: journal.cancel()
    with pytest.raises(Unrecordable):
        await journal.step("order", Order(number=1), outside.order, ORDER, NUMBER)
    assert outside.asked == []
    store.refusals = 0
    with pytest.raises(Unrecordable):  # nothing may follow what was not written
        await journal.flush()
    assert store.records == {}


async def test_only_the_end_has_a_summary() -> None:
    store = MemoryStore()
    with pytest.raises(ValueError, match="ending"):
        await store.journal().checkpoint(State(next="over"))
    with pytest.raises(TypeError):
        await store.journal().checkpoint({"next": "over"})
