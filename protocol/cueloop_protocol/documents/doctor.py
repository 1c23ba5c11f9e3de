"""What `cueloop doctor --json` prints, version 1: what is wrong here, what the next runs would do, and which agents there are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cueloop_protocol.base import Exactly, Items, Maybe, Wire
from cueloop_protocol.documents.decision import Reason

Severity = Literal["error", "warning", "info"]
"""error: something here does not work. warning: it works, and something should be looked at. info: worth knowing."""

Area = Literal["place", "daemon", "session", "queue", "config", "runs", "agents", "service", "machine"]
PhaseName = Literal["plan", "implement", "review"]
Would = Literal["resume", "fresh", "refuse", "ask", "wait", "idle", "fail"]
"""What a run would do first. ask: at a terminal; where nobody can be asked it refuses. wait: something else is at work here."""


class Finding(Wire):
    """One thing that was found. `code` is of the closed list in docs/doctor.md, `fix` a command or an edit, `path` the file meant."""

    code: Annotated[str, Field(pattern=r"^[a-z]+(-[a-z]+)*$")]
    severity: Severity
    area: Area
    message: str
    cause: str
    fix: str
    path: Maybe[str] = None


class NextRun(Wire):
    """What a command would do now; `reason` is the decision's, `task_id` the task that would be run."""

    command: str
    would: Would
    task_id: Maybe[str] = None
    reason: Maybe[Reason] = None
    message: str
    detail: Maybe[str] = None


class WayOn(Wire):
    """One way to go on with the session that there is: what to type, and what it does."""

    name: Literal["resume", "fresh", "leave", "clear"]
    command: str
    effect: str


class DoctorPreview(Wire):
    """The session and what becomes of it. `words` are sentences for people; `age_seconds` is left out where it is not known."""

    session: Literal["missing", "loaded", "corrupt", "too_large", "too_new", "unreadable"]
    task_id: Maybe[str] = None
    age_seconds: Maybe[Annotated[int, Field(ge=0)]] = None
    words: Items[str]
    next: Items[NextRun]
    ways: Items[WayOn]


class AgentReport(Wire):
    """One agent CLI. `path` is left out where it is not installed, `version` where it was not asked or did not say.

    `used_for`: the phases that the configuration gives it. `tried` is the version that was tried; `traps` are known of the one found.
    """

    id: str
    name: str
    program: str
    path: Maybe[str] = None
    version: Maybe[str] = None
    problem: Maybe[str] = None
    tried: str
    used_for: Items[PhaseName]
    traps: Items[str]


class DaemonReport(Wire):
    """The daemon as it answered, or did not: `silent` did not answer in time, `unusable` answered nothing that helps."""

    state: Literal["none", "running", "silent", "unusable", "not_asked"]
    pid: Maybe[int] = None
    version: Maybe[str] = None
    detail: Maybe[str] = None


class RepositoryReport(Wire):
    """What was looked at. `is_repository`: it has a `.cueloop` folder."""

    path: str
    is_repository: bool
    daemon: DaemonReport


class DoctorDocument(Wire):
    """`healthy` is false where a finding is an error. The findings are in the order of their severity."""

    version: Exactly[Literal[1]] = 1
    healthy: bool
    observed_at: str
    repository: RepositoryReport
    preview: DoctorPreview
    agents: Items[AgentReport]
    findings: Items[Finding]

    @model_validator(mode="after")
    def _healthy_means_no_error(self) -> DoctorDocument:
        if self.healthy == any(finding.severity == "error" for finding in self.findings):
            raise PydanticCustomError("doctor_healthy", "healthy contradicts the findings")
        return self
