"""Every recorded run through the whole program, with the real runners and the vectors' scripted agents as real processes."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from pydantic_core import to_json

from cueloop_daemon.core.model import QueueFile, Unusable
from cueloop_daemon.runs.program import run_program
from cueloop_daemon.runs.state import State
from cueloop_protocol.codes import error_document
from cueloop_protocol.documents.summary import Summary
from cueloop_protocol.params import RunStartParams
from cueloop_protocol.roots import caller_from_environment, open_root
from runs.fakes import FakeShim, LockHeld, MemoryStore
from runs.program.world import Memory, TestWorld, run_as_child

VECTORS = Path(__file__).parents[2] / "data" / "vectors"


def _check_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vectors_check", VECTORS / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = _check_module()


def _cases() -> list[Any]:
    return [
        pytest.param(name, json.loads(line), id=f"{name}:{json.loads(line)['id']}")
        for name in ("run-one", "run-loop", "continue")
        for line in (VECTORS / f"{name}.jsonl").read_text().splitlines()
    ]


def params_of(argv: list[str], env: dict[str, str]) -> RunStartParams:
    """What the command line makes of these arguments."""
    given: dict[str, Any] = {"mode": argv[2], "env": env}
    overrides: dict[str, Any] = {}
    rest = iter(argv[3:])
    for word in rest:
        match word:
            case "--resume":
                given["resume"] = True
            case "--force":
                given["force"] = True
            case "--id":
                given["task_id"] = next(rest)
            case "--max-tasks":
                given["max_tasks"] = int(next(rest))
            case "--include-draft":
                overrides["include_draft"] = True
            case _:
                raise AssertionError(f"{word} is not known here")
    return RunStartParams.model_validate({**given, "overrides": overrides})


async def play(case: dict[str, Any], work: Path) -> dict[str, Any]:
    """Lay the case out, run the program, and give what `check.judge` looks at."""
    folder, home = work / "repo", work / "home"
    folder.mkdir()
    home.mkdir()
    now = dt.datetime.now(dt.UTC)
    where = (str(folder), str(home), now)
    check.lay(folder, case.get("repo", {}), *where)
    check.lay(home, case.get("home", {}), *where)
    if case.get("git", "none") != "none":
        check.git(folder, "init", "-q", ".")
        if not (folder / ".gitignore").exists():
            (folder / ".gitignore").write_text(check.GITIGNORE)
        check.git(folder, "add", "-A")
        check.git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    check.lay(folder, case.get("after_commit", {}), *where)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "NO_COLOR": "1"}
    env |= {key: check.fill(value, *where) for key, value in case.get("env", {}).items()}
    session = folder / check.SESSION
    before = session.read_bytes() if session.is_file() else None
    out, err, code = await _run(case, str(folder), env)
    got: dict[str, Any] = {"exit": code, "now": now, "out": check.unfill(out, *where[:2]), "err": check.unfill(err, *where[:2])}
    if session.is_file():
        got["session_after"] = "unchanged" if session.read_bytes() == before else "written"
        saved = json.loads(session.read_text()) if got["session_after"] == "written" else {}
        if saved:
            got["session_fields_after"] = {key: saved[key] for key in ("task_id", "current_phase", "iterations_completed")}
        else:
            try:
                saved = json.loads(session.read_text())
                got["session_fields_after"] = {key: saved[key] for key in ("task_id", "current_phase", "iterations_completed")}
            except (ValueError, KeyError):
                pass
    elif before is not None:
        got["session_after"] = "removed"
    calls = folder / ".fake/state/calls"
    if calls.is_file():
        got["calls"] = calls.read_text().splitlines()
    got["tasks_after"] = {}
    for name in ("queue", "done"):
        try:
            tasks = json.loads((folder / f".cueloop/{name}.jsonc").read_text())["tasks"]
            got["tasks_after"][name] = {task["id"]: task.get("status", "todo") for task in tasks}
        except (OSError, ValueError, KeyError, TypeError):
            pass
    return got


async def _run(case: dict[str, Any], folder: str, env: dict[str, str]) -> tuple[str, str, int]:
    root, caller = open_root(folder), caller_from_environment(env, env["HOME"])
    argv = [check.fill(word, folder, env["HOME"], dt.datetime.now(dt.UTC)) for word in case["argv"]]
    shim, memory = FakeShim(play=run_as_child(folder)), Memory()
    shim.held = _held(folder)
    try:
        world = TestWorld(root, caller, params_of(argv, env), env, shim, memory)
    except AssertionError:
        facts = await TestWorldless(root, caller).facts()
        assert isinstance(facts, Unusable)
        return "", json.dumps(error_document(facts.code, facts.message, facts.detail)), 1
    facts = await world.look()
    if not isinstance(facts.queue, QueueFile):
        assert isinstance(facts.queue, Unusable)
        return "", json.dumps(error_document(facts.queue.code, facts.queue.message, facts.queue.detail)), 1
    store = MemoryStore()
    journal = store.journal()
    state = await run_program(State(), journal, world)
    assert state.ending is not None
    summary = Summary(
        task_id=state.ending.task_id,
        exit_code=state.ending.exit_code,
        outcome=state.ending.outcome,
        blocking=state.ending.blocking,
    )
    events = [json.loads(one.params)["event"] for one in store.out]
    lines = [*(json.dumps(event) for event in events), to_json(summary).decode()]
    error = "" if state.ending.error is None else to_json(state.ending.error).decode()
    return "\n".join(lines) + "\n", error, state.ending.exit_code


class TestWorldless:
    """Only the configuration's state."""

    __test__ = False

    def __init__(self, root: Any, caller: Any) -> None:
        self.root, self.caller = root, caller

    async def facts(self) -> object:
        from cueloop_daemon.store.config_files import load_config
        from cueloop_daemon.workspace.files import read_regular

        await anyio.lowlevel.checkpoint()
        return load_config(self.root, self.caller, lambda path: read_regular(path)[0]).config


def _held(folder: str) -> LockHeld | None:
    lock = Path(folder, ".cueloop/lock")
    if not lock.is_dir():
        return None
    owner = lock / "owner"
    if not owner.exists():
        return LockHeld(None, None, None, False)
    words = dict(line.split(": ", 1) for line in owner.read_text().splitlines() if ": " in line)
    if not Path(f"/proc/{words['pid']}").exists():
        return None
    return LockHeld(int(words["pid"]), words["label"], words["started_at"], True)


@pytest.mark.parametrize(("name", "case"), _cases())
async def test_vector(name: str, case: dict[str, Any], tmp_path: Path) -> None:
    got = await play(case, Path(os.path.realpath(tmp_path)))
    assert check.judge(case, got, {}, name) == []
