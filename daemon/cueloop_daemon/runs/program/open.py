"""Scope `open`: the run says that it has started, under which decision, and what of its configuration it does not follow."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.core.decide import decide
from cueloop_daemon.core.model import Unusable
from cueloop_daemon.core.request import request_of
from cueloop_daemon.core.resolve import resolve_document
from cueloop_daemon.core.runs import ends
from cueloop_daemon.core.runs.unhonoured import unhonoured
from cueloop_daemon.runs.program.common import MAYBE_TEXT, failed, failed_with, later, mode_of, stamp, warn
from cueloop_daemon.runs.program.marker import remove_marker
from cueloop_daemon.runs.state import State
from cueloop_daemon.runs.types import Journal, World
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.envelope import ConfigPayload, RunStarted
from cueloop_protocol.documents.error import ErrorDocument
from cueloop_protocol.documents.resolve import ResolveDocument


class Opening(BaseModel):
    """What the run was started under. Without a document there is an error in its place."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    at: str
    decision: Decision | None = None
    document: ResolveDocument | None = None
    error: ErrorDocument | None = None


OPENING: TypeAdapter[Opening] = TypeAdapter(Opening)


async def open_run(state: State, journal: Journal, world: World) -> State:
    """Say `run_started`; forget a stop that was asked of an earlier loop."""
    params, mode = world.run.params, mode_of(world)
    opening = await journal.note("opening", lambda: _opening(world), OPENING)
    if opening.document is None:
        assert opening.error is not None
        return failed(state, opening.error)
    payload = ConfigPayload(config=opening.document)
    await journal.emit("started", RunStarted(timestamp=opening.at, run_mode=mode, task_id=params.task_id, payload=payload))
    found = unhonoured(world.config, params)
    for number, text in enumerate((*found.warnings, *((found.refusal,) if found.refusal else ()))):
        await warn(journal, world, f"unhonoured/{number}", text)
    if found.refusal is not None:
        detail = "Leave it out, or set unsupported_option_policy to warn."
        return failed_with(state, "config_incompatible", found.refusal, detail)
    if mode == "loop":
        marker = await journal.note("marker", later(world.stop_marker.seen), MAYBE_TEXT)
        if marker is not None:
            await remove_marker(journal, world, "marker/forgotten", marker)
    return state.model_copy(
        update={
            "next": "begin",
            "decision": opening.decision,
            "include_draft": params.overrides.include_draft,
            "max_tasks": params.max_tasks or 0,
        }
    )


async def _opening(world: World) -> Opening:
    facts = await world.look()
    if isinstance(facts.config, Unusable):
        error = ends.error(facts.config.code, facts.config.message, facts.config.detail)
        return Opening(at=stamp(world), error=error)
    decision = decide(facts, request_of(world.run.params), world.now())
    return Opening(at=stamp(world), decision=decision, document=resolve_document(facts, decision))
