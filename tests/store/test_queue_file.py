"""Queue and done files: what is read, what is refused and how, how tasks are printed, and the way through a worker."""

from __future__ import annotations

import gc
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.core.checked import CheckedQueue
from cueloop_daemon.core.model import TaskRow, Unusable
from cueloop_daemon.store.explain import quoted
from cueloop_daemon.store.queue_file import pack_queue, parse_queue, unpack_queue
from cueloop_protocol.documents.queue import QueueDocument

PATH = "/repo/.cueloop/queue.jsonc"
STAMP = "2026-02-07T10:00:00.000000000Z"
BARE = {"id": "RQ-0001", "title": "One"}
FULL: dict[str, object] = {
    "id": "RQ-0001",
    "status": "doing",
    "kind": "group",
    "title": "Ünïcode ✓",
    "description": "d",
    "priority": "critical",
    "tags": ["a"],
    "scope": ["b"],
    "evidence": ["c"],
    "plan": ["d"],
    "notes": ["e"],
    "request": "r",
    "agent": {
        "runner": "codex",
        "model": "m",
        "model_effort": "high",
        "phases": 2,
        "iterations": 1,
        "followup_reasoning_effort": "low",
        "cursor": {"model_params": {"x": True, "y": "z"}, "setting_sources": ["all", "mdm"]},
        "runner_cli": {"output_format": "json", "sandbox": "disabled"},
        "phase_overrides": {"phase2": {"runner": "pi", "reasoning_effort": "xhigh"}},
    },
    "created_at": STAMP,
    "updated_at": STAMP,
    "completed_at": STAMP,
    "started_at": STAMP,
    "estimated_minutes": 0,
    "actual_minutes": 2**32 - 1,
    "scheduled_start": STAMP,
    "depends_on": ["RQ-0002"],
    "blocks": ["RQ-0003"],
    "relates_to": ["RQ-0004"],
    "duplicates": "RQ-0005",
    "custom_fields": {"z": "1", "a": "2"},
    "parent_id": "RQ-0006",
}


def parse(*tasks: object, **top: object) -> CheckedQueue | Unusable:
    return parse_queue(json.dumps({"version": 1, "tasks": tasks} | top).encode(), PATH)


def usable(*tasks: object, **top: object) -> CheckedQueue:
    found = parse(*tasks, **top)
    assert isinstance(found, CheckedQueue), found
    return found


def test_a_bare_task_is_printed_with_what_is_always_printed() -> None:
    assert json.loads(usable(BARE).rendered) == [
        BARE
        | {"status": "todo", "priority": "medium", "custom_fields": {}}
        | {name: [] for name in ("tags", "scope", "evidence", "plan", "notes", "depends_on", "blocks", "relates_to")}
    ]


def test_a_full_task_is_printed_as_it_is_and_in_the_contracts_order() -> None:
    shuffled = dict(reversed(FULL.items()))
    assert usable(shuffled).rendered == json.dumps([FULL], ensure_ascii=False, separators=(",", ":")).encode()


def test_what_is_printed_is_one_line() -> None:
    assert b"\n" not in usable(BARE | {"description": "a\nb\r\n\u2028c"}).rendered


def test_rows_have_what_decisions_need() -> None:
    found = usable(FULL, BARE | {"id": " RQ-0002 "}, BARE | {"id": "RQ-0002", "title": "Two"}, BARE | {"id": " "})
    assert found.rows[0] == TaskRow("RQ-0001", "doing", "group", "Ünïcode ✓", ("RQ-0002",), STAMP)
    assert found.rows[1] == TaskRow(" RQ-0002 ", "todo", "work_item", "One", (), None)
    assert found.index == {"RQ-0001": 0, "RQ-0002": 1}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        ("true", "true"),
        ("false", "false"),
        ("1", "1"),
        ("-7", "-7"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "1.8446744073709552e19"),
        ("1.0", "1.0"),
        ("0.1", "0.1"),
        ("1e15", "1000000000000000.0"),
        ("1e16", "1e16"),
        ("1.5e300", "1.5e300"),
        ("1e-5", "0.00001"),
        ("-2.5e-5", "-0.000025"),
        ("1e-4", "0.0001"),
        ("1e-7", "1e-7"),
        ("-1.25e-10", "-1.25e-10"),
    ],
)
def test_custom_fields_become_text_and_keep_their_order(value: str, text: str) -> None:
    spelled = json.dumps(value) if value == "a" else value
    data = f'{{"version":1,"tasks":[{{"id":"RQ-0001","title":"t","custom_fields":{{"z":{spelled},"a":"x"}}}}]}}'
    found = parse_queue(data.encode(), PATH)
    assert isinstance(found, CheckedQueue)
    assert list(json.loads(found.rendered)[0]["custom_fields"].items()) == [("z", text), ("a", "x")]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_as_text_is_the_same_number(number: float) -> None:
    found = usable(BARE | {"custom_fields": {"n": number}})
    text = json.loads(found.rendered)[0]["custom_fields"]["n"]
    assert float(text) == number
    assert math.copysign(1, float(text)) == math.copysign(1, number)
    assert "+" not in text


