"""What a person sees of each event: the agent's words, one line for each tool, and nothing of the rest."""

from __future__ import annotations

import pytest

from cueloop_daemon.runners import Conversation, Failed, Gone, LoginNeeded, Prompt, Succeeded
from cueloop_daemon.runners.members import MemberScanner
from runners.streams import GOOD, built_in, lines, read, says, settings

CALL = {"function": {"name": "Shell", "arguments": '{"command": "ls"}'}}
SHOWN: list[tuple[str, dict[str, object], str]] = [
    ("claude", {"type": "assistant", "message": {"content": [{"type": "thinking", "thinking": "hm"}]}}, ""),
    ("claude", {"type": "assistant", "parent_tool_use_id": "t1", "message": says("of a helper")}, "of a helper\n"),
    ("claude", {"type": "control_request"}, ""),
    ("codex", {"type": "item.started", "item": {"type": "command_execution", "command": "ls -l"}}, "[command] ls -l\n"),
    ("codex", {"type": "item.started", "item": {"type": "mcp_tool_call", "server": "s", "tool": "t"}}, "[tool] s t\n"),
    ("codex", {"type": "item.started", "item": {"type": "web_search", "query": "q"}}, "[search] q\n"),
    ("codex", {"type": "item.started", "item": {"type": "todo_list"}}, ""),
    ("codex", {"type": "item.updated", "item": {"type": "todo_list"}}, ""),
    ("codex", {"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}}, ""),
    (
        "codex",
        {"type": "item.completed", "item": {"type": "file_change", "changes": [{"path": "a"}, {"path": "b"}]}},
        "[files] a b\n",
    ),
    ("gemini", {"type": "message", "role": "assistant", "content": "whole"}, "whole\n"),
    ("gemini", {"type": "tool_result", "status": "success"}, ""),
    ("gemini", {"type": "error", "severity": "warning", "message": "loop detected"}, "loop detected\n"),
    ("kimi", {"role": "assistant", "content": "", "tool_calls": [CALL]}, '[Shell] {"command": "ls"}\n'),
    ("kimi", {"role": "tool", "content": "ok"}, ""),
    ("kimi", {"role": "user", "content": "x"}, ""),
    ("kimi", {"role": "meta", "type": "system.version", "version": "2.1.0"}, ""),
    ("kimi", {"role": "meta", "type": "session.error", "error": {"message": "no"}}, "no\n"),
    ("pi", {"type": "tool_execution_start", "toolName": "bash", "args": {"command": "ls"}}, "[bash] ls\n"),
    ("pi", {"type": "message_end", "message": {"role": "toolResult"}}, ""),
    ("pi", {"type": "message_update", "message": says("half")}, ""),
    ("opencode", {"type": "tool_use", "part": {"tool": "bash", "state": {"title": "List"}}}, "[bash] List\n"),
    ("opencode", {"type": "tool_use", "part": {"tool": "bash", "state": {"input": {"command": "ls"}}}}, "[bash] ls\n"),
    ("opencode", {"type": "reasoning", "part": {"text": "hm"}}, ""),
    ("cursor", {"type": "tool_call", "status": "running", "name": "shell", "args": {"command": "ls"}}, "[shell] ls\n"),
    ("cursor", {"type": "tool_call", "status": "completed", "name": "shell"}, ""),
    ("cursor", {"type": "thinking", "text": "hm"}, ""),
]


@pytest.mark.parametrize(("id_", "doc", "wanted"), SHOWN)
def test_shown(id_: str, doc: dict[str, object], wanted: str) -> None:
    told = read(built_in(id_), lines(doc), exit_code=1)
    assert told.shown == wanted
    assert isinstance(told.verdict, Failed)


def test_a_helper_s_words_are_not_the_agent_s_last() -> None:
    helper = lines({"type": "assistant", "parent_tool_use_id": "t1", "message": says("of a helper")})
    first, *rest = GOOD["claude"][0].splitlines(keepends=True)
    told = read(built_in("claude"), b"".join([first, rest[0], helper, rest[1]]))
    assert isinstance(told.verdict, Succeeded)
    assert told.verdict.text == "worked"


def test_a_result_stands_in_for_a_missing_message() -> None:
    out = lines({"type": "result", "subtype": "success", "is_error": False, "result": "worked"})
    told = read(built_in("claude"), out)
    assert told.verdict == Succeeded(None, "worked")
    assert told.shown == "worked\n"


def test_a_failure_is_told_once() -> None:
    trouble = {"type": "assistant", "error": "server_error", "message": says("API Error: 500 no")}
    last = {"type": "result", "subtype": "success", "is_error": True, "result": "API Error: 500 no"}
    assert read(built_in("claude"), lines(trouble, last), exit_code=1).shown == "API Error: 500 no\n"
    assert read(built_in("claude"), lines(last), exit_code=1).shown == "API Error: 500 no\n"


def test_the_telling_line_of_standard_error_is_the_reason() -> None:
    err = b"Error: config is broken\n  see docs\n"
    verdict = read(built_in("pi"), b"", err, 1).verdict
    assert isinstance(verdict, Failed)
    assert verdict.reason == "pi failed with exit code 1: Error: config is broken."
    assert verdict.tail == "Error: config is broken\n  see docs"


def test_the_reason_for_a_login_is_told_not_the_advice_that_follows() -> None:
    err = b"No API key found for openai-codex.\n\nUse /login to log into a provider. See:\n  /opt/docs\n"
    verdict = read(built_in("pi"), b"", err, 1).verdict
    assert isinstance(verdict, LoginNeeded)
    assert verdict.reason == "pi failed with exit code 1: No API key found for openai-codex."


def test_an_id_of_ours_that_is_new_to_pi_is_no_news() -> None:
    err = b"Warning: No project session found with id 'RQ-0001-p0-1'; creating a new session with that id.\nWarning: old node\n"
    told = read(built_in("pi"), b"", err, 1)
    assert told.shown == "Warning: old node\n"
    assert isinstance(told.verdict, Failed)
    assert told.verdict.tail == "Warning: old node"


def test_the_plain_words_of_the_older_kimi_are_its_reason() -> None:
    out = b"Error code: 400 - {'error': {'message': 'The request is not valid.', 'type': 'in\nvalid_request_error'}}\n"
    told = read(built_in("kimi").with_version("1.51.0"), out, b"\nTo resume this session: kimi -r RQ-0001-p2-1\n", 1)
    assert isinstance(told.verdict, Failed)
    assert told.verdict.reason == (
        "kimi reported a failure: Error code: 400 - "
        "{'error': {'message': 'The request is not valid.', 'type': 'invalid_request_error'}}."
    )


def test_colours_are_no_part_of_a_reason() -> None:
    err = b"\x1b[91m\x1b[1mError: \x1b[0mSession not found\n"
    verdict = read(built_in("opencode"), b"", err, 1, resumed="ses_1").verdict
    assert verdict == Gone("opencode no longer has the session ses_1: Error: Session not found")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ('{"error": {"message": "It is not valid.", "code": "x"}}', "It is not valid."),
        ('400: {"message": "It is not valid.", "param": null}', "400: It is not valid."),
        ('[API Error: {"error": {"code": 400, "message": "No."}}]', "[API Error: No.]."),
        ('{"error": "no object"}', '{"error": "no object"}.'),
        ("{not JSON} at all", "{not JSON} at all."),
        ("} backwards {", "} backwards {."),
        ("{" * 5000 + "}", "{" * 1500),
    ],
)
def test_an_api_error_is_told_in_its_own_words(message: str, reason: str) -> None:
    out = lines({"type": "turn.failed", "error": {"message": message}})
    verdict = read(built_in("codex"), out, exit_code=1).verdict
    assert isinstance(verdict, Failed)
    assert verdict.reason.startswith(f"codex reported a failure (exit code 1): {reason}")


def test_an_interrupted_stream_gives_the_id_that_its_first_event_reported() -> None:
    for id_, (out, session) in GOOD.items():
        reader = built_in(id_).reader()
        assert reader.interrupted(chosen=Conversation("RQ-0001-p2-1", is_ours=True)) is None
        reader.feed(out.splitlines(keepends=True)[0])
        assert reader.interrupted() == (None if id_ == "kimi" else Conversation(session or ""))
        killed = reader.verdict(None, 9, resumed=None)
        assert isinstance(killed, Failed)


def test_members_that_are_none_are_passed_over() -> None:
    scanner = MemberScanner()
    scanner.feed(b'{"a":1,nonsense,"b":2,"c":' + b"1" * 2000 + b',"d":3}')
    assert scanner.found == {"a": 1, "b": 2, "d": 3}


def test_an_invocation_without_more_ado_has_no_warnings() -> None:
    runner = built_in("claude")
    assert runner.can_resume
    assert runner.fresh(settings("claude"), Prompt("x", "/p"), runner.choose_id("RQ-0001", 1, 5), "/r").warnings == ()
