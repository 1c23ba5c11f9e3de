"""`cueloop daemon stop`."""

from __future__ import annotations

from cueloop_client.control import stop
from cueloop_client.failures import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Stop the daemon and return when it is gone; none running is no failure."""
    check_flags(context)
    process = stop(context)
    if context.json:
        context.print_json({"running": False, "stopped": process is not None, **({"pid": process.pid} if process else {})})
    elif process is None:
        context.print("No daemon runs here.")
    else:
        context.print(f"The daemon (process {process.pid}) is stopped.")
    return 0


def check_flags(context: Context) -> None:
    """Raises Usage for two answers to one question."""
    if context.values.has("leave-runs") and context.values.has("cancel-runs"):
        raise Usage("--leave-runs and --cancel-runs contradict each other.")
