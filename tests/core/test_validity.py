"""The rules of a queue: one test of each kept and each broken, alone and across both files; and circles of any length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.core.checked import CheckedQueue
from cueloop_daemon.core.graph import cycle_member
from cueloop_daemon.core.model import QueueFile
from cueloop_daemon.core.validity import broken_rule
from decision_world import STAMP, queue, task


def broken(tasks: QueueFile, done: QueueFile | None = None, prefix: str = "RQ", width: int = 4) -> str | None:
    return broken_rule(tasks, done, prefix, width)


GOOD: list[CheckedQueue] = [
    queue(),
    queue(task(1), task(2, "doing", depends_on=["RQ-0001"])),
    queue(task(1, id=" rq-0001 "), task(2, id="Rq - 0002")),
    queue(task(1, depends_on=["", "  "], blocks=[" "], relates_to=[""])),
    queue(task(1), task(1, "rejected")),
    queue(task(1, "rejected"), task(1, "rejected")),
    queue(task(1, parent_id="RQ-0404"), task(2, parent_id="RQ-0002"), task(3, parent_id=" ")),
    queue(task(1, agent={"phases": 1, "iterations": 1}), task(2, agent={})),
    queue(task(1, created_at=" 2024-02-29T00:00:00+00:00 ", updated_at="2026-01-31 10:00:00.5z")),
    queue(task(1, "done", completed_at="2026-12-31T23:59:59Z")),
    queue(task(1, custom_fields={"a.b": "c", " d ": "e"}, tags=["a b"], scheduled_start="soon", started_at="x")),
    queue(task(1, depends_on=["RQ-0002", "RQ-0003"]), task(2, depends_on=["RQ-0003"]), task(3)),
    queue(task(1, id="RQ-0001", title="a")),
]


@pytest.mark.parametrize("tasks", GOOD, ids=range(len(GOOD)))
def test_a_queue_that_keeps_the_rules(tasks: CheckedQueue) -> None:
    assert broken(tasks) is None


BROKEN: list[tuple[list[dict[str, object]], list[str]]] = [
    ([task(1, id="")], ["Task 1", "''"]),
    ([task(1), task(2, id="RQ0002")], ["Task 2", "'RQ0002'"]),
    ([task(1, id="RQ-00a1")], ["'RQ-00a1'"]),
    ([task(1, id="RQ-")], ["'RQ-'"]),
    ([task(1, id="RQ-X-0001")], ["'RQ-X-0001'"]),
    ([task(1, id="RQ-٠٠٠١")], ["prefix, a dash and a number"]),
    ([task(1, id="AB-0001")], ["AB-0001", "RQ-0001"]),
    ([task(1, id="RQ-001")], ["RQ-001", "like RQ-0001"]),
    ([task(1, title="  ")], ["RQ-0001", "title"]),
    ([task(1, tags=["a", " "])], ["RQ-0001", "tags"]),
    ([task(1, scope=[""])], ["scope"]),
    ([task(1, evidence=[""])], ["evidence"]),
    ([task(1, plan=[""])], ["plan"]),
    ([task(1, custom_fields={" ": "x"})], ["custom field"]),
    ([task(1, custom_fields={"a b": "x"})], ["custom field", "'a b'"]),
    ([task(1, created_at=None)], ["RQ-0001", "no created_at"]),
    ([task(1, updated_at=None)], ["no updated_at"]),
    ([task(1, created_at="yesterday")], ["created_at", "'yesterday'"]),
    ([task(1, created_at="0000-01-01T00:00:00Z")], ["created_at"]),
    ([task(1, created_at="2026-02-30T00:00:00Z")], ["created_at"]),
    ([task(1, updated_at="2026-02-07T10:00:00+02:00")], ["updated_at", "UTC"]),
    ([task(1, "done", completed_at=None)], ["no completed_at"]),
    ([task(1, "rejected", completed_at=None)], ["no completed_at"]),
    ([task(1, completed_at="x")], ["completed_at"]),
    ([task(1, agent={"iterations": 0})], ["agent.iterations 0"]),
    ([task(1, agent={"phases": 0})], ["agent.phases 0"]),
    ([task(1, agent={"phases": 4})], ["agent.phases 4"]),
    ([task(1), task(1, "doing")], ["RQ-0001", "more than one"]),
    ([task(1), task(1, id=" RQ-0001 ")], ["RQ-0001", "more than one"]),
    ([task(1, depends_on=["RQ-0001"])], ["RQ-0001", "itself", "depends_on"]),
    ([task(1, blocks=["RQ-0001"])], ["itself", "blocks"]),
    ([task(1, relates_to=[" RQ-0001"])], ["itself", "relates_to"]),
    ([task(1, duplicates="RQ-0001")], ["itself", "duplicates"]),
    ([task(1, depends_on=["RQ-0404"])], ["RQ-0001", "RQ-0404", "depends_on"]),
    ([task(1, depends_on=["rq-0002"]), task(2)], ["rq-0002"]),
    ([task(1, blocks=["RQ-0404"])], ["RQ-0404", "blocks"]),
    ([task(1, relates_to=["RQ-0404"])], ["RQ-0404", "relates_to"]),
    ([task(1, duplicates="RQ-0404")], ["RQ-0404", "duplicates"]),
    ([task(1, duplicates=" ")], ["a blank id", "duplicates"]),
    ([task(1, depends_on=["RQ-0002"]), task(2, depends_on=["RQ-0001"])], ["circle", "dependencies"]),
    ([task(1, blocks=["RQ-0002"]), task(2, blocks=["RQ-0001"])], ["circle", "blocking"]),
    ([task(1, parent_id="RQ-0002"), task(2, parent_id="RQ-0001")], ["circle", "parents"]),
]


@pytest.mark.parametrize(("tasks", "words"), BROKEN, ids=[" ".join(words) for _, words in BROKEN])
def test_a_queue_that_breaks_a_rule(tasks: list[dict[str, object]], words: list[str]) -> None:
    sentence = broken(queue(*tasks))
    assert sentence is not None
    for word in words:
        assert word in sentence


def test_the_form_of_ids_is_the_configurations() -> None:
    tasks = queue(task(1, id="ABC-12"))
    assert broken(tasks, None, " abc ", 2) is None
    assert broken(tasks, None, "ABC", 3) == "Task ABC-12 should have an id like ABC-001, as the configuration says."
    assert "prefix, a dash" in (broken(queue(task(1, id="RQ-4294967296")), None, "RQ", 10) or "")
    assert broken(queue(task(1, id="RQ-4294967295")), None, "RQ", 10) is None


ACROSS: list[tuple[CheckedQueue, CheckedQueue, list[str] | None]] = [
    (queue(task(1, depends_on=["RQ-0002"])), queue(task(2, "done")), None),
    (queue(task(1), task(3, "rejected")), queue(task(1, "rejected"), task(3, "done")), None),
    (queue(task(1)), queue(task(2, "done", relates_to=["RQ-0001"])), None),
    (queue(task(1)), queue(task(1, "done")), ["RQ-0001", "in the queue and in the done file"]),
    (queue(task(1)), queue(task(2, "todo")), ["RQ-0002", "neither done nor rejected"]),
    (queue(task(1)), queue(task(2, "done", title=" ")), ["RQ-0002", "title"]),
    (queue(task(1)), queue(task(2, "done", id="AB-0002")), ["AB-0002"]),
    (queue(task(1)), queue(task(2, "done", depends_on=["RQ-0404"])), ["RQ-0002", "RQ-0404"]),
    (queue(task(1, depends_on=["RQ-0404"])), queue(task(2, "done")), ["RQ-0001", "RQ-0404"]),
    (queue(task(1, depends_on=["RQ-0002"])), queue(task(2, "done", depends_on=["RQ-0001"])), ["circle", "dependencies"]),
    (queue(task(1, blocks=["RQ-0002"])), queue(task(2, "done", blocks=["RQ-0001"])), ["circle", "blocking"]),
    (queue(task(1, parent_id="RQ-0002")), queue(task(2, "done", parent_id="RQ-0001")), ["circle", "parents"]),
]


@pytest.mark.parametrize(("tasks", "done", "words"), ACROSS, ids=range(len(ACROSS)))
def test_rules_across_both_files(tasks: CheckedQueue, done: CheckedQueue, words: list[str] | None) -> None:
    sentence = broken(tasks, done)
    if words is None:
        assert sentence is None
    else:
        assert sentence is not None
        for word in words:
            assert word in sentence


def test_rows_without_findings_are_taken_as_they_are() -> None:
    assert broken(QueueFile(rows=(), index={}, rendered=b"[]")) is None


@pytest.mark.parametrize(
    ("relation", "members"),
    [
        ({}, set[str]()),
        ({"a": ["b"], "b": ["c"]}, set[str]()),
        ({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}, set[str]()),
        ({"a": ["a"]}, {"a"}),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, {"b", "c"}),
        ({"x": ["y"], "y": [], "a": ["x", "b"], "b": ["a"]}, {"a", "b"}),
    ],
    ids=range(6),
)
def test_a_circle_is_found_by_a_member(relation: dict[str, list[str]], members: set[str]) -> None:
    found = cycle_member(relation)
    assert found in members if members else found is None


def test_a_chain_of_any_length_is_walked() -> None:
    chain = {str(number): [str(number + 1)] for number in range(100_000)}
    assert cycle_member(chain) is None
    assert cycle_member(chain | {"100000": ["0"]}) is not None


NODES = st.sampled_from("abcde")


@given(st.dictionaries(NODES, st.lists(NODES, max_size=4)))
def test_a_circle_is_found_exactly_where_a_node_reaches_itself(relation: dict[str, list[str]]) -> None:
    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        pending = list(relation.get(start, []))
        while pending:
            node = pending.pop()
            if node not in seen:
                seen.add(node)
                pending += relation.get(node, [])
        return seen

    circular = {node for node in relation if node in reached(node)}
    found = cycle_member(relation)
    assert (found in circular) if circular else found is None


def test_what_a_file_is_checked_for_is_kept_with_it() -> None:
    tasks = queue(
        task(1, "done", depends_on=["RQ-0009"], blocks=[" RQ-0002 "]),
        task(2, "rejected"),
        task(3, parent_id="RQ-0001", updated_at=STAMP),
    )
    assert tasks.problem is None
    assert tasks.forms == {("RQ", 4): "RQ-0001"}
    assert tasks.outside == (("RQ-0001", "depends_on", "RQ-0009"),)
    assert tasks.open_task == "RQ-0003"
    assert tasks.rejected == {"RQ-0002"}
    assert tasks.blocks == {"RQ-0001": ("RQ-0002",)}
    assert tasks.parents == {"RQ-0003": "RQ-0001"}
    assert tasks.first_draft is None
