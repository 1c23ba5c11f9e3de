"""The conformance vectors: all by the code that answers without a daemon, a sample of them by real commands, both ways."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cueloop_client.calling import with_caller
from cueloop_daemon import direct
from cueloop_protocol.codes import RpcError
from cueloop_protocol.roots import caller_from_environment, find_root
from support.vectors import NAMES, Case, cases, check, complaints

METHOD = {
    ("machine", "config", "resolve"): "config.resolve",
    ("machine", "workspace", "overview"): "workspace.overview",
}
COMMAND = [sys.executable, "-P", "-m", "cueloop_client"]


def _play(case: Case, work: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """As `check.play` does it with a process: lay out, ask, and say what was told and what became of the session file."""
    root, home, now = work / "repo", work / "home", datetime.now(UTC)
    for folder, key in ((root, "repo"), (home, "home")):
        folder.mkdir()
        check.lay(folder, case.get(key, {}), str(root), str(home), now)
    if case.get("git", "none") != "none":
        check.git(root, "init", "-q", ".")
        if not (root / ".gitignore").exists():
            (root / ".gitignore").write_text(check.GITIGNORE)
        check.git(root, "add", "-A")
        check.git(root, "commit", "-q", "--allow-empty", "-m", "x")
    check.lay(root, case.get("after_commit", {}), str(root), str(home), now)
    file = root / check.SESSION
    before = _what_is_at(file)
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    environ |= {key: check.fill(value, str(root), str(home), now) for key, value in case.get("env", {}).items()}
    monkeypatch.chdir(root / case.get("cwd", ""))
    told = _ask(METHOD[tuple(case["argv"][:3])], environ)
    told = {key: check.unfill(value, str(root), str(home)) if isinstance(value, str) else value for key, value in told.items()}
    return {**told, "now": now, "session_after": "unchanged" if _what_is_at(file) == before else "changed"}


def _ask(method: str, environ: dict[str, str]) -> dict[str, Any]:
    root, caller = find_root(None), caller_from_environment(environ, environ["HOME"])
    try:
        result = direct.answer(method, with_caller(caller, method, {}), root, caller)
    except RpcError as exc:
        return {"exit": 1, "out": "", "err": json.dumps(exc.document)}
    return {"exit": 0, "out": json.dumps(result["document"], indent=2), "err": ""}


def _what_is_at(path: Path) -> object:
    try:
        found = path.lstat()
    except OSError:
        return None
    content = path.read_bytes() if stat.S_ISREG(found.st_mode) else b""
    return found.st_ino, found.st_mode, found.st_mtime_ns, content


def _is_reading(case: Case) -> bool:
    return tuple(case["argv"][:3]) in METHOD


def _params(is_wanted: Callable[[Case], bool]) -> list[Any]:
    return [pytest.param(name, case, id=f"{name}:{case['id']}") for name, case in cases() if is_wanted(case)]


@pytest.mark.parametrize(("name", "case"), _params(_is_reading))
def test_every_vector_in_this_process(name: str, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    got = _play(case, tmp_path.resolve(), monkeypatch)
    assert complaints(name, case, got) == []


@pytest.mark.parametrize(("name", "case"), _params(lambda case: not _is_reading(case)))
def test_every_vector_of_a_command_that_needs_no_daemon(name: str, case: Case) -> None:
    assert case["argv"][:3] == ["machine", "run", "stop"]
    assert complaints(name, case, check.play(COMMAND, case)) == []


def test_no_kind_of_vector_is_forgotten() -> None:
    found = cases()
    assert {name for name, _ in found} == set(NAMES)
    assert len({(name, case["id"]) for name, case in found}) == len(found) == 588


@pytest.mark.parametrize("options", [("--no-daemon",), ()], ids=["without-daemon", "by-daemons"])
def test_a_sample_of_vectors_by_commands(options: tuple[str, ...]) -> None:
    def judged(item: tuple[str, Case]) -> list[str]:
        name, case = item
        command = [*COMMAND, *options]
        got = check.play(command, case, stop=not options)
        return [f"{name} {case['id']}: {line}" for line in complaints(name, case, got)]

    with ThreadPoolExecutor(2) as pool:
        wrong = [line for lines in pool.map(judged, cases(every=12)) for line in lines]
    assert wrong == []
