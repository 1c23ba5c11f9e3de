"""Every conformance vector about configuration, in this process: files → load_config → the resolve document or the error."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cueloop_daemon.core.model import QueueMissing, SessionMissing, Snapshot, Unusable
from cueloop_daemon.core.resolve import resolve_document
from cueloop_daemon.store.config_files import load_config
from cueloop_protocol.codes import error_document
from cueloop_protocol.documents.resolve import resolve_json
from cueloop_protocol.roots import caller_from_environment, open_root

VECTORS = Path(__file__).parent.parent / "data" / "vectors"


def _check_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vectors_check", VECTORS / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = _check_module()
GATED_SINCE = ("good-agent.git_publish_mode-1", "good-agent.git_publish_mode-2")
"""Recorded from a tool that lets any repository publish; contract section 4 and the trust vectors refuse it without trust."""
BASE = json.loads((VECTORS / "base-document.json").read_text())


def _cases() -> list[Any]:
    found = []
    for name in ("config", "trust", "plugin", "dialect"):
        for line in (VECTORS / f"{name}.jsonl").read_text().splitlines():
            case = json.loads(line)
            if name != "dialect" or case["id"].startswith("config-"):
                found.append(pytest.param(name, case, id=f"{name}:{case['id']}"))
    return found


def read(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None


def answer(case: dict[str, Any], work: Path) -> dict[str, Any]:
    """What the command would print and how it would exit, as `check.judge` wants it. The tree of these cases is always clean."""
    folder, home = work / "repo", work / "home"
    folder.mkdir()
    home.mkdir()
    now = dt.datetime.now(dt.UTC)
    check.lay(folder, case.get("repo", {}), str(folder), str(home), now)
    check.lay(home, case.get("home", {}), str(folder), str(home), now)
    environ = {"HOME": str(home), **{k: check.fill(v, str(folder), str(home), now) for k, v in case.get("env", {}).items()}}
    root, caller = open_root(os.path.join(folder, case.get("cwd", ""))), caller_from_environment(environ, str(home))
    state = load_config(root, caller, read)
    missing = QueueMissing(state.paths.queue_path)
    snapshot = Snapshot(
        state.paths, state.trusted, state.config, state.controls, SessionMissing(), missing, missing,
        lock=None, active_run=None, settling=False, dirty=False, dirty_checked_at=None, revision=1,
    )  # fmt: skip
    if isinstance(state.config, Unusable):
        document = error_document(state.config.code, state.config.message, state.config.detail)
        return {"exit": 1, "out": "", "err": check.unfill(json.dumps(document), str(folder), str(home)), "now": now}
    printed = resolve_json(resolve_document(snapshot, None), indent=2).decode()
    return {"exit": 0, "out": check.unfill(printed, str(folder), str(home)), "err": "", "now": now}


@pytest.mark.parametrize(("name", "case"), _cases())
def test_vector(name: str, case: dict[str, Any], tmp_path: Path) -> None:
    got = answer(case, tmp_path.resolve())
    if case["id"] in GATED_SINCE:
        assert check.error_of(got["err"])["code"] == "config_incompatible"
        assert "agent.git_publish_mode" in got["err"]
        return
    assert check.judge(case, got, BASE, name) == []


@pytest.mark.parametrize(
    ("name", "case"), [pytest.param(*c.values, id=c.id) for c in _cases() if c.values[1]["id"] in GATED_SINCE]
)
def test_vector_that_needs_trust_here(name: str, case: dict[str, Any], tmp_path: Path) -> None:
    trusted = json.loads(json.dumps(case))
    trusted["repo"][".cueloop/trust.jsonc"] = '{"allow_project_commands": true}'
    trusted["rust"]["document"]["set"].append(["/safety/repo_trusted", True])
    assert check.judge(trusted, answer(trusted, tmp_path.resolve()), BASE, name) == []
