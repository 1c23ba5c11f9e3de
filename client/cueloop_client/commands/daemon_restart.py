"""`cueloop daemon restart`."""

from __future__ import annotations

from cueloop_client.commands.daemon_stop import check_flags
from cueloop_client.control import restart
from cueloop_client.failures import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context
    from cueloop_client.successor import Replaced

SAID = {
    "started": "The daemon was started{who}.",
    "handover": "The daemon was replaced{who}; no caller was turned away.",
    "restart": "The daemon was replaced{who}.",
}


def run(context: Context) -> int:
    """Have this version's daemon run in the place of the one that runs; with --when-idle as soon as no run is active."""
    check_flags(context)
    when_idle = context.values.has("when-idle")
    if when_idle and (context.values.has("leave-runs") or context.values.has("cancel-runs")):
        raise Usage("--when-idle waits for the run: it goes with neither --leave-runs nor --cancel-runs.")
    _tell(context, _when_idle(context) if when_idle else restart(context))
    return 0


def _when_idle(context: Context) -> Replaced:
    """A run that begins in the last moment is waited for, too. Raises Silent at the deadline, with all as it was."""
    from cueloop_client.idle import Waiting
    from cueloop_client.successor import is_under_run

    waiting = Waiting(context)
    while True:
        waiting.until_idle()
        try:
            return restart(context)
        except Exception as exc:
            if not is_under_run(exc):
                raise


def _tell(context: Context, replaced: Replaced) -> None:
    if context.json:
        context.print_json({"running": True, "pid": replaced.pid, "started": True, "how": replaced.how})
    else:
        who = f" (process {replaced.pid})" if replaced.pid is not None else ""
        context.print(SAID[replaced.how].format(who=who))
