"""The methods `run.*`, and `client.state`. What they do to a run is an effect: recorded before it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from cueloop_daemon.core.stamps import format_stamp
from cueloop_daemon.runs.engine import unavailable
from cueloop_daemon.runs.history import total_of
from cueloop_daemon.server.requests import Call, Reply, Result, When
from cueloop_daemon.services import Services
from cueloop_daemon.store.sqlite import DbError
from cueloop_protocol import codes
from cueloop_protocol.params import (
    ClientStateParams,
    RunAnswerParams,
    RunGetParams,
    RunListParams,
    RunOutputParams,
    RunStartParams,
    RunTargetParams,
)
from cueloop_protocol.run_results import (
    RunAnswerResult,
    RunCancelResult,
    RunGetResult,
    RunListResult,
    RunOutputResult,
    RunStartResult,
    RunStopResult,
)
from cueloop_protocol.values import dataclass

Work = Callable[[Services, dict[str, Any]], Awaitable[Result]]
"""Does what was asked; the mapping is what stands beside every result."""


@dataclass(frozen=True, slots=True)
class Do:
    """An effect that does the work of one method."""

    work: Work

    @property
    def when(self) -> When:
        return When.WRITE

    async def perform(self, call: Call[Any]) -> Result:
        services: Services = call.services
        beside = {"revision": services.workspace.view(None).revision, "observed_at": format_stamp(call.now)}
        try:
            return await self.work(services, beside)
        except DbError as exc:
            raise unavailable(exc) from exc


def start(call: Call[Services], params: RunStartParams) -> Reply:
    """Start a run, or say what stands against it."""

    async def work(services: Services, beside: dict[str, Any]) -> Result:
        if services.life.draining:
            raise codes.shutting_down()
        began = await services.engine.start(params, services.caller(params.caller))
        return RunStartResult(run_id=began.run_id, cursor=began.cursor, repeated=began.repeated, **beside)

    return Reply(b"{}", (Do(work),))


def answer(call: Call[Services], params: RunAnswerParams) -> Reply:
    """Settle a question of a run."""

    async def work(services: Services, beside: dict[str, Any]) -> Result:
        found = await services.engine.answer(params.run_id, params.question_id, params.choice, params.text)
        return RunAnswerResult(
            run_id=found.run_id, question_id=found.question_id, choice=found.choice, first=found.first, **beside
        )

    return Reply(b"{}", (Do(work),))


def stop(call: Call[Services], params: RunTargetParams) -> Reply:
    """Let a run end after its current task."""

    async def work(services: Services, beside: dict[str, Any]) -> Result:
        run_id = await services.engine.stop(params.run_id)
        return RunStopResult.model_validate({"run_id": run_id, "state": services.engine.state_of(run_id), **beside})

    return Reply(b"{}", (Do(work),))


def cancel(call: Call[Services], params: RunTargetParams) -> Reply:
    """End a run now."""

    async def work(services: Services, beside: dict[str, Any]) -> Result:
        run_id, summary = await services.engine.cancel(params.run_id)
        return RunCancelResult(run_id=run_id, summary=summary, **beside)

    return Reply(b"{}", (Do(work),))


def get(call: Call[Services], params: RunGetParams) -> Reply:
    """One run."""

    async def work(services: Services, beside: dict[str, Any]) -> Result:
        return RunGetResult(run=await services.engine.record(await services.engine.find(params.run_id)), **beside)

    return Reply(b"{}", (Do(work),))


def list_(call: Call[Services], params: RunListParams) -> Reply:
    """A page of the history."""

    async def work(services: Services, beside: dict[str, Any]) -> Result:
        rows, more = await services.engine.history.page(params.limit, params.before)
        records = [await services.engine.record(row) for row in rows]
        return RunListResult(runs=tuple(records), more=more, **beside)

    return Reply(b"{}", (Do(work),))


def output(call: Call[Services], params: RunOutputParams) -> Reply:
    """A piece of a run's output."""

    async def work(services: Services, beside: dict[str, Any]) -> Result:
        row = await services.engine.find(params.run_id)
        layout = await services.engine.history.layout(row)
        total = total_of(layout)
        if params.offset > total:
            raise codes.invalid_params([{"path": "offset", "message": f"lies beyond the {total} bytes that there are"}])
        piece = await services.engine.history.output(row, layout, params.offset, params.limit)
        return RunOutputResult(
            run_id=row.run_id,
            offset=params.offset,
            next_offset=piece.next_offset,
            total=total,
            text=piece.text,
            complete=not row.is_open and piece.next_offset == total,
            **beside,
        )

    return Reply(b"{}", (Do(work),))


def client_state(call: Call[Services], params: ClientStateParams) -> Reply:
    """Whether a window of this client is in front; forgotten when it goes."""
    windows, peer = call.services.active_windows, call.peer
    if not params.active_window:
        windows.discard(peer.id)
    elif peer.id not in windows:
        windows.add(peer.id)
        peer.farewells.append(lambda: windows.discard(peer.id))
    return Reply(b"{}")
