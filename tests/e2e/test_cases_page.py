"""`docs/cases.md` names tests that exist, and every case that a test names has a line there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "cases.md"
ROW = re.compile(r"^\| ([A-F]\d\d) \| ([^|]+) \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)
NAME = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)


def _rows() -> dict[str, tuple[str, str]]:
    return {case: (tests, note.strip()) for case, _, tests, note in ROW.findall(PAGE.read_text())}


def _cases_in_tests() -> set[str]:
    names = [name for path in TESTS.rglob("test_*.py") for name in NAME.findall(path.read_text())]
    return {case.upper() for name in names for case in re.findall(r"(?<=_)([a-f][0-3]\d)(?=_|$)", name)}


def test_every_test_that_is_named_exists_and_names_its_case() -> None:
    named = [(case, *one) for case, (tests, _) in _rows().items() for one in re.findall(r"`([\w/.]+)` `(test_\w+)`", tests)]
    assert len(named) > 100
    for case, path, name in named:
        assert name in NAME.findall((TESTS / path).read_text()), f"{path} has no {name}"
        assert case.lower() in name.split("_")


def test_every_case_has_a_line_with_a_test_or_a_reason() -> None:
    rows = _rows()
    assert {group: sum(case.startswith(group) for case in rows) for group in "ABCDEF"} == {
        "A": 23, "B": 9, "C": 8, "D": 17, "E": 10, "F": 5,
    }  # fmt: skip
    assert _cases_in_tests() <= set(rows)
    assert [case for case, (tests, note) in rows.items() if "`" not in tests and not note] == []
    untested = {case for case, (tests, _) in rows.items() if "`" not in tests}
    assert untested & {case for case in rows if case[0] in "BCDF"} == set()
