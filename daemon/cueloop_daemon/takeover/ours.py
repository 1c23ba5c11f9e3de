"""What this version reads and writes, as a successor says it. Standard library only."""

from __future__ import annotations

from cueloop_daemon.events.sqlite import VERSION as EVENTS_SCHEMA
from cueloop_daemon.runs.schema import RECORD
from cueloop_daemon.runs.schema import VERSION as RUNS_SCHEMA
from cueloop_daemon.takeover.asking import Successor
from cueloop_protocol.version import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_daemon.takeover.succession import Runs


def this_version(runs: Runs = "refuse") -> Successor:
    """Us as a successor, and as what is here now."""
    return Successor(__version__, OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, EVENTS_SCHEMA, RUNS_SCHEMA, RECORD, runs)
