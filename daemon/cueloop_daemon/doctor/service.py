"""What the service manager says of this repository's units, as the command was told."""

from __future__ import annotations

from collections.abc import Iterator

from cueloop_daemon.doctor.kinds import found
from cueloop_daemon.doctor.sight import Sight
from cueloop_protocol.documents.doctor import Finding


def service(sight: Sight) -> Iterator[Finding]:
    """Units that failed."""
    for unit in sight.asked.service:
        if unit.state == "failed":
            yield found("service-failed", f"The unit {unit.unit} failed: {unit.detail or 'no reason given'}.")
