"""The workspace overview as bytes, and the files without which there is none."""

from __future__ import annotations

import json

import pytest

from cueloop_daemon.core.decide import decide
from cueloop_daemon.core.model import QueueFile, QueueMissing, Snapshot, TaskRow, Unusable
from cueloop_daemon.core.overview import overview_document
from cueloop_daemon.core.request import PREVIEW
from cueloop_protocol.documents.overview import OverviewDocument
from decision_world import NOW, loaded, queue, snapshot, task

BROKEN = Unusable("queue_corrupted", "It cannot be read.", None, "/repo/x.jsonc")


def document(facts: Snapshot) -> dict[str, object]:
    answer = overview_document(facts, decide(facts, PREVIEW, NOW), NOW)
    assert isinstance(answer, bytes)
    assert OverviewDocument.model_validate_json(answer).model_dump_json().encode() == answer
    parsed: dict[str, object] = json.loads(answer)
    return parsed


def test_the_overview_has_both_files_the_report_and_the_configuration_in_order() -> None:
    facts = snapshot(loaded(), queue(task(1, "doing"), task(2, depends_on=["RQ-0003"])), done=queue(task(3, "done")))
    found = document(facts)
    assert list(found) == ["version", "queue", "config"]
    part = found["queue"]
    assert isinstance(part, dict)
    assert list(part) == ["version", "paths", "active", "done", "next_runnable_task_id", "runnability"]
    assert [row["id"] for row in part["active"]["tasks"]] == ["RQ-0001", "RQ-0002"]
    assert [row["id"] for row in part["done"]["tasks"]] == ["RQ-0003"]
    assert part["next_runnable_task_id"] == "RQ-0002"
    assert part["paths"]["repo_root"] == "/repo"
    config = found["config"]
    assert isinstance(config, dict)
    assert config["resume_preview"]["reason"] == "session_valid"


def test_without_work_and_done_file_there_is_no_next_task() -> None:
    part = document(snapshot(None, queue()))["queue"]
    assert isinstance(part, dict)
    assert list(part) == ["version", "paths", "active", "done", "runnability"]
    assert part["done"] == {"version": 1, "tasks": []}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (snapshot(settings=Unusable("config_incompatible", "The configuration.", None, "/c")), "The configuration."),
        (snapshot(None, QueueMissing("/repo/.cueloop/queue.jsonc")), "/repo/.cueloop/queue.jsonc"),
        (snapshot(None, BROKEN), "It cannot be read."),
        (snapshot(done=BROKEN), "It cannot be read."),
    ],
    ids=["config", "missing", "queue", "done"],
)
def test_a_file_that_is_needed_and_cannot_be_used_is_the_answer(facts: Snapshot, message: str) -> None:
    answer = overview_document(facts, None, NOW)
    assert isinstance(answer, Unusable)
    assert message in answer.message


def test_a_queue_that_is_not_valid_still_has_an_overview() -> None:
    part = document(snapshot(None, queue(task(1), task(1))))["queue"]
    assert isinstance(part, dict)
    assert len(part["active"]["tasks"]) == 2
    assert part["runnability"]["tasks"] == []
    assert part["runnability"]["summary"]["blocking"]["reason"]["kind"] == "operator_recovery"


def test_rows_without_findings_are_reported_too() -> None:
    row = TaskRow("RQ-0001", "draft", "work_item", "t", (), None)
    answer = overview_document(snapshot(None, QueueFile((row,), {"RQ-0001": 0}, b"[]")), None, NOW)
    assert isinstance(answer, bytes)
    assert json.loads(answer)["queue"]["runnability"]["summary"]["blocking"]["reason"]["kind"] == "idle"
