"""Setting a stage and running a whole run on it, for tests of single rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cueloop_daemon.runs.state import Ending
from cueloop_daemon.runs.types import NotStarted, Order
from runs.fakes import Script
from runs.program.played import Stage, config, queue, task
from runs.program.stories import works

Play = Callable[[Stage, Order], Script | NotStarted]
TRUSTED = '{"allow_project_commands": true, "trusted_at": "2026-01-01T00:00:00Z"}'
GATE: dict[str, object] = {"ci_gate": {"enabled": True, "argv": ["make", "ci"]}}
ONE: Mapping[str, Any] = {"mode": "one"}
LOOP: Mapping[str, Any] = {"mode": "loop"}


def set_stage(
    folder: Path,
    params: Mapping[str, Any] = ONE,
    how: Play = works,
    *,
    tasks: str | None = None,
    saved: str | None = None,
    **agent: object,
) -> Stage:
    """A repository with one task to do, unless said otherwise; `agent` is its configuration."""
    made = Stage(folder, params, how)
    made.write(".cueloop/config.jsonc", config(**agent))
    made.write(".cueloop/trust.jsonc", TRUSTED)
    made.write(".cueloop/queue.jsonc", queue(task("RQ-0001")) if tasks is None else tasks)
    if saved is not None:
        made.write(".cueloop/cache/session.jsonc", saved)
    made.write("work.txt", "as it was\n")
    made.tree.commit("begin")
    return made


@dataclass(frozen=True)
class Told:
    """How a run ended and what it said."""

    ending: Ending
    events: list[dict[str, Any]]

    @property
    def outcome(self) -> str:
        """The summary's."""
        return self.ending.outcome

    @property
    def warnings(self) -> list[str]:
        """The messages of the warnings, in order."""
        return [event["message"] for event in self.events if event["kind"] == "warning"]

    @property
    def kinds(self) -> list[str]:
        """What was said, but for warnings and snapshots of the queue."""
        return [event["kind"] for event in self.events if event["kind"] not in ("warning", "queue_snapshot")]

    @property
    def phases(self) -> list[str]:
        """The phases that were entered."""
        return [event["phase"] for event in self.events if event["kind"] == "phase_entered"]

    @property
    def selected(self) -> list[str]:
        """The tasks that were selected."""
        return [event["task_id"] for event in self.events if event["kind"] == "task_selected"]

    def has_warned(self, text: str) -> bool:
        """Whether one of the warnings says so."""
        return any(text in one for one in self.warnings)


async def tell(made: Stage) -> Told:
    """Run it to its end in one life."""
    state = await made.life()
    assert state.ending is not None
    return Told(state.ending, made.events())
