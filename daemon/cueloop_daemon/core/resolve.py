"""The config-resolve document of a snapshot (contract section 5)."""

from __future__ import annotations

from dataclasses import asdict

from cueloop_daemon.core.model import Paths, Snapshot, Unusable
from cueloop_protocol.documents.config import Agent, ApprovalMode, Config
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.resolve import DocumentPaths, ResolveDocument, Safety


class UnusableConfig(Exception):
    """The snapshot has no configuration to show; `unusable` says why, fit for the caller."""

    def __init__(self, unusable: Unusable) -> None:
        super().__init__(unusable.message)
        self.unusable = unusable


def resolve_document(snapshot: Snapshot, preview: Decision | None) -> ResolveDocument:
    """The whole document; `preview` is what a run would do about a session, None where there is nothing to say.

    Raises UnusableConfig while the configuration cannot be used.
    """
    if isinstance(snapshot.config, Unusable):
        raise UnusableConfig(snapshot.config)
    return ResolveDocument(
        version=5,
        paths=document_paths(snapshot.paths),
        safety=safety(snapshot.config, trusted=snapshot.trusted, dirty=snapshot.dirty),
        config=snapshot.config,
        execution_controls=snapshot.controls,
        resume_preview=preview,
    )


def document_paths(paths: Paths) -> DocumentPaths:
    """The paths as documents and answers print them."""
    return DocumentPaths(**asdict(paths))


def safety(config: Config, *, trusted: bool, dirty: bool) -> Safety:
    """What a person should see before a run is started."""
    agent = config.agent
    return Safety(
        repo_trusted=trusted,
        dirty_repo=dirty,
        git_publish_mode=agent.git_publish_mode,
        approval_mode=approval_mode(agent),
        ci_gate_enabled=agent.ci_gate.enabled,
        git_revert_mode=agent.git_revert_mode,
        parallel_configured=config.parallel.workers is not None,
        execution_interactivity="noninteractive_streaming",
        interactive_approval_supported=False,
    )


def approval_mode(agent: Agent) -> ApprovalMode:
    """The mode of the configured runner, else of the defaults, which the lowest layer always sets."""
    options = agent.runner_cli.runners.get(agent.runner)
    return (options and options.approval_mode) or agent.runner_cli.defaults.approval_mode or "default"
