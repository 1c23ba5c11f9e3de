"""Every vector of decisions, overviews and queue dialects, in-process: files laid out, read and decided over as by the daemon."""

from __future__ import annotations

import importlib.util
import json
import types
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cueloop_daemon.core.controls import execution_controls
from cueloop_daemon.core.decide import decide
from cueloop_daemon.core.layers import read_layer, resolve
from cueloop_daemon.core.model import Paths, QueueFile, QueueMissing, SessionMissing, Snapshot, Unusable
from cueloop_daemon.core.overview import overview_document
from cueloop_daemon.core.request import PREVIEW, run_request
from cueloop_daemon.core.resolve import resolve_document
from cueloop_daemon.store.jsonc import JsoncError, read_json
from cueloop_daemon.store.queue_file import parse_queue
from cueloop_daemon.store.session_file import read_session
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.overview import OverviewDocument
from cueloop_protocol.documents.resolve import resolve_json

VECTORS = Path(__file__).parents[1] / "data" / "vectors"
NOW = datetime(2026, 2, 8, 12, 0, 0, 123456, tzinfo=UTC)


def _checker() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("vector_check", VECTORS / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = _checker()
BASE = json.loads((VECTORS / "base-document.json").read_text())


def _cases(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (VECTORS / f"{name}.jsonl").read_text().splitlines()]


def _lay(case: dict[str, object], work: Path) -> tuple[Path, Path]:
    root, home = work / "repo", work / "home"
    for base, key in ((root, "repo"), (home, "home")):
        base.mkdir()
        CHECK.lay(base, case.get(key, {}), str(root), str(home), NOW)
    CHECK.lay(root, case.get("after_commit", {}), str(root), str(home), NOW)
    return root, home


def _config(root: Path) -> Config | Unusable:
    file = root / ".cueloop" / "config.jsonc"
    try:
        return resolve([read_layer(str(file), read_json(file.read_bytes()))] if file.is_file() else [])
    except JsoncError as error:
        return Unusable("config_incompatible", str(error), None, str(file))


def _queue(file: Path) -> QueueFile | QueueMissing | Unusable:
    if file.is_dir():
        return Unusable("queue_corrupted", f"The queue file {file} is a folder.", None, str(file))
    return parse_queue(file.read_bytes(), str(file)) if file.exists() else QueueMissing(str(file))


def _snapshot(root: Path, home: Path) -> Snapshot:
    folder = root / ".cueloop"
    return Snapshot(
        paths=Paths(
            repo_root=str(root),
            queue_path=str(folder / "queue.jsonc"),
            done_path=str(folder / "done.jsonc"),
            project_config_path=str(folder / "config.jsonc"),
            global_config_path=str(home / ".config/cueloop/config.jsonc"),
        ),
        trusted=False,
        config=_config(root),
        controls=execution_controls(None, ()),
        session=read_session(str(folder / "cache" / "session.jsonc")),
        queue=_queue(folder / "queue.jsonc"),
        done=_queue(folder / "done.jsonc"),
        lock=None,
        active_run=None,
        settling=False,
        dirty=False,
        dirty_checked_at=None,
        revision=1,
    )


def _answer(case: dict[str, object], snapshot: Snapshot) -> bytes | Unusable:
    preview = decide(snapshot, PREVIEW, NOW)
    if case["argv"] == ["machine", "workspace", "overview"]:
        return overview_document(snapshot, preview, NOW)
    if isinstance(snapshot.queue, Unusable):
        return snapshot.queue
    return resolve_json(resolve_document(snapshot, preview))


def _judge(case: dict[str, object], work: Path, name: str) -> list[str]:
    root, home = _lay(case, work)
    session = root / ".cueloop" / "cache" / "session.jsonc"
    before = session.read_bytes() if session.is_file() else None
    answer = _answer(case, _snapshot(root, home))
    got: dict[str, object] = {"exit": 0, "out": "", "err": "", "now": NOW}
    if isinstance(answer, Unusable):
        error = {"version": 1, "code": answer.code, "message": answer.message, "detail": answer.detail, "retryable": False}
        got |= {"exit": 1, "err": json.dumps(error)}
    else:
        got["out"] = CHECK.unfill(answer.decode(), str(root), str(home))
    there = session.is_dir() or session.is_symlink() or session.is_file()
    if there:
        got["session_after"] = "unchanged" if before is None or session.read_bytes() == before else "written"
    wrong: list[str] = CHECK.judge(case, got, BASE, name)
    return wrong


def _ids(cases: list[dict[str, object]]) -> list[str]:
    return [str(case["id"]) for case in cases]


DECISIONS = _cases("decision")
OVERVIEWS = [case for case in _cases("overview") if case["argv"] == ["machine", "workspace", "overview"]]
DIALECTS = [case for case in _cases("dialect") if str(case["id"]).startswith("queue-")]


@pytest.mark.parametrize("case", DECISIONS, ids=_ids(DECISIONS))
def test_decision_vector(case: dict[str, object], tmp_path: Path) -> None:
    assert _judge(case, tmp_path, "decision") == []


@pytest.mark.parametrize("case", OVERVIEWS, ids=_ids(OVERVIEWS))
def test_overview_vector(case: dict[str, object], tmp_path: Path) -> None:
    assert _judge(case, tmp_path, "overview") == []


@pytest.mark.parametrize("case", DIALECTS, ids=_ids(DIALECTS))
def test_queue_dialect_vector(case: dict[str, object], tmp_path: Path) -> None:
    assert _judge(case, tmp_path, "dialect") == []


@pytest.mark.parametrize("case", OVERVIEWS, ids=_ids(OVERVIEWS))
def test_overview_fits_its_model(case: dict[str, object], tmp_path: Path) -> None:
    root, home = _lay(case, tmp_path)
    answer = _answer(case, _snapshot(root, home))
    if isinstance(answer, bytes):
        assert b"\n" not in answer
        printed = OverviewDocument.model_validate_json(answer).model_dump_json().encode()
        assert printed == answer


def _first_decision(case: dict[str, object]) -> dict[str, object] | None:
    """What a run vector says of the decision about the saved session; None where it says that there is none."""
    want = case.get("want", case["rust"])
    assert isinstance(want, dict)
    if "decision" in want:
        return dict(want["decision"])
    said = [
        event["payload"]
        for event in want["events"]
        if event["kind"] == "resume_decision" and event["payload"]["scope"] == "run_session"
    ]
    return CHECK.strip(said[0]) if said else None


def _says_decision(case: dict[str, object]) -> bool:
    want = case.get("want", case["rust"])
    return isinstance(want, dict) and ("decision" in want or "events" in want)


RUNS = [("one", case) for case in _cases("run-one") if _says_decision(case)]
RUNS += [("loop", case) for case in _cases("run-loop") if _says_decision(case)]


@pytest.mark.parametrize(("mode", "case"), RUNS, ids=[f"{mode}-{case['id']}" for mode, case in RUNS])
def test_run_vector_starts_with_its_decision(mode: str, case: dict[str, object], tmp_path: Path) -> None:
    root, home = _lay(case, tmp_path)
    snapshot = _snapshot(root, home)
    argv = case["argv"]
    assert isinstance(argv, list)
    task_id = argv[argv.index("--id") + 1] if "--id" in argv else None
    request = run_request("one" if mode == "one" else "loop", resume="--resume" in argv, task_id=task_id)
    decision = decide(snapshot, request, NOW)
    want = _first_decision(case)
    if want is None:
        assert decision is None
    else:
        assert decision is not None
        have = CHECK.strip(decision.model_dump())
        assert {key: have.get(key) for key in want} == want
        assert want != {}
    assert (decision is None) == (isinstance(snapshot.session, SessionMissing) and "--resume" not in argv)
