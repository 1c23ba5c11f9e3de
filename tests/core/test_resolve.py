"""The config-resolve document: order, safety, what is left out, and the refusal without a configuration."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cueloop_daemon.core.controls import execution_controls
from cueloop_daemon.core.layers import read_layer, resolve
from cueloop_daemon.core.model import Paths, QueueMissing, SessionMissing, Snapshot, Unusable
from cueloop_daemon.core.resolve import UnusableConfig, resolve_document, safety
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.resolve import ResolveDocument, resolve_json

PATHS = Paths("/r", "/r/.cueloop/queue.jsonc", "/r/.cueloop/done.jsonc", "/r/.cueloop/config.jsonc", "/h/config.jsonc")
DECISION = Decision(
    status="refusing_to_resume", scope="run_session", reason="session_cache_corrupt", message="Refused.", detail="Not JSON."
)


def config(**agent: Any) -> Config:
    return resolve([read_layer("/x", {"agent": agent})])


def snapshot(found: Config | Unusable, *, trusted: bool = False, dirty: bool = False) -> Snapshot:
    missing = QueueMissing(PATHS.queue_path)
    return Snapshot(
        PATHS, trusted, found, execution_controls(None, ()), SessionMissing(), missing, missing,
        lock=None, active_run=None, settling=False, dirty=dirty, dirty_checked_at=None, revision=1,
    )  # fmt: skip


def test_the_document_in_its_order() -> None:
    printed = json.loads(resolve_json(resolve_document(snapshot(config()), DECISION)))
    assert list(printed) == ["version", "paths", "safety", "config", "execution_controls", "resume_preview"]
    assert printed["version"] == 5
    assert list(printed["paths"].values()) == [
        "/r",
        PATHS.queue_path,
        PATHS.done_path,
        PATHS.project_config_path,
        "/h/config.jsonc",
    ]
    assert printed["resume_preview"] == DECISION.model_dump()
    assert "task_id" not in printed["resume_preview"]


def test_the_preview_is_left_out_when_there_is_nothing_to_say() -> None:
    assert "resume_preview" not in json.loads(resolve_json(resolve_document(snapshot(config()), None)))


def test_the_bytes_are_compact_or_pretty_and_the_same_document() -> None:
    document = resolve_document(snapshot(config()), DECISION)
    assert b"\n" not in resolve_json(document)
    assert resolve_json(document, indent=2).startswith(b'{\n  "version": 5,\n  "paths": {\n    "repo_root": "/r",')
    assert json.loads(resolve_json(document)) == json.loads(resolve_json(document, indent=2))
    assert ResolveDocument.model_validate_json(resolve_json(document)) == document


def test_the_bytes_never_hold_a_secret() -> None:
    assert b"hunter2" not in resolve_json(resolve_document(snapshot(config(webhook={"secret": "hunter2"})), None))


def test_safety_tells_what_is_configured() -> None:
    found = safety(
        resolve(
            [
                read_layer(
                    "/x",
                    {
                        "agent": {"git_publish_mode": "commit", "git_revert_mode": "enabled", "ci_gate": {"enabled": True}},
                        "parallel": {"workers": 2},
                    },
                )
            ]
        ),
        trusted=True,
        dirty=True,
    )
    assert found.model_dump() == {
        "repo_trusted": True,
        "dirty_repo": True,
        "git_publish_mode": "commit",
        "approval_mode": "default",
        "ci_gate_enabled": True,
        "git_revert_mode": "enabled",
        "parallel_configured": True,
        "execution_interactivity": "noninteractive_streaming",
        "interactive_approval_supported": False,
    }
    calm = safety(config(), trusted=False, dirty=False)
    assert (calm.repo_trusted, calm.dirty_repo, calm.ci_gate_enabled, calm.parallel_configured) == (False, False, False, False)


@pytest.mark.parametrize(
    ("runner", "cli", "mode"),
    [
        ("pi", {"runners": {"pi": {"approval_mode": "yolo"}}}, "yolo"),
        ("pi", {"runners": {"codex": {"approval_mode": "yolo"}}}, "default"),
        ("codex", {"runners": {"codex": {"plan_mode": "enabled"}}, "defaults": {"approval_mode": "safe"}}, "safe"),
        ("acme", {"runners": {"acme": {"approval_mode": "auto_edits"}}}, "auto_edits"),
    ],
)
def test_the_approval_mode_is_the_configured_runners_else_the_defaults(runner: str, cli: dict[str, Any], mode: str) -> None:
    assert safety(config(runner=runner, runner_cli=cli), trusted=False, dirty=False).approval_mode == mode


def test_without_a_configuration_there_is_no_document() -> None:
    unusable = Unusable("config_incompatible", "The config /x cannot be used.", None, "/x")
    with pytest.raises(UnusableConfig) as caught:
        resolve_document(snapshot(unusable), None)
    assert caught.value.unusable is unusable
    assert str(caught.value) == unusable.message
