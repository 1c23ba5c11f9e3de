"""Whether a successor may have what is here. Pure: values in, an error or nothing out."""

from __future__ import annotations

from cueloop_daemon.takeover.asking import Successor
from cueloop_protocol.codes import RpcError, run_active, version_mismatch

WAIT = "cueloop daemon restart --when-idle"


def refusal(ours: Successor, theirs: Successor, active_run: str | None) -> RpcError | None:
    """Why the successor may not take over, if so. `ours` says what is written here now.

    What an older version cannot read is never given to it: it would begin anew, without the events and runs that there are. A
    run that is under way is gone on with only by a version that understands its record.
    """
    versions = {"daemon": ours.version, "successor": theirs.version}
    if theirs.events_schema < ours.events_schema or theirs.runs_schema < ours.runs_schema:
        return version_mismatch(
            f"Version {theirs.version} cannot read what version {ours.version}, which runs here, has written.",
            versions,
            'Stay with the newer version, or see "Going back" in docs/operations.md.',
        )
    if active_run is None:
        return None
    if theirs.runs == "refuse":
        return run_active(active_run, stays=True)
    if theirs.runs == "leave" and theirs.record != ours.record:
        return version_mismatch(
            f"Version {theirs.version} cannot go on with run {active_run}, which version {ours.version} has begun.",
            versions,
            f"Let it end first ({WAIT}), or end it (cueloop daemon restart --cancel-runs).",
        )
    return None
