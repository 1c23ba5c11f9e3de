"""The CI gate: after the last phase of an iteration. Its failures are said to the agent, in the agent's own session."""

from __future__ import annotations

import shlex

from cueloop_daemon.core.runs import ends
from cueloop_daemon.core.runs.repeat import MOST_GATES, is_stuck
from cueloop_daemon.runs.program.command import Done, run_command
from cueloop_daemon.runs.program.scene import Part, Scene, Words
from cueloop_daemon.runs.program.talk import talk
from cueloop_daemon.runs.state import FailState


async def pass_gate(scene: Scene) -> FailState | None:
    """Run the gate until it passes, ten times at most; three identical failures in a row are enough."""
    argv = tuple(scene.world.config.agent.ci_gate.argv)
    command = shlex.join(argv)
    seen: tuple[str, ...] = ()
    for attempt in range(MOST_GATES):
        done = await run_command(scene.journal, scene.world, f"gate/{attempt}", "ci", argv)
        if done.is_success:
            return None
        seen = (*seen, done.mark)
        if is_stuck(seen):
            return _blocked(command, done, "identical_failures")
        if attempt + 1 < MOST_GATES:
            part = _said(command, done)
            trouble = await talk(scene, f"gate/{attempt}/said", Words((scene.opening(), part), (part,)), resume=True)
            if trouble is not None:
                return trouble
    return _blocked(command, done, None)


def _said(command: str, done: Done) -> Part:
    code = "none" if done.exit_code is None else str(done.exit_code)
    output = "\n".join(text for text in (done.shown.rstrip(), done.failure) if text) or done.last_line
    return Part("ci_failed", {"command": command, "exit_code": code, "output": output})


def _blocked(command: str, done: Done, pattern: str | None) -> FailState:
    reason = f"The CI gate ({command}) failed: {done.last_line}"
    error = ends.error("unknown", reason, "Correct what it reports, then resume; the session stays.")
    return FailState(kind="gate", reason=reason, error=error, exit_code=done.exit_code, pattern=pattern)
