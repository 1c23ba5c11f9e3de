"""Scope `open`: the run says that it has started, under which decision, and what of its configuration it does not follow."""

from __future__ import annotations

from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.envelope import ConfigPayload, RunStarted
from cueloop_protocol.documents.resolve import ResolveDocument
from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.core.decide import decide
from cueloop_daemon.core.request import Answer, Request, run_request
from cueloop_daemon.core.resolve import resolve_document
from cueloop_daemon.runs.program.common import MAYBE_TEXT, NOTHING, failed_with, later, mode_of, stamp, warn
from cueloop_daemon.runs.state import State
from cueloop_daemon.runs.types import Journal, World


class Opening(BaseModel):
    """What the run was started under."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    at: str
    decision: Decision | None
    document: ResolveDocument | None


OPENING: TypeAdapter[Opening] = TypeAdapter(Opening)


async def open_run(state: State, journal: Journal, world: World) -> State:
    """Say `run_started`; forget a stop that was asked of an earlier loop."""
    params, mode = world.run.params, mode_of(world)
    opening = await journal.note("opening", lambda: _opening(world), OPENING)
    if opening.document is None:
        return failed_with(state, "config_incompatible", "The configuration became unusable while the run was starting.")
    await journal.emit(
        "started",
        RunStarted(
            timestamp=opening.at,
            run_mode=mode,
            task_id=params.task_id,
            payload=ConfigPayload(config=opening.document),
        ),
    )
    config = world.config
    if config.parallel.workers is not None and not params.resume and params.mode != "resume":
        await warn(journal, world, "parallel", "parallel.workers is set; this daemon runs one task after the other.")
    if config.agent.webhook.enabled:
        await warn(journal, world, "webhook", "agent.webhook.enabled is set; this daemon sends no webhooks.")
    if mode == "loop":
        marker = await journal.note("marker", later(world.stop_marker.seen), MAYBE_TEXT)
        if marker is not None:
            await journal.converge("marker/forgotten", lambda again: _forget(world, marker), NOTHING)
    return state.model_copy(
        update={
            "next": "begin",
            "decision": opening.decision,
            "include_draft": params.overrides.include_draft,
            "max_tasks": params.max_tasks or 0,
        }
    )


def first_request(world: World) -> Request:
    """The request of the run's first decision, before the lock."""
    params = world.run.params
    answer = None if params.answer is None else Answer(params.answer.choice, params.answer.session_etag)
    return run_request(
        params.mode,
        resume=params.resume,
        fresh=params.fresh,
        task_id=params.task_id,
        include_draft=params.overrides.include_draft,
        answer=answer,
    )


async def _opening(world: World) -> Opening:
    facts = await world.look()
    decision = decide(facts, first_request(world), world.now())
    document = resolve_document(facts, decision) if not hasattr(facts.config, "message") else None
    return Opening(at=stamp(world), decision=decision, document=document)


async def _forget(world: World, marker: str) -> None:
    world.stop_marker.remove(marker)
