"""The program: one scope after the other until the run is over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from cueloop_daemon.runs.program.begin import begin_task
from cueloop_daemon.runs.program.between import between_tasks
from cueloop_daemon.runs.program.close import close_run
from cueloop_daemon.runs.program.common import failed_with
from cueloop_daemon.runs.program.fail import fail_task
from cueloop_daemon.runs.program.finish import finish_task
from cueloop_daemon.runs.program.open import open_run
from cueloop_daemon.runs.program.phase import run_phase
from cueloop_daemon.runs.state import Ending, ScopeName, State
from cueloop_daemon.runs.types import Journal, RunCancelled, TaskConflict, World
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.outcomes import OwnershipLost

Scope = Callable[[State, Journal, World], Awaitable[State]]

SCOPES: Mapping[ScopeName, Scope] = {
    "open": open_run,
    "begin": begin_task,
    "phase": run_phase,
    "fail": fail_task,
    "finish": finish_task,
    "between": between_tasks,
    "close": close_run,
}


async def run_program(state: State, journal: Journal, world: World) -> State:
    """Run from `state` to the end; the last state has `next` "over" and an ending. Raises what the journal and the link raise."""
    while state.next != "over":
        try:
            state = await SCOPES[state.next](state, journal, world)
        except RunCancelled:
            # What the scope had begun is forgotten with its steps: closing ends the child whatever it was.
            state = state.model_copy(update={"next": "close", "ending": Ending(outcome="stopped", exit_code=0)})
        except TaskConflict as exc:
            state = failed_with(state, exc.code, str(exc), "Nothing was lost; the session stays. Resume the run.")
        except OwnershipLost:
            raise
        except NotWritable as exc:
            state = failed_with(state, exc.code, exc.message, exc.remedy)
        await journal.checkpoint(state)
    return state
