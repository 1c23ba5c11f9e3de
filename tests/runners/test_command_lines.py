"""Each runner's command line, as its real CLI takes it; A18, E15: flags for running without anybody there."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from cueloop_daemon.runners import Conversation, Invocation, PluginFacts, Prompt, Runner, Settings, UnknownRunner, runner_for
from runners.streams import OURS, THREAD, UUID, built_in, settings

PROMPT = Prompt("Do it.\n", "/r/.cueloop/p.md")
OWN_UUID = str(uuid.uuid5(uuid.NAMESPACE_URL, OURS))
PLUGIN = PluginFacts("mine", "/plugins/mine/run", True, None, '{"a": 1}')


def fresh(runner: Runner, chosen: Settings, prompt: Prompt = PROMPT) -> Invocation:
    return runner.fresh(chosen, prompt, runner.choose_id("RQ-0001", 2, 1704153600), "/r")


def plugin(facts: PluginFacts = PLUGIN) -> Runner:
    runner = runner_for("mine", {"mine": facts})
    assert not isinstance(runner, UnknownRunner)
    return runner


FRESH = [
    (
        "claude",
        "",
        {},
        f"-p --verbose --model m --permission-mode acceptEdits --output-format stream-json --session-id {OWN_UUID}",
    ),
    (
        "claude",
        "",
        {"effort": "high", "approval_mode": "yolo"},
        f"-p --verbose --model m --permission-mode bypassPermissions --effort high --output-format stream-json --session-id {OWN_UUID}",
    ),
    ("codex", "", {}, "exec --json --model m -"),
    (
        "codex",
        "",
        {"sandbox": "enabled", "effort": "low", "model": "openai-codex/gpt-5.4"},
        '--sandbox workspace-write exec --json --model gpt-5.4 -c model_reasoning_effort="low" -',
    ),
    ("codex", "", {"sandbox": "disabled"}, "--dangerously-bypass-approvals-and-sandbox exec --json --model m -"),
    ("codex", "", {"approval_mode": "yolo"}, "--dangerously-bypass-approvals-and-sandbox exec --json --model m -"),
    ("codex", "", {"approval_mode": "safe"}, "--sandbox workspace-write exec --json --model m -"),
    ("codex", "", {"approval_mode": "auto_edits"}, "--sandbox workspace-write exec --json --model m -"),
    ("codex", "", {"approval_mode": "safe", "sandbox": "disabled"}, "--sandbox danger-full-access exec --json --model m -"),
    ("gemini", "", {}, f"--skip-trust --model m --output-format stream-json --session-id {OURS}"),
    (
        "gemini",
        "",
        {"approval_mode": "yolo", "sandbox": "enabled"},
        f"--approval-mode yolo --skip-trust --sandbox --model m --output-format stream-json --session-id {OURS}",
    ),
    (
        "gemini",
        "",
        {"approval_mode": "auto_edits"},
        f"--approval-mode auto_edit --skip-trust --model m --output-format stream-json --session-id {OURS}",
    ),
    ("kimi", "", {}, "--model m --prompt Do it.\n --output-format stream-json"),
    ("kimi", "2.1.0", {}, "--model m --prompt Do it.\n --output-format stream-json"),
    (
        "kimi",
        "kimi, version 1.51.0",
        {},
        f"--yolo --session {OURS} --model m --print --prompt Do it.\n --output-format stream-json",
    ),
    ("pi", "1.6.0", {"effort": "high"}, f"--print --model m --thinking high --mode json --session-id {OURS} -- Do it.\n"),
    ("pi", "0.73.1", {}, "--print --model m --mode json Do it.\n"),
    (
        "opencode",
        "",
        {"effort": "high"},
        "run --model m --format json --variant high --auto --file /r/.cueloop/p.md -- Do what the attached file says.",
    ),
    (
        "opencode",
        "",
        {"approval_mode": "safe"},
        "run --model m --format json --file /r/.cueloop/p.md -- Do what the attached file says.",
    ),
]


@pytest.mark.parametrize(("id_", "version", "changes", "wanted"), FRESH)
def test_e15_fresh(id_: str, version: str, changes: dict[str, str], wanted: str) -> None:
    invocation = fresh(built_in(id_, version), settings(id_, **changes))
    assert " ".join(invocation.argv) == f"/bin/{id_} {wanted}"


RESUME = [
    (
        "claude",
        "",
        UUID,
        {},
        f"-p --verbose --model m --permission-mode acceptEdits --output-format stream-json --resume {UUID}",
    ),
    ("codex", "", THREAD, {"sandbox": "enabled"}, f"--sandbox workspace-write exec resume {THREAD} --json --model m -"),
    ("gemini", "", UUID, {}, f"--skip-trust --model m --output-format stream-json --resume {UUID}"),
    ("gemini", "", OURS, {}, f"--skip-trust --model m --output-format stream-json --resume {OURS}"),
    ("kimi", "", "session_5f0e", {}, "--model m --session session_5f0e --prompt Do it.\n --output-format stream-json"),
    ("kimi", "1.51.0", OURS, {}, f"--yolo --session {OURS} --model m --print --prompt Do it.\n --output-format stream-json"),
    (
        "opencode",
        "",
        "ses_5f0e",
        {},
        "run --model m --format json --auto -s ses_5f0e --dir /r --file /r/.cueloop/p.md -- Do what the attached file says.",
    ),
]


@pytest.mark.parametrize(("id_", "version", "session", "changes", "wanted"), RESUME)
def test_resume(id_: str, version: str, session: str, changes: dict[str, str], wanted: str) -> None:
    runner = built_in(id_, version)
    invocation = runner.resume(settings(id_, **changes), Conversation(session), PROMPT, "/r")
    assert " ".join(invocation.argv) == f"/bin/{id_} {wanted}"


def test_pi_resumes_by_its_file_and_never_without() -> None:
    runner = built_in("pi")
    invocation = runner.resume(settings("pi"), Conversation(UUID, file=f"/s/x_{UUID}.jsonl"), PROMPT, "/r")
    assert " ".join(invocation.argv) == f"/bin/pi --print --model m --mode json --session /s/x_{UUID}.jsonl -- Do it.\n"
    for file in (None, f"x_{UUID}.jsonl"):
        with pytest.raises(ValueError, match="file of pi's session"):
            runner.resume(settings("pi"), Conversation(UUID, file=file), PROMPT, "/r")


@pytest.mark.parametrize("id_", ["claude", "codex", "gemini"])
def test_a_prompt_of_any_size_goes_by_stdin(id_: str) -> None:
    prompt = Prompt("-v \0 ä" + "x" * 2_000_000, "/p.md")
    invocation = fresh(built_in(id_), settings(id_), prompt)
    assert invocation.stdin == prompt.text.encode()
    assert max(map(len, invocation.argv)) < 200


@pytest.mark.parametrize(("id_", "version"), [("kimi", ""), ("kimi", "1.51.0"), ("pi", ""), ("pi", "0.73.1")])
@pytest.mark.parametrize(
    ("text", "is_told"), [("x" * 102_401, True), ("ä" * 51_201, True), ("-v", False), ("a\0b", False), (" \n", False)]
)
def test_what_no_argument_can_carry_is_read_from_the_file(id_: str, version: str, text: str, is_told: bool) -> None:
    invocation = fresh(built_in(id_, version), settings(id_), Prompt(text, "/p.md"))
    assert "Read the file /p.md and do what it says." in invocation.argv
    assert invocation.stdin is None
    assert bool(invocation.warnings) is is_told


@pytest.mark.parametrize(("id_", "is_file"), [("pi", True), ("kimi", False)])
def test_a_prompt_that_pi_would_take_for_a_file(id_: str, is_file: bool) -> None:
    argv = fresh(built_in(id_), settings(id_), Prompt("@readme do it", "/p.md")).argv
    assert ("@readme do it" not in argv) is is_file


def test_100_kib_is_still_an_argument() -> None:
    text = "x" * 102_400
    assert text in fresh(built_in("kimi"), settings("kimi"), Prompt(text, "/p.md")).argv


CONVERSATIONS = [(id_, "") for id_ in ("claude", "codex", "gemini", "kimi", "pi", "opencode", "cursor")]
CONVERSATIONS += [("kimi", "1.51.0"), ("pi", "0.73.1")]


@pytest.mark.parametrize(("id_", "version"), CONVERSATIONS)
def test_a18_never_the_latest_conversation(id_: str, version: str) -> None:
    runner = built_in(id_, version)
    latest = {"--continue", "-c", "--last", "-C", "-r", "latest", "last"}
    for invocation in (fresh(runner, settings(id_)), runner.fresh(settings(id_), PROMPT, None, "/r")):
        assert not latest & set(invocation.argv)
    assert "--resume" not in fresh(runner, settings(id_)).argv


@pytest.mark.parametrize(("id_", "version"), CONVERSATIONS)
@pytest.mark.parametrize(
    "id_text", ["", " ", "  RQ ", "-", "--last", "a b", "a\n", "a\0", "x" * 513, "ä" * 300, "\u00a0", "a\u202eb"]
)
def test_a17_an_empty_or_odd_id_is_no_id(id_: str, version: str, id_text: str) -> None:
    runner = built_in(id_, version)
    assert not runner.is_valid_id(id_text)
    assert runner.locate(Conversation(id_text), "/r", {"HOME": "/nowhere"}) is None
    with pytest.raises(ValueError, match="not an id"):
        runner.resume(settings(id_), Conversation(id_text, file="/f"), PROMPT, "/r")


@pytest.mark.parametrize(
    ("id_", "version", "good", "bad"),
    [
        ("claude", "", [UUID, UUID.upper()], [OURS, UUID[:-1], UUID + "0", "session_1"]),
        ("codex", "", [THREAD], ["thread", OURS]),
        ("gemini", "", [UUID, OURS, OURS + "-1"], ["latest", "5"]),
        ("kimi", "", ["session_5f0e"], [UUID, OURS, "session_"]),
        ("kimi", "1.51.0", [OURS, UUID, "any"], []),
        ("pi", "", [UUID, "any-token", OURS], ["a/b", "..", "."]),
        ("opencode", "", ["ses_5f0e", "sesX"], ["ses", UUID]),
        ("cursor", "", ["agent-1", "bc-1"], ["agent-", UUID]),
    ],
)
def test_shapes(id_: str, version: str, good: list[str], bad: list[str]) -> None:
    runner = built_in(id_, version)
    assert [text for text in good if not runner.is_valid_id(text)] == []
    assert [text for text in bad if runner.is_valid_id(text)] == []


@pytest.mark.parametrize(
    ("id_", "version", "wanted"),
    [
        ("claude", "", OWN_UUID),
        ("codex", "", None),
        ("gemini", "", OURS),
        ("kimi", "", None),
        ("kimi", "2.1.0", None),
        ("kimi", "1.51.0", OURS),
        ("pi", "1.6.0", OURS),
        ("pi", "0.73.1", None),
        ("opencode", "", None),
        ("cursor", "", f"agent-{OWN_UUID}"),
    ],
)
def test_ids_of_our_own_are_the_same_in_every_life(id_: str, version: str, wanted: str | None) -> None:
    runner = built_in(id_, version)
    chosen = runner.choose_id("RQ-0001", 2, 1704153600)
    assert chosen == (Conversation(wanted, is_ours=True) if wanted else None)
    assert chosen is None or runner.is_valid_id(chosen.id)
    again = runner.choose_id("RQ-0001", 2, 1704153600, 1)
    assert chosen is None or (again is not None and again.id != chosen.id and runner.is_valid_id(again.id))


@pytest.mark.parametrize("task", ["a b", "-x", "a\nb", "x" * 600, "a/b"])
def test_a_task_id_that_makes_no_id(task: str) -> None:
    assert built_in("gemini").choose_id(task, 1, 1) is None
    assert built_in("claude").choose_id(task, 1, 1) is not None


@pytest.mark.parametrize(
    ("approval", "configured", "plan", "wanted"),
    [
        ("yolo", "accept_edits", "default", "bypassPermissions"),
        ("auto_edits", "bypass_permissions", "disabled", "acceptEdits"),
        ("default", "accept_edits", "default", "acceptEdits"),
        ("default", "bypass_permissions", "default", "bypassPermissions"),
        ("safe", "accept_edits", "default", "acceptEdits"),
        ("yolo", "accept_edits", "enabled", "plan"),
    ],
)
def test_claude_permission_mode(approval: str, configured: str, plan: str, wanted: str) -> None:
    chosen = settings("claude", approval_mode=approval, permission_mode=configured, plan_mode=plan)
    argv = fresh(built_in("claude"), chosen).argv
    assert argv[argv.index("--permission-mode") + 1] == wanted


@pytest.mark.parametrize(
    ("id_", "wanted"), [("kimi", True), ("pi", True), ("claude", False), ("codex", False), ("opencode", False)]
)
def test_versions_are_asked_for_where_the_command_line_depends_on_them(id_: str, wanted: bool) -> None:
    asked = built_in(id_).version_argv(settings(id_))
    assert asked == ((f"/bin/{id_}", "--version") if wanted else None)


@pytest.mark.parametrize("text", ["", "unknown", "v", "1", "built 20261101"])
@pytest.mark.parametrize("id_", ["kimi", "pi"])
def test_a_version_that_says_nothing_means_the_newer_one(id_: str, text: str) -> None:
    assert fresh(built_in(id_, text), settings(id_)).argv == fresh(built_in(id_, "3.0.0"), settings(id_)).argv


def test_cursor_gets_one_request() -> None:
    from cueloop_protocol.documents.config import Cursor

    runner = built_in("cursor")
    cursor = Cursor(model_params={"fast": True, "depth": "deep"}, setting_sources=("project",))
    chosen = settings("cursor", effort="high", sandbox="enabled", plan_mode="enabled")
    invocation = fresh(runner, Settings(**{**{name: getattr(chosen, name) for name in Settings.__slots__}, "cursor": cursor}))
    assert invocation.argv[0] == "/bin/cursor"
    assert Path(invocation.argv[1]).is_file()
    assert invocation.stdin is not None
    assert json.loads(invocation.stdin) == {
        "action": "create",
        "agentId": f"agent-{OWN_UUID}",
        "cwd": "/r",
        "model": {
            "id": "m",
            "params": [
                {"id": "reasoning_effort", "value": "high"},
                {"id": "fast", "value": "true"},
                {"id": "depth", "value": "deep"},
            ],
        },
        "prompt": "Do it.\n",
        "settingSources": ["project"],
        "sandbox": True,
        "mode": "plan",
    }
    resumed = runner.resume(settings("cursor"), Conversation("agent-7"), PROMPT, "/r")
    assert resumed.stdin is not None
    assert json.loads(resumed.stdin) == {
        "action": "resume",
        "agentId": "agent-7",
        "cwd": "/r",
        "model": {"id": "m"},
        "prompt": "Do it.\n",
    }


def test_plugin_command_lines_and_environment() -> None:
    runner = plugin()
    chosen = settings("mine", effort="high", approval_mode="yolo")
    invocation = runner.fresh(chosen, PROMPT, Conversation("own"), "/r")
    assert " ".join(invocation.argv) == "/bin/mine run --model m --output-format stream-json --session own -"
    assert invocation.stdin == b"Do it.\n"
    assert runner.fresh(chosen, PROMPT, None, "/r").argv[-2:] == ("stream-json", "-")
    resumed = runner.resume(chosen, Conversation("s1"), PROMPT, "/r")
    assert " ".join(resumed.argv) == "/bin/mine resume --session s1 --model m --output-format stream-json -"
    assert invocation.env["CUELOOP_PLUGIN_ID"] == "mine"
    assert invocation.env["CUELOOP_PLUGIN_CONFIG_JSON"] == '{"a": 1}'
    assert json.loads(invocation.env["CUELOOP_RUNNER_CLI_JSON"]) == {
        "output_format": "stream_json",
        "verbosity": "normal",
        "approval_mode": "yolo",
        "sandbox": "default",
        "plan_mode": "default",
        "unsupported_option_policy": "warn",
        "reasoning_effort": "high",
    }


def test_a_plugin_that_does_not_resume() -> None:
    runner = plugin(PluginFacts("mine", "/bin/x", False, None, "null"))
    assert not runner.can_resume
    assert runner.locate(Conversation("s1"), "/r", {}) is None
    with pytest.raises(ValueError, match="does not resume"):
        runner.resume(settings("mine"), Conversation("s1"), PROMPT, "/r")


def test_an_unknown_runner_names_those_there_are() -> None:
    found = runner_for("foo", {"mine": PLUGIN})
    assert isinstance(found, UnknownRunner)
    assert "foo" in found.message
    assert all(name in found.detail for name in ("claude", "cursor", "mine"))
