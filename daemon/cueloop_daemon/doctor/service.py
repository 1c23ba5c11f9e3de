"""What the service manager says of this repository's units, as the command was told."""

from __future__ import annotations

from collections.abc import Iterator

from cueloop_daemon.doctor.kinds import found
from cueloop_daemon.doctor.sight import Sight
from cueloop_protocol.documents.doctor import Finding


def service(sight: Sight) -> Iterator[Finding]:
    """Units that are not well."""
    for fact in sight.asked.service:
        yield found("service-failed", f"{fact.unit}: {fact.problem}", fix=fact.remedy)
