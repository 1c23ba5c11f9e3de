"""`cueloop run stop`."""

from __future__ import annotations

from cueloop_client.fast import change
from cueloop_client.run_active import no_run
from cueloop_client.shapes import answer, text
from cueloop_protocol.codes import NO_SUCH_RUN, RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Ask for the end after the current task, and say so. Raises RpcError, and Failure if no run is active."""
    result = ask_about_run(context, "run.stop")
    if context.json:
        context.print_json(result)
    else:
        context.print(f"Run {text(result.get('run_id'))} ends after its current task.")
    return 0


def ask_about_run(context: Context, method: str) -> dict[str, Any]:
    """The result of a request about the run that is named, else the active one."""
    named = context.values.text("run-id")
    try:
        return answer(change(context, method, {} if named is None else {"run_id": named}))
    except RpcError as exc:
        if exc.code != NO_SUCH_RUN or named is not None:
            raise
    raise no_run(context, or_last=False)
