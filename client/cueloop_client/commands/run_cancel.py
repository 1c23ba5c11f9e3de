"""`cueloop run cancel`."""

from __future__ import annotations

from cueloop_client.commands.run_stop import ask_about_run
from cueloop_client.context import Context
from cueloop_client.shapes import text

CANCEL_SECONDS = 120.0
"""The agent is given time to end three times over (INT, TERM, KILL); the answer comes when no process of the run is left."""


def run(context: Context) -> int:
    """End the run now and wait until it has ended. Raises RpcError, and Failure if no run is active."""
    patient = Context(**{**vars(context), "seconds": max(context.seconds, CANCEL_SECONDS)})
    result = ask_about_run(patient, "run.cancel")
    if context.json:
        context.print_json(result)
    else:
        context.print(f"Run {text(result.get('run_id'))} is over. Its session and its task stay: cueloop session show")
    return 0
