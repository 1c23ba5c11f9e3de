"""Streams that the real CLIs printed (`tests/data/streams`, recorded by `make agents`): each is read as its file says it should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.runners import Conversation, Failed, Gone, LoginNeeded, Succeeded
from runners.streams import built_in

FOLDER = Path(__file__).parents[1] / "data" / "streams"
VERDICTS = {"succeeded": Succeeded, "gone": Gone, "failed": Failed, "login": LoginNeeded}
FACTS = sorted(FOLDER.glob("*/*.json"))
UNTOLD = {("opencode", "login"): Failed}
"""What the CLI itself does not tell apart: without a key opencode reports an unknown error of its own server."""
PASSING = ("api-429", "api-500", "api-503", "api-529")


@pytest.mark.parametrize("step", [10**9, 1000, 1])
@pytest.mark.parametrize("facts", FACTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_recorded(facts: Path, step: int) -> None:
    told: dict[str, Any] = json.loads(facts.read_text())
    out, err = (facts.with_suffix(suffix).read_bytes() for suffix in (".out", ".err"))
    runner = built_in(facts.parent.name, told["version"])
    reader = runner.reader()
    shown = ""
    for data, feed in ((out, reader.feed), (err, reader.feed_err)):
        for at in range(0, len(data), step):
            shown += "".join(piece.text for piece in feed(data[at : at + step]))
    asked = told.get("asked") or {}
    resumed = Conversation(asked["id"], file=asked.get("file")) if asked else None
    code = told["exit"]
    verdict = reader.verdict(None if code < 0 else code, -code if code < 0 else None, resumed=resumed)
    expect = told["expect"]
    case = (facts.parent.name, facts.stem)
    assert isinstance(verdict, UNTOLD.get(case, VERDICTS[expect["verdict"]])), verdict
    if "id" in expect:
        assert isinstance(verdict, Succeeded)
        assert verdict.conversation is not None
        assert verdict.conversation.id == expect["id"]
        assert verdict.text
        assert verdict.text.splitlines()[-1] in shown
    if isinstance(verdict, Failed):
        assert verdict.retryable is (facts.stem in PASSING or case == ("codex", "cut"))
    assert '{"type"' not in shown, "every event of a version that is known is known"
    assert '{"role"' not in shown


def test_there_are_recordings_of_every_cli_that_could_be_installed() -> None:
    assert {path.parent.name for path in FACTS} >= {"claude", "codex", "gemini", "kimi", "pi", "opencode"}
    for path in FACTS:
        told = json.loads(path.read_text())
        assert {"cli", "version", "date", "argv", "exit", "expect"} <= set(told), path
