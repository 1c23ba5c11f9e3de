"""The reference page: current, complete, without a dead link, and checked by its own command."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from cueloop_protocol import codes
from cueloop_protocol import reference as program
from cueloop_protocol.methods import ALWAYS, METHODS
from cueloop_protocol.notifications import NOTIFICATIONS
from cueloop_protocol.reference import main, reference
from cueloop_protocol.reference_errors import WHEN
from cueloop_protocol.reference_text import DOCUMENT_MODELS, EVENT_MODELS
from cueloop_protocol.rendering import code_block, shortened, type_text

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


@pytest.fixture(scope="module")
def page() -> str:
    return reference()


def test_the_page_in_the_repository_is_current(page: str) -> None:
    assert PAGE.read_text("utf-8") == page, "write it with: python -m cueloop_protocol.reference > docs/protocol.md"


def test_everything_has_a_heading_of_its_own(page: str) -> None:
    headings = re.findall(r"^### (.+)$", page, re.M)
    assert len(set(headings)) == len(headings)
    for wanted in (
        *(f"`{name}`" for name in (*METHODS, *NOTIFICATIONS)),
        *(f"Event `{kind}`" for kind in EVENT_MODELS),
        *(f"Document `{name}`" for name in DOCUMENT_MODELS),
        *(f"Error {code} `{name}`" for code, name in codes.NAMES.items()),
    ):
        assert wanted in headings


def test_every_link_has_a_target_and_every_target_is_there_once(page: str) -> None:
    targets = re.findall(r'<a id="([^"]+)"></a>', page)
    assert len(set(targets)) == len(targets)
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= set(targets)


def test_every_example_on_the_page_is_json(page: str) -> None:
    blocks = re.findall(r"```json\n(.*?)```", page, re.S)
    assert len(blocks) >= len(METHODS) + len(NOTIFICATIONS) + len(EVENT_MODELS)
    for block in blocks:
        text, decoder, at = block.strip(), json.JSONDecoder(), 0
        while at < len(text):
            _, end = decoder.raw_decode(text, at)
            at = end + 1


def test_planned_methods_say_so(page: str) -> None:
    planned = [name for name, spec in METHODS.items() if spec.is_planned]
    assert page.count("**Not in this version yet.**") == len(planned)


def test_every_code_has_its_words_and_every_method_error_a_code() -> None:
    assert list(WHEN) == list(codes.NAMES)
    for spec in METHODS.values():
        assert set(spec.errors) <= set(codes.NAMES)
        assert not set(spec.errors) & set(ALWAYS)


def test_the_command_prints_the_page(capsys: pytest.CaptureFixture[str], page: str) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == page


def test_the_command_checks_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], page: str) -> None:
    file = tmp_path / "page.md"
    assert main(["--check", str(file)]) == 1
    file.write_text(page + "x", "utf-8")
    assert main(["--check", str(file)]) == 1
    assert "is not current; write it with" in capsys.readouterr().err
    file.write_text(page, "utf-8")
    assert main(["--check", str(file)]) == 0
    assert capsys.readouterr().err == ""


def test_it_runs_as_a_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], page: str) -> None:
    monkeypatch.setattr(sys, "argv", ["reference"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(program.__file__), run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out == page


@pytest.mark.parametrize("arguments", [["--check"], ["--other", "x"], ["--check", "a", "b"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage:")


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string"}, "text"),
        ({"type": "integer"}, "integer"),
        ({"type": "integer", "minimum": 1}, "integer from 1"),
        ({"type": "integer", "minimum": 1, "maximum": 3}, "integer from 1 to 3"),
        ({"type": "integer", "exclusiveMinimum": 1}, "integer over 1"),
        ({"const": "a"}, '`"a"`'),
        ({"enum": ["a"]}, '`"a"`'),
        ({"enum": ["a", "b", "c"]}, '`"a"`, `"b"` or `"c"`'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text or null"),
        ({"oneOf": [{"$ref": "#/components/schemas/A.B"}]}, "[A.B](#shape-a.b)"),
        ({"type": "array", "items": {"type": "string"}}, "list of text"),
        ({"type": "array"}, "list of any JSON value"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map of text to integer"),
        ({"type": "object", "additionalProperties": True}, "map of text to any JSON value"),
        ({"type": "object", "patternProperties": {"x": {"type": "null"}}}, "map of text to null"),
        ({}, "any JSON value"),
    ],
)
def test_types_in_words(schema: dict[str, object], text: str) -> None:
    assert type_text(schema) == text


def test_long_documents_are_shortened_and_what_is_kept_is_not() -> None:
    document = {"a": 1, "b": 2, "config": {"c": 3, "d": 4, "e": 5}}
    whole = {"list": [{"document": document}], "config": {"small": 1}}
    assert shortened(whole) == {"list": [{"document": "…"}], "config": {"small": 1}}
    assert shortened(document, keep=("config",)) == document


def test_a_long_value_is_laid_out_and_still_the_same() -> None:
    value = {"list": [{"n": number, "text": "x" * 30} for number in range(5)], "short": [1, 2]}
    block = code_block(value)
    assert json.loads(block.removeprefix("```json\n").removesuffix("```\n")) == value
    assert max(map(len, block.splitlines())) <= 120
    assert '"short": [1, 2]' in block