def test_missing_tasks_are_none_and_a_schema_link_is_allowed() -> None:
    for data in (b'{"version":1}', b'{"$schema":"x","version":1,"tasks":[]}', b"\xef\xbb\xbf// c\n{version: 0x1, tasks: [],}"):
        found = parse_queue(data, PATH)
        assert isinstance(found, CheckedQueue), found
        assert (found.rows, found.rendered) == ((), b"[]")


BAD: list[tuple[object, list[str]]] = [
    ({"tasks": []}, ["version", "missing"]),
    ({"version": "1", "tasks": []}, ["version", '"1"', "whole number"]),
    ({"version": True, "tasks": []}, ["version", "true", "whole number"]),
    ({"version": 2, "tasks": []}, ["version", "2", "allowed is 1"]),
    ({"version": 1, "tasks": [], "extra": 1}, ["extra", "no known key", "version, tasks"]),
    ({"version": 1, "tasks": {}}, ["tasks", "{}", "a list"]),
    ({"version": 1, "tasks": None}, ["tasks", "null", "a list"]),
    ([1, []], ["[1, []]", "an object"]),
    ({"version": 1, "tasks": ["RQ-0001"]}, ["tasks[0]", '"RQ-0001"', "an object"]),
    ({"version": 1, "tasks": [["RQ-0001", "t"]]}, ["tasks[0]", "an object"]),
    ({"version": 1, "tasks": [{"title": "x"}]}, ["tasks[0].id", "missing"]),
    ({"version": 1, "tasks": [{"id": "RQ-0001"}]}, ["tasks[0].title", "missing", "RQ-0001"]),
]
BAD_FIELDS: list[tuple[str, object, str, list[str]]] = [
    ("extra", 1, "extra", ["no known key", "depends_on"]),
    ("kind", None, "kind", ["null", "work_item"]),
    ("kind", "epic", "kind", ['"epic"', "work_item or group"]),
    ("status", "Doing", "status", ['"Doing"', "draft, todo, doing, done or rejected"]),
    ("status", None, "status", ["null"]),
    ("priority", "urgent", "priority", ['"urgent"', "critical, high, medium or low"]),
    ("tags", "a", "tags", ['"a"', "a list"]),
    ("tags", None, "tags", ["null", "a list"]),
    ("plan", [1], "plan[0]", ["1", "a text"]),
    ("title", 5, "title", ["5", "a text"]),
    ("estimated_minutes", -1, "estimated_minutes", ["-1", "from 0 on"]),
    ("estimated_minutes", 2**32, "estimated_minutes", ["4294967296", "up to 4294967295"]),
    ("estimated_minutes", 1.0, "estimated_minutes", ["1.0", "whole number"]),
    ("estimated_minutes", True, "estimated_minutes", ["true", "whole number"]),
    ("custom_fields", {"a": None}, "custom_fields.a", ["null", "a text, a number or a boolean"]),
    ("custom_fields", {"a": [1]}, "custom_fields.a", ["[1]"]),
    ("custom_fields", {"a": 10**400}, "custom_fields.a", ["finite"]),
    ("custom_fields", "q", "custom_fields", ['"q"', "an object"]),
    ("custom_fields", None, "custom_fields", ["null", "an object"]),
    ("agent", {"x": 1}, "agent.x", ["no known key", "model_effort"]),
    ("agent", {"phases": 300}, "agent.phases", ["300", "up to 255"]),
    ("agent", {"runner": " "}, "agent.runner", ["not blank"]),
    ("agent", {"model_effort": "max"}, "agent.model_effort", ['"max"', "xhigh"]),
    ("agent", {"runner_cli": {"x": 1}}, "agent.runner_cli.x", ["no known key", "sandbox"]),
    ("agent", {"cursor": {"setting_sources": ["me"]}}, "agent.cursor.setting_sources[0]", ['"me"', "plugins"]),
    ("agent", {"phase_overrides": {"phase4": {}}}, "agent.phase_overrides.phase4", ["no known key"]),
    ("parent_id", 7, "parent_id", ["7", "a text"]),
]
BAD += [
    ({"version": 1, "tasks": [BARE, BARE | {"id": "RQ-0002", key: value}]}, ["tasks[1]." + path, "RQ-0002", *words])
    for key, value, path, words in BAD_FIELDS
]


