"""The conformance vectors and the program that judges them (`tests/data/vectors`)."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "vectors"
NAMES = ("decision", "config", "trust", "dialect", "root", "plugin", "overview")
GATED_SINCE = ("good-agent.git_publish_mode-1", "good-agent.git_publish_mode-2")
"""Recorded from a tool that lets any repository publish; contract section 4 and the trust vectors refuse it without trust."""

Case = dict[str, Any]


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vectors_check_e2e", FOLDER / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = _load()
BASE = json.loads((FOLDER / "base-document.json").read_text())


def cases(*names: str, every: int = 1) -> list[tuple[str, Case]]:
    """Each n-th case of these files."""
    return [
        (name, json.loads(line))
        for name in names or NAMES
        for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()[::every]
    ]


def complaints(name: str, case: Case, got: dict[str, Any]) -> list[str]:
    """What differs from the vector, with the two that the contract overrules judged by the contract."""
    if case["id"] not in GATED_SINCE:
        found: list[str] = check.judge(case, got, BASE, name)
        return found
    error = check.error_of(got["err"])
    if error is None or error["code"] != "config_incompatible" or "agent.git_publish_mode" not in got["err"]:
        return [f"{case['id']} should be refused without trust: {got}"]
    return []
