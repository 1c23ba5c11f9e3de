"""The agents of the vectors, really called with our command lines: the decisions of `continue.jsonl`, without the run engine. A10, A11."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.runners import (
    Conversation,
    Gone,
    Invocation,
    Prompt,
    Runner,
    Settings,
    Succeeded,
    UnknownRunner,
    Verdict,
    child_environment,
    runner_for,
)
from runners.streams import settings
from support.vectors import cases, check

CASES = [case for _, case in cases("continue")]
SAME, FRESH = "resuming_same_session", "falling_back_to_fresh_invocation"


class World:
    """One case laid out, and its agent."""

    def __init__(self, case: dict[str, Any], folder: Path) -> None:
        self.root, home = folder / "repo", folder / "home"
        self.root.mkdir()
        home.mkdir()
        files = {name: spec for name, spec in case["repo"].items() if name.startswith(".fake/")}
        check.lay(self.root, files, str(self.root), str(home), None)
        agent = json.loads(check.fill(case["repo"][".cueloop/config.jsonc"], str(self.root), str(home), None))["agent"]
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "CLAUDECODE": "1"}
        self.settings: Settings = settings(agent["runner"], model=agent["model"], bin=agent[f"{agent['runner']}_bin"])
        found = runner_for(self.settings.runner, {})
        assert not isinstance(found, UnknownRunner)
        asked = found.version_argv(self.settings)
        self.runner: Runner = found.with_version(self.call(asked, None)[0].decode()) if asked else found
        self.prompt = Prompt("do it", str(folder / "prompt.md"))
        Path(self.prompt.path).write_text(self.prompt.text)

    def call(self, argv: tuple[str, ...], stdin: bytes | None) -> tuple[bytes, bytes, int]:
        done = subprocess.run(argv, input=stdin or b"", env=self.env, cwd=self.root, capture_output=True, timeout=30, check=False)
        return done.stdout, done.stderr, done.returncode

    def invoke(self, invocation: Invocation, *, resumed: Conversation | None, chosen: Conversation | None) -> Verdict:
        self.env = child_environment({**self.env, "CLAUDECODE": "1"}, invocation, "run-1", "RQ-0001")
        assert "CLAUDECODE" not in self.env
        out, err, code = self.call(invocation.argv, invocation.stdin)
        reader = self.runner.reader()
        reader.feed(out)
        reader.feed_err(err)
        return reader.verdict(code, None, resumed=resumed, chosen=chosen)

    def fresh(self, again: int) -> Verdict:
        chosen = self.runner.choose_id("RQ-0001", 0, 1704153600, again)
        invocation = self.runner.fresh(self.settings, self.prompt, chosen, str(self.root))
        return self.invoke(invocation, resumed=None, chosen=chosen)

    def story(self) -> tuple[str, list[list[str]]]:
        """The work, a failed gate, the same conversation again; what a run engine would do, at its shortest."""
        first = self.fresh(0)
        if not isinstance(first, Succeeded):
            return "failed", []
        found = first.conversation and self.runner.locate(first.conversation, str(self.root), self.env)
        if found is None:
            reason = "runner_session_invalid" if first.conversation else "missing_runner_session_id"
            second = self.fresh(1)
            return "ran" if isinstance(second, Succeeded) else "failed", [[FRESH, reason]]
        said = [[SAME, "session_valid"]]
        second = self.invoke(self.runner.resume(self.settings, found, self.prompt, str(self.root)), resumed=found, chosen=None)
        if isinstance(second, Gone):
            said.append([FRESH, "runner_session_invalid"])
            second = self.fresh(1)
        return "ran" if isinstance(second, Succeeded) else "failed", said


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a10_a11_continue(case: dict[str, Any], tmp_path: Path) -> None:
    world = World(case, tmp_path)
    wanted = case.get("want") or case["rust"]
    assert world.story() == (wanted["outcome"], wanted["continue"])
    calls = (world.root / ".fake/state/calls").read_text().splitlines()
    for number, pattern in wanted.get("calls", {}).items():
        assert re.search(pattern, calls[int(number) - 1])


def test_every_runner_of_the_vectors_is_played() -> None:
    assert {case["id"].split("-")[0] for case in CASES} == {"claude", "codex", "gemini", "kimi", "opencode", "pi"}
