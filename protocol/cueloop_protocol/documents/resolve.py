"""The config-resolve document, version 5 (contract section 5). Clients validate it: no key may be added inside."""

from __future__ import annotations

from typing import Literal

from cueloop_protocol.base import Exactly, Maybe, Wire, to_json_bytes
from cueloop_protocol.documents.config import ApprovalMode, Config, PublishMode, RevertMode
from cueloop_protocol.documents.controls import ExecutionControls
from cueloop_protocol.documents.decision import Decision

RESOLVE_VERSION = 5


class DocumentPaths(Wire):
    """Where the files are, or would be: a path says nothing about existence."""

    repo_root: str
    queue_path: str
    done_path: str
    project_config_path: str
    global_config_path: str


class Safety(Wire):
    """What a person should see before a run is started."""

    repo_trusted: bool
    dirty_repo: bool
    git_publish_mode: PublishMode
    approval_mode: ApprovalMode
    ci_gate_enabled: bool
    git_revert_mode: RevertMode
    parallel_configured: bool
    execution_interactivity: Literal["noninteractive_streaming"]
    interactive_approval_supported: Literal[False]


class ResolveDocument(Wire):
    """Paths, safety, configuration, choices and, where there is something to say, what a run would do about a session."""

    version: Exactly[Literal[5]]
    paths: DocumentPaths
    safety: Safety
    config: Config
    execution_controls: ExecutionControls
    resume_preview: Maybe[Decision] = None


def resolve_json(document: ResolveDocument, *, indent: int | None = None) -> bytes:
    """The document as UTF-8 JSON in its order, absent keys left out; compact unless `indent` is given (2: as it is printed)."""
    return to_json_bytes(document, indent=indent)
