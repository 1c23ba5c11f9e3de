"""The prompts: each has what it must, each may be overridden, and a bad override is an error that names file and field."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.runs.prompts import HAND_OFF_LIMIT, LIMIT, NAMES, NEEDED, PromptFiles
from cueloop_daemon.runs.types import PromptError
from cueloop_protocol.roots import Caller, open_root

FIELDS = {
    "task_id": "RQ-0007",
    "title": "Teach the parrot",
    "task": '{"id": "RQ-0007", "notes": ["costs $5"]}',
    "plan_path": ".cueloop/cache/plans/RQ-0007.md",
    "phase": "2",
    "phases": "3",
    "iteration": "2",
    "iterations": "4",
    "command": "make ci",
    "exit_code": "3",
    "output": "one test failed",
    "files": "- src/parrot.py",
    "reason": "the power went",
}

MUST_SAY = {
    "single": ("RQ-0007", "Teach the parrot", "costs $5", "iteration 2 of 4"),
    "plan": ("RQ-0007", "Teach the parrot", "costs $5", ".cueloop/cache/plans/RQ-0007.md", "Change nothing else"),
    "implement": ("RQ-0007", "Teach the parrot", "costs $5", ".cueloop/cache/plans/RQ-0007.md"),
    "review": ("RQ-0007", "Teach the parrot", "costs $5", "(nothing was left)"),
    "ci_failed": ("RQ-0007", "`make ci`", "Exit code: 3", "one test failed"),
    "plan_changed": ("RQ-0007", ".cueloop/cache/plans/RQ-0007.md", "- src/parrot.py"),
    "plan_empty": ("RQ-0007", ".cueloop/cache/plans/RQ-0007.md"),
    "interrupted": ("RQ-0007", "the power went"),
}


def prompts(folder: Path, *instructions: str, home: Path | None = None) -> PromptFiles:
    caller = None if home is None else Caller(str(home), None)
    return PromptFiles(open_root(str(folder)), instructions, caller)


def override(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / ".cueloop/prompts" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize("name", NAMES)
def test_ours_say_what_they_must(name: str, tmp_path: Path) -> None:
    text = prompts(tmp_path).make(name, FIELDS)
    assert [part for part in MUST_SAY[name] if part not in text] == []
    assert "$" not in text.replace("costs $5", "")
    assert text == text.strip() + "\n"


def test_the_table_knows_every_prompt() -> None:
    assert set(MUST_SAY) == set(NAMES)
    assert set(NEEDED) < set(NAMES)


def test_an_agent_never_commits_by_itself(tmp_path: Path) -> None:
    for name in ("single", "implement", "review"):
        text = prompts(tmp_path).make(name, FIELDS)
        assert "Do not commit" in text
        assert "status of the task" in text


def test_an_unknown_prompt_is_our_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no prompt 'poem'"):
        prompts(tmp_path).make("poem", FIELDS)


def test_a_repository_may_say_it_otherwise(tmp_path: Path) -> None:
    override(tmp_path, "single", "\n\nDo $task_id ($$5): ${task}\n\n")
    assert prompts(tmp_path).make("single", FIELDS) == f"Do RQ-0007 ($5): {FIELDS['task']}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$task and $wether", "unknown field $wether; there are $command"),
        ("$task costs\n$ 5", "a $ that begins no field, line 2; write $$"),
        ("${task", "a $ that begins no field, line 1"),
        ("Just do it.", "lacks the field $task, which the agent needs"),
        ("", "lacks the field $task"),
    ],
)
def test_a_bad_override_names_file_and_field(text: str, said: str, tmp_path: Path) -> None:
    path = override(tmp_path, "single", text)
    with pytest.raises(PromptError) as raised:
        prompts(tmp_path).make("single", FIELDS)
    assert str(path) in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"\xb2 $task", "no UTF-8 text (byte 0)"), (b"$task " * LIMIT, f"too long; {LIMIT} bytes are allowed")],
)
def test_b10_an_override_that_is_no_text(data: bytes, said: str, tmp_path: Path) -> None:
    path = override(tmp_path, "single", data)
    with pytest.raises(PromptError) as raised:
        prompts(tmp_path).make("single", FIELDS)
    assert str(path) in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_a33_an_override_that_is_no_file_is_not_waited_for(kind: str, tmp_path: Path) -> None:
    path = override(tmp_path, "plan", "")
    path.unlink()
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    with pytest.raises(PromptError, match=r"plan\.md cannot be read: it is no regular file"):
        prompts(tmp_path).make("plan", FIELDS)


def test_instruction_files_come_in_their_order_and_from_the_callers_home(tmp_path: Path) -> None:
    root, home = tmp_path / "repository", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    (root / "first.md").write_text("Be kind.\n")
    (home / "second.md").write_text("Be brief, and write $nothing.\n")
    text = prompts(root, "first.md", "~/second.md", home=home).make("implement", FIELDS)
    assert "Instructions from first.md:\n\nBe kind.\n\nInstructions from ~/second.md:\n\nBe brief, and write $nothing." in text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone.md", "The instruction file gone.md is missing"),
        ("~/mine.md", "~/mine.md is in a home folder"),
        (".", "cannot be read"),
    ],
)
def test_a_bad_instruction_file_is_named(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(PromptError) as raised:
        prompts(tmp_path, name).make("single", FIELDS)
    assert said in str(raised.value)


def test_instruction_files_are_bounded_together(tmp_path: Path) -> None:
    for name in ("one.md", "two.md"):
        (tmp_path / name).write_text("x" * (LIMIT // 2))
    assert len(prompts(tmp_path, "one.md", "two.md").make("single", FIELDS)) > LIMIT
    (tmp_path / "two.md").write_text("x" * (LIMIT // 2 + 1))
    with pytest.raises(PromptError, match=r"two\.md is too long"):
        prompts(tmp_path, "one.md", "two.md").make("single", FIELDS)


def test_the_review_reads_what_the_implementer_left(tmp_path: Path) -> None:
    path = tmp_path / ".cueloop/cache/phase2_final/RQ-0007.md"
    path.parent.mkdir(parents=True)
    path.write_text("x" * HAND_OFF_LIMIT + "the end\n")
    text = prompts(tmp_path).make("review", FIELDS)
    assert "xxx" + "the end" in text
    assert text.count("x") < HAND_OFF_LIMIT + 100


@given(st.text(alphabet="$a{}task_id \n", max_size=30), st.text(max_size=40))
def test_any_override_is_filled_in_or_refused(text: str, value: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        override(folder, "interrupted", text)
        said = _said(prompts(folder), {**FIELDS, "task_id": value})
        if isinstance(said, PromptError):
            assert "interrupted.md" in str(said)
        elif "$" not in text:
            assert said == text.strip() + "\n"


def _said(files: PromptFiles, fields: dict[str, str]) -> str | PromptError:
    try:
        return files.make("interrupted", fields)
    except PromptError as exc:
        return exc
