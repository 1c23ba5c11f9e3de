"""`cueloop daemon start`."""

from __future__ import annotations

from cueloop_client.control import Started, start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Start the daemon unless one runs, and say which process it is."""
    tell(context, start(context))
    return 0


def tell(context: Context, started: Started) -> None:
    """Say that the daemon runs."""
    if context.json:
        context.print_json({"running": True, "pid": started.pid, "started": started.anew})
    else:
        who = f" (process {started.pid})" if started.pid is not None else ""
        context.print(f"The daemon {'was started' if started.anew else 'was running already'}{who}.")
