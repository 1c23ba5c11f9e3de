"""The doctor's visit: look, make every check, and put it all into one document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cueloop_daemon.core.stamps import format_stamp
from cueloop_daemon.doctor.agents import reports
from cueloop_daemon.doctor.asked import Asked
from cueloop_daemon.doctor.daemon import report
from cueloop_daemon.doctor.kinds import found
from cueloop_daemon.doctor.look import look
from cueloop_daemon.doctor.past import past
from cueloop_daemon.doctor.preview import preview
from cueloop_daemon.doctor.sight import Sight
from cueloop_daemon.doctor.table import CHECKS, INSIDE
from cueloop_protocol.documents.doctor import DoctorDocument, Finding, RepositoryReport
from cueloop_protocol.roots import Caller, Root, shown

_ORDER = ("error", "warning", "info")


def doctor(
    root: Root, caller: Caller, uid: int, environ: Mapping[str, str], passwd_home: str, asked: Asked, **changed: Any
) -> DoctorDocument:
    """What is wrong here, what the next runs would do, and which agents there are. Writes nothing, starts no daemon.

    `changed` stands in for fields of `Sight`. Raises nothing for what the repository is.
    """
    sight = look(root, caller, uid, environ, passwd_home, asked, **changed)
    findings = examine(sight)
    return DoctorDocument(
        healthy=not any(finding.severity == "error" for finding in findings),
        observed_at=format_stamp(sight.now),
        repository=RepositoryReport(
            path=shown(root.path),
            is_repository=all(finding.code != "no-cueloop-folder" for finding in findings),
            daemon=report(sight),
        ),
        preview=preview(sight.facts, sight.now, is_dirty=sight.is_dirty, past=tuple(past(sight))),
        agents=reports(sight),
        findings=findings,
    )


def examine(sight: Sight) -> tuple[Finding, ...]:
    """All findings, errors first, each group in the order of the checks. A check that breaks is a finding itself."""
    findings: list[Finding] = []
    for check in CHECKS:
        if check in INSIDE and not sight.is_open:
            continue
        try:
            findings += check(sight)
        except Exception as exc:  # what one check does not survive must not hide what the others find
            name = f"{check.__module__.rpartition('.')[2]}.{check.__name__}"
            findings.append(found("check-failed", f"The check {name} failed: {type(exc).__name__}: {exc}"))
    return tuple(sorted(findings, key=lambda finding: _ORDER.index(finding.severity)))
