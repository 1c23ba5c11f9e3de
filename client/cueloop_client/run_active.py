"""Which run a command means: the one that is named, the active one, or the last one. Standard library only."""

from __future__ import annotations

from cueloop_client.failures import Failure
from cueloop_client.fast import change, read
from cueloop_client.shapes import answer, member, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.context import Context


def meant_run(context: Context, *, or_last: bool) -> dict[str, Any]:
    """The record of the run that `--run-id` names, else of the active one, else of the last one if `or_last`.

    Raises RpcError (`no_such_run`), and Failure if there is none.
    """
    named = context.values.text("run-id")
    if named is None:
        listed = answer(change(context, "run.list", {"limit": 1})).get("runs")
        newest = listed[0] if isinstance(listed, list) and listed else None
        if isinstance(newest, dict) and (or_last or text(newest.get("state")) != "finished"):
            return newest
        raise no_run(context, or_last=or_last)
    return member(change(context, "run.get", {"run_id": named}), "run")


def no_run(context: Context, *, or_last: bool) -> Failure:
    """That nothing runs here, and who else may be working."""
    if or_last:
        return Failure("No run was ever started here.", "Start one: cueloop run one")
    lock = answer(read(context, "config.resolve", {})).get("queue_lock")
    if isinstance(lock, dict) and lock.get("live") is True:
        return Failure(
            f"No run of this daemon is active; the queue is in use by another tool ({text(lock.get('label'), 'no label')}).",
            "To have its loop end after its task: cueloop machine run stop",
        )
    return Failure("No run is active here.", "The last one: cueloop run status")
