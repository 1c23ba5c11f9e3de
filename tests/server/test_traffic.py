"""What a server counts: requests, errors and times, whichever way an answer was made."""

from __future__ import annotations

import anyio
import pytest

from cueloop_daemon.measures import EVERY, Measures, open_descriptors
from cueloop_daemon.server.traffic import EDGES, Traffic
from cueloop_protocol import codes
from server.world import serving


@pytest.mark.parametrize(
    ("seconds", "first"), [(0.0, 0), (EDGES[0], 0), (EDGES[0] * 1.01, 1), (EDGES[-1], len(EDGES) - 1), (99.0, None)]
)
def test_a_time_is_in_the_first_bucket_that_it_fits_and_in_all_after_it(seconds: float, first: int | None) -> None:
    traffic = Traffic()
    traffic.answered(seconds)
    found = traffic.latency()
    assert [bucket.count for bucket in found.buckets] == [
        int(first is not None and number >= first) for number in range(len(EDGES))
    ]
    assert (found.count, found.sum_seconds) == (1, round(seconds, 6))


def test_methods_are_a_closed_list_whoever_asks() -> None:
    traffic = Traffic(["ping"])
    for method in ("ping", "x" * 1000, "unknown", "y"):
        traffic.asked(method)
    assert traffic.requests == {"ping": 1, "unknown": 3}


async def test_everything_that_comes_is_counted_once() -> None:
    async with serving() as running, running.client() as client:
        traffic = running.server.measured
        for method in ("ping", "nothing", "broken", "refused", "waitBadly"):
            await client.call(method)
        await client.call("durable", wrong=1)
        await client.send([{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}, {"jsonrpc": "2.0", "method": "ping"}, 5])
        await client.next()
        await client.raw(b"no json\n")
        await client.next()
        assert traffic.requests["ping"] == 3
        assert traffic.requests["unknown"] == 1
        assert traffic.errors == {
            "method_not_found": 1, "internal_error": 2, "conflict": 1, "invalid_params": 1, "invalid_request": 1, "parse_error": 1
        }  # fmt: skip
        assert traffic.latency().count == 3 + 1 + 3 + 1  # pings, unknown, broken, refused and waitBadly, and wrong params
        assert running.server.counters()["requests_total"] == 7


async def test_a_call_that_is_withdrawn_is_an_error_and_no_answer() -> None:
    async with serving() as running, running.client() as client:
        await client.ask("wait", 7, name="a")
        await running.world.begins("a").wait()
        await client.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 7}})
        assert (await client.next())["error"]["code"] == codes.CANCELLED
        assert running.server.measured.errors == {"cancelled": 1}
        assert running.server.measured.requests["wait"] == 1


async def test_the_longest_lag_of_the_loop_is_kept() -> None:
    readings = iter([0.0, EVERY + 0.25, 10.0, EVERY + 10.5, 20.0, EVERY + 20.125])
    measures = Measures()

    def monotonic() -> float:
        try:
            return next(readings)
        except StopIteration:
            tasks.cancel_scope.cancel()
            return 0.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cueloop_daemon.measures.anyio.sleep", lambda seconds: anyio.lowlevel.checkpoint())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(measures.watch_loop, monotonic)
    assert measures.loop_lag_max == 0.5


def test_hints_are_counted_and_passed_on() -> None:
    measures, told = Measures(), list[int]()
    hint = measures.counting(lambda: told.append(1))
    hint()
    hint()
    assert (measures.hints, told) == (2, [1, 1])


def test_descriptors_are_counted() -> None:
    before = open_descriptors()
    with open("/dev/null"):
        assert open_descriptors() == before + 1
