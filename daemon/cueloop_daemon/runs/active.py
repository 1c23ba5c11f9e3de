"""The active run as it is told: beside documents, in `active.json` for those who ask without a daemon, and kept for a next life."""

from __future__ import annotations

import os
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, ValidationError

from cueloop_daemon.answers import active_run_state
from cueloop_daemon.core.model import ActiveRun, ShimProcess
from cueloop_daemon.workspace.files import read_regular
from cueloop_protocol.base import to_json_bytes
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.identity import is_same_process
from cueloop_protocol.place import FOLDER
from cueloop_protocol.roots import Root
from cueloop_protocol.shapes import ActiveRunState

NAME = "active.json"


class View(BaseModel):
    """What is kept of the active run's face, for a life that goes on with it."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    state: str = "starting"
    task_id: str | None = None
    phase: str | None = None
    decision: Decision | None = None

    def to_json(self) -> bytes:
        """For `runs.view`."""
        return self.model_dump_json(exclude_none=True).encode()


def view_from(stored: bytes | None) -> View:
    """The kept view; the plainest one where it cannot be read: it is display only."""
    try:
        return View() if stored is None else View.model_validate_json(stored)
    except ValidationError:
        return View()


def from_state(state: ActiveRunState) -> ActiveRun:
    """The run as it came over the wire."""
    shim = None if state.shim is None else ShimProcess(state.shim.pid, state.shim.start_time, state.shim.boot_id)
    return ActiveRun(
        run_id=state.run_id,
        mode=state.mode,
        task_id=state.task_id,
        phase=state.phase,
        state=state.state,
        started_at=state.started_at,
        decision=state.decision,
        shim=shim,
    )


def active_path(root: Root) -> str:
    """`active.json`, for system calls."""
    return root.join(FOLDER, NAME)


def active_bytes(run: ActiveRun) -> bytes:
    """The content of `active.json`."""
    return to_json_bytes(_state(run), indent=2) + b"\n"


def _state(run: ActiveRun) -> ActiveRunState:
    state = active_run_state(run)
    assert state is not None
    return state


def read_active(root: Root) -> ActiveRun | None:
    """The run that `active.json` tells of, believed only while its shim lives. Blocking. Never raises."""
    try:
        data, _ = read_regular(active_path(root))
        run = None if data is None else from_state(ActiveRunState.model_validate_json(data))
    except (OSError, ValueError):
        return None
    if run is None or run.shim is None or not is_same_process(*run.shim):
        return None
    return run


def shown_as(run: ActiveRun, *, cancelling: bool, stopping: bool) -> ActiveRun:
    """The run with what people asked of it, which goes before what it is doing."""
    state = "cancelling" if cancelling else "stopping" if stopping and run.state in ("running", "asking") else run.state
    return run if state == run.state else replace(run, state=state)


def remove_active(root: Root) -> None:
    """There is no active run. Never raises."""
    try:
        os.unlink(active_path(root))
    except OSError:
        return
