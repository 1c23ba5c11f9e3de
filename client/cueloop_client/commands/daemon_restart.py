"""`cueloop daemon restart`."""

from __future__ import annotations

from cueloop_client.commands.daemon_start import tell
from cueloop_client.commands.daemon_stop import check_flags
from cueloop_client.control import start, stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Stop the daemon of whatever version, if one runs, and start this one."""
    check_flags(context)
    stop(context)
    tell(context, start(context))
    return 0
