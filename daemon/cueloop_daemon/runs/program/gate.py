"""The CI gate: after the last phase of an iteration. Its failures are said to the agent, in the agent's own session."""

from __future__ import annotations

import shlex

from cueloop_daemon.core.runs import ends
from cueloop_daemon.core.runs.repeat import MOST_GATES, SAME_GATES, fingerprint
from cueloop_daemon.runs.program.child import Done, both_ends, run_command
from cueloop_daemon.runs.program.talk import Scene, Trouble, talk


async def pass_gate(scene: Scene) -> Trouble | None:
    """Run the gate until it passes, ten times at most; three identical failures in a row are enough."""
    argv = tuple(scene.world.config.agent.ci_gate.argv)
    command = shlex.join(argv)
    seen: list[str] = []
    for attempt in range(MOST_GATES):
        done = await run_command(scene.journal, scene.world, f"gate/{attempt}", "ci", argv)
        if done.exit_code == 0:
            return None
        seen.append(fingerprint(done.exit_code, done.output))
        if len(seen) >= SAME_GATES and len(set(seen[-SAME_GATES:])) == 1:
            return _blocked(command, done, "identical_failures")
        if attempt + 1 < MOST_GATES:
            fields = {
                "command": command,
                "exit_code": "none" if done.exit_code is None else str(done.exit_code),
                "output": both_ends(done.output) or done.last_line,
            }
            trouble = await talk(scene, f"gate/{attempt}/said", "ci_failed", fields, resume=True)
            if trouble is not None:
                return trouble
    return _blocked(command, done, None)


def _blocked(command: str, done: Done, pattern: str | None) -> Trouble:
    reason = f"The CI gate ({command}) failed: {done.last_line}"
    error = ends.error("unknown", reason, "Correct what it reports, then resume; the session stays.")
    return Trouble("gate", error, reason, exit_code=done.exit_code, pattern=pattern)