@pytest.mark.parametrize(("value", "words"), BAD, ids=[" ".join(words[:2]) for _, words in BAD])
def test_a_file_that_does_not_fit_is_told_with_file_key_value_and_what_is_allowed(value: object, words: list[str]) -> None:
    found = parse_queue(json.dumps(value).encode(), PATH)
    assert isinstance(found, Unusable)
    assert (found.code, found.path) == ("queue_corrupted", PATH)
    assert PATH in found.message
    for word in words:
        assert word in f"{found.message} {found.detail}"


@pytest.mark.parametrize(
    ("data", "line", "word"),
    [
        (b"", 1, "empty"),
        (b" \n", 1, "empty"),
        (b"// x\n", 1, "comments"),
        (b"{", 1, "ends"),
        (b'{\n"version": 1,,\n"tasks": []}', 2, ""),
        (b'{\n"version": NaN}', 2, ""),
        (b'{"version": 1}\n{}', 2, ""),
        (b'{"version": 1,\n\n "version": 1}', 3, '"version"'),
        (b'{"version": 1, "tasks": "\xe9"}', 1, "UTF-8"),
        (b'{"x":' + b"[" * 5000, 1, "deep"),
    ],
    ids=["empty", "blank", "comment", "brace", "comma", "nan", "two", "twice", "latin1", "deep"],
)
def test_a_file_that_cannot_be_read_is_told_with_file_and_line(data: bytes, line: int, word: str) -> None:
    found = parse_queue(data, PATH)
    assert isinstance(found, Unusable)
    assert found.code == "queue_corrupted"
    assert PATH in found.message
    assert f"line {line}, " in (found.detail or "")
    assert word in found.message


def test_a_number_that_python_does_not_write_is_told_too() -> None:
    assert quoted({"title": 16**8000}) == "a value with a very large number"


def test_more_errors_are_counted_and_long_values_cut() -> None:
    found = parse({"id": "RQ-0001", "title": 1, "tags": "t" * 10_000})
    assert isinstance(found, Unusable)
    assert "1 more" in found.message
    found = parse({"id": "RQ-0001", "title": "t", "tags": "t" * 10_000})
    assert isinstance(found, Unusable)
    assert len(found.message) < 300


@pytest.mark.parametrize("tasks", [[1], [{"id": 3, "title": "t", "x": 1}], [{"id": " ", "title": "t", "x": 1}], {"a": 1}])
def test_a_task_without_a_name_is_told_by_its_position(tasks: object) -> None:
    found = parse_queue(json.dumps({"version": 1, "tasks": tasks}).encode(), PATH)
    assert isinstance(found, Unusable)
    assert found.detail is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
)


@given(st.dictionaries(st.sampled_from([*FULL, "extra"]), JSON))
def test_no_task_makes_the_reader_fail_and_what_it_prints_it_reads(changes: dict[str, object]) -> None:
    found = parse(BARE | changes)
    if isinstance(found, CheckedQueue):
        again = parse_queue(b'{"version":1,"tasks":' + found.rendered + b"}", PATH)
        assert again == found


@pytest.mark.parametrize(
    "data",
    [
        json.dumps({"version": 1, "tasks": [FULL, BARE, BARE, {"id": "RQ-0009", "title": "t", "status": "rejected"}]}).encode(),
        json.dumps({"version": 1, "tasks": [BARE | {"status": "draft", "parent_id": "x"}]}).encode(),
        b'{"version":1}',
        b"{",
    ],
    ids=["full", "draft", "empty", "broken"],
)
def test_a_queue_comes_through_the_worker_unchanged(data: bytes) -> None:
    assert unpack_queue(pack_queue(data, PATH)) == parse_queue(data, PATH)


def test_the_collector_rests_only_while_packing() -> None:
    assert gc.isenabled()
    pack_queue(b'{"version":1}', PATH)
    assert gc.isenabled()
    gc.disable()
    try:
        pack_queue(b"{", PATH)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_ten_thousand_tasks_come_through() -> None:
    tasks = [
        BARE | {"id": f"RQ-{number:04d}", "depends_on": [f"RQ-{number - 1:04d}"] if number else []} for number in range(10_000)
    ]
    text = json.dumps({"version": 1, "tasks": tasks}, indent=1).replace('"title"', '/* c */ "title"')
    found = unpack_queue(pack_queue(text.encode(), PATH))
    assert isinstance(found, CheckedQueue)
    assert len(found.rows) == 10_000
    assert len(QueueDocument.model_validate_json(b'{"version":1,"tasks":' + found.rendered + b"}").tasks) == 10_000
