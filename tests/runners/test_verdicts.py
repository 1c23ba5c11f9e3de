"""What became of an invocation: every row of the table of facts, and the traps that others fell into."""

from __future__ import annotations

import json

import pytest

from cueloop_daemon.runners import Conversation, Failed, Gone, LoginNeeded, PluginFacts, Succeeded, UnknownRunner, runner_for
from runners.streams import GOOD, OTHER, OURS, THREAD, UUID, built_in, lines, read, says

NAMES = tuple(GOOD)
SESSION = {id_: found or "" for id_, (_, found) in GOOD.items()}


@pytest.mark.parametrize("id_", NAMES)
def test_a_success_has_its_id_and_the_last_message(id_: str) -> None:
    out, session = GOOD[id_]
    told = read(built_in(id_), out)
    assert told.verdict == Succeeded(Conversation(session or ""), "worked")
    assert "worked" in told.shown
    assert '"type"' not in told.shown
    assert told.reader.last_word_seen


@pytest.mark.parametrize("id_", NAMES)
def test_a_resumed_success(id_: str) -> None:
    out, session = GOOD[id_]
    assert read(built_in(id_), out, resumed=session).verdict == Succeeded(Conversation(session or ""), "worked")


@pytest.mark.parametrize("id_", NAMES)
def test_a13_exit_0_without_a_last_word_is_a_failure(id_: str) -> None:
    out = GOOD[id_][0].splitlines(keepends=True)
    told = read(built_in(id_), b"".join(out[:-1]))
    assert isinstance(told.verdict, Failed)
    assert not told.verdict.retryable
    assert not told.reader.last_word_seen


@pytest.mark.parametrize("id_", NAMES)
def test_a_last_word_that_was_cut_off_is_none(id_: str) -> None:
    assert isinstance(read(built_in(id_), GOOD[id_][0].rstrip()[:-1]).verdict, Failed)


@pytest.mark.parametrize("id_", NAMES)
def test_nothing_at_all_is_a_failure(id_: str) -> None:
    assert isinstance(read(built_in(id_), b"").verdict, Failed)


@pytest.mark.parametrize("id_", NAMES)
@pytest.mark.parametrize("code", [1, 7, 126, 127, 137, 143, 255])
def test_e18_an_exit_code_is_a_code_whatever_the_stream_says(id_: str, code: int) -> None:
    verdict = read(built_in(id_), GOOD[id_][0], exit_code=code).verdict
    assert isinstance(verdict, Failed)
    assert (verdict.exit_code, verdict.signal) == (code, None)
    assert f"exit code {code}" in verdict.reason
    assert "signal" not in verdict.reason


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (11, "SIGSEGV"), (15, "SIGTERM"), (63, "signal 63")])
def test_e18_a_signal_is_told_as_one(number: int, name: str) -> None:
    verdict = read(built_in("claude"), b"", exit_code=None, signal=number).verdict
    assert isinstance(verdict, Failed)
    assert (verdict.exit_code, verdict.signal) == (None, number)
    assert name in verdict.reason
    assert "exit code" not in verdict.reason


def test_e18_programs_that_could_not_start() -> None:
    for code, words in ((126, "could not be executed"), (127, "not found")):
        verdict = read(built_in("pi"), b"", b"sh: 1: pi\n", code).verdict
        assert isinstance(verdict, Failed)
        assert words in verdict.reason


def test_an_end_that_nobody_saw() -> None:
    verdict = read(built_in("pi"), b"", exit_code=None).verdict
    assert isinstance(verdict, Failed)
    assert "nobody saw" in verdict.reason


@pytest.mark.parametrize("id_", NAMES)
def test_a_process_that_stays_after_its_last_word_counts_by_its_stream(id_: str) -> None:
    out, session = GOOD[id_]
    verdict = read(built_in(id_), out, exit_code=None, signal=9, lingered=True).verdict
    assert verdict == Succeeded(Conversation(session or ""), "worked")
    early = b"".join(out.splitlines(keepends=True)[:-1])
    assert isinstance(read(built_in(id_), early, exit_code=None, signal=9, lingered=True).verdict, Failed)


GONE = [
    ("claude", b"No conversation found with session ID: %s\n", 1),
    ("claude", b"Error: --resume requires a valid session ID or session title when used with --print.\n", 1),
    ("codex", b"Error: thread/resume: thread/resume failed: no rollout found for thread id %s (code -32600)\n", 1),
    ("gemini", b'Error resuming session: Invalid session identifier "%s". Use --list-sessions to see\n', 42),
    ("gemini", b"Error resuming session: No previous sessions found for this project.\n", 42),
    ("kimi", b'Session "%s" not found\n', 1),
    ("kimi", b'Session "%s" was created under a different directory\n', 1),
    ("pi", b"No session found matching '%s'\n", 1),
    ("pi", b"Session found in different project: /elsewhere. Fork it? [y/N]\n", 0),
    ("opencode", b"Error: Session not found: %s\n", 1),
    ("opencode", b"Error: Session not found\n", 0),
    ("opencode", b'ZodError: [ { "prefix": "ses", "message": "Invalid string: must start with \\"ses\\"" } ]\n', 0),
]


@pytest.mark.parametrize(("id_", "err", "code"), GONE)
def test_a10_a11_the_runner_s_own_session_is_gone(id_: str, err: bytes, code: int) -> None:
    session = SESSION[id_]
    err = err.replace(b"%s", session.encode())
    verdict = read(built_in(id_), b"", err, code, resumed=session).verdict
    assert isinstance(verdict, Gone)
    assert session in verdict.reason
    assert isinstance(read(built_in(id_), b"", err, code).verdict, Failed), "nothing was to be resumed"


def test_kimi_1_51_session_is_gone() -> None:
    verdict = read(built_in("kimi", "1.51.0"), b"", f'Session "{OURS}" not found\n'.encode(), 1, resumed=OURS).verdict
    assert isinstance(verdict, Gone)


def test_cursor_agent_is_gone_by_its_code_alone() -> None:
    gone = lines({"type": "error", "error": {"name": "AgentNotFoundError", "code": "agent_not_found", "message": "no"}})
    assert isinstance(read(built_in("cursor"), gone, exit_code=1, resumed="agent-1").verdict, Gone)
    unknown = lines({"type": "error", "error": {"name": "UnknownAgentError", "message": "internal"}})
    assert isinstance(read(built_in("cursor"), unknown, exit_code=1, resumed="agent-1").verdict, Failed)


@pytest.mark.parametrize("id_", NAMES)
@pytest.mark.parametrize("code", [1, 7, 42])
def test_an_unknown_resume_failure_is_hard(id_: str, code: int) -> None:
    verdict = read(built_in(id_), b"", b"fatal: the moon is in the wrong phase\n", code, resumed=SESSION[id_]).verdict
    assert isinstance(verdict, Failed)
    assert "moon" in verdict.tail
    assert "moon" in verdict.reason
    assert not verdict.retryable


@pytest.mark.parametrize(("id_", "err", "code"), GONE)
def test_words_of_the_model_decide_nothing(id_: str, err: bytes, code: int) -> None:
    text = err.decode() + " 401 Unauthorized Invalid API key rate limit 429"
    out = GOOD[id_][0].replace(b"worked", json.dumps(text)[1:-1].encode())
    assert isinstance(read(built_in(id_), out, resumed=SESSION[id_]).verdict, Succeeded)
    broken = read(built_in(id_), b"".join(out.splitlines(keepends=True)[:-1]), b"odd\n", 1, resumed=SESSION[id_]).verdict
    assert isinstance(broken, Failed)
    assert not broken.is_limit


def test_a_session_that_has_answered_is_not_gone() -> None:
    """A tool of the agent's may print the same words to standard error later."""
    out = b"".join(GOOD["claude"][0].splitlines(keepends=True)[:2])
    err = f"No conversation found with session ID: {UUID}\n".encode()
    assert isinstance(read(built_in("claude"), out, err, 1, resumed=UUID).verdict, Failed)


@pytest.mark.parametrize("id_", ["codex", "pi"])
def test_a_resume_that_silently_begins_anew_is_gone(id_: str) -> None:
    asked = "0199a213-81c0-7800-8aa1-000000000000"
    verdict = read(built_in(id_), GOOD[id_][0], resumed=asked).verdict
    assert isinstance(verdict, Gone)
    assert asked in verdict.reason
    assert SESSION[id_] in verdict.reason


@pytest.mark.parametrize("id_", ["claude", "gemini", "kimi", "opencode", "cursor"])
def test_a_new_id_is_adopted_after_success_only(id_: str) -> None:
    out, session = GOOD[id_]
    asked = {"claude": OTHER, "gemini": OTHER, "kimi": "session_old", "opencode": "ses_old", "cursor": "agent-old"}[id_]
    assert read(built_in(id_), out, resumed=asked).verdict == Succeeded(Conversation(session or ""), "worked")
    assert isinstance(read(built_in(id_), out, exit_code=1, resumed=asked).verdict, Failed)


@pytest.mark.parametrize("id_", NAMES)
def test_a_resume_that_reports_no_id_keeps_the_one_asked_for(id_: str) -> None:
    out = GOOD[id_][0].replace(SESSION[id_].encode(), b"")
    if id_ == "kimi":
        assert b"resume_hint" in out
    verdict = read(built_in(id_), out, resumed=SESSION[id_]).verdict
    assert verdict == Succeeded(Conversation(SESSION[id_]), "worked")


@pytest.mark.parametrize("id_", NAMES)
def test_an_id_of_ours_that_is_never_reported_does_not_count(id_: str) -> None:
    out = GOOD[id_][0].replace(SESSION[id_].encode(), b"")
    assert read(built_in(id_), out, chosen=OURS).verdict == Succeeded(None, "worked")


def test_a15_kimi_1_51_keeps_the_id_that_it_was_given() -> None:
    runner = built_in("kimi", "kimi, version 1.51.0")
    out = lines({"role": "assistant", "content": "worked"})
    assert read(runner, out, chosen=OURS).verdict == Succeeded(Conversation(OURS, is_ours=True), "worked")
    assert read(runner, out).verdict == Succeeded(None, "worked")
    reader = runner.reader()
    assert reader.interrupted(chosen=Conversation(OURS, is_ours=True)) == Conversation(OURS, is_ours=True)


@pytest.mark.parametrize(
    ("err", "wanted"),
    [
        (f"To resume this session: kimi -r {UUID}", UUID),
        (f"session: {UUID}", UUID),
        (f"Session ID: {OURS}", OURS),
        ("kimi --session=" + OURS, OURS),
        ("session: started", None),
        ("", None),
    ],
)
def test_a15_an_id_on_standard_error_alone(err: str, wanted: str | None) -> None:
    out = lines({"role": "assistant", "content": "worked"})
    told = read(built_in("kimi", "1.51.0"), out, f"{err}\n".encode())
    assert told.verdict == Succeeded(Conversation(wanted) if wanted else None, "worked")
    assert err in told.shown


def test_a15_kimi_code_s_id_on_standard_error() -> None:
    told = read(built_in("kimi"), GOOD["kimi"][0].replace(b"session_5f0e", b""), b"session: session_77\n")
    assert told.verdict == Succeeded(Conversation("session_77"), "worked")


@pytest.mark.parametrize(
    "last",
    [
        {"type": "result", "subtype": "success", "is_error": True, "terminal_reason": "api_error", "num_turns": 484},
        {"type": "result", "subtype": "error_max_turns", "is_error": False, "session_id": OTHER},
        {"type": "result", "subtype": "success", "is_error": True, "result": "API Error: 529 overloaded", "session_id": OTHER},
    ],
)
def test_a13_claude_success_that_is_an_error(last: dict[str, object]) -> None:
    out = b"".join(GOOD["claude"][0].splitlines(keepends=True)[:2]) + lines(last)
    told = read(built_in("claude"), out)
    assert isinstance(told.verdict, Failed)
    assert told.verdict.retryable is ("result" in last)
    assert str(last.get("result") or last.get("terminal_reason") or last.get("subtype")) in told.verdict.reason
    assert told.reader.reported_id == UUID, "never an id from an error"
    assert told.reader.interrupted() is None
    assert told.reader.last_word_seen


def test_ids_are_taken_from_claude_s_first_line_and_its_success_alone() -> None:
    first = {"type": "system", "subtype": "init", "session_id": UUID}
    others = [
        {"type": "system", "subtype": "hook", "session_id": OTHER},
        {"type": "assistant", "message": {}, "session_id": OTHER},
    ]
    reader = built_in("claude").reader()
    reader.feed(lines(first, *others))
    assert reader.reported_id == UUID
    assert reader.interrupted() == Conversation(UUID)
    reader.feed(lines({"type": "result", "subtype": "success", "is_error": False, "result": "x", "session_id": OTHER}))
    assert reader.reported_id == OTHER, "the last one of a successful stream counts"


FAILED = [
    ("codex", {"type": "turn.failed", "error": {"message": "exceeded retry limit, last status: 429 Too Many Requests"}}, 1, True),
    ("codex", {"type": "turn.failed", "error": {"message": "unexpected status 503 Service Unavailable"}}, 1, True),
    ("codex", {"type": "turn.failed", "error": {"message": "context window exceeded after 429 tokens"}}, 1, False),
    ("gemini", {"type": "result", "status": "error", "error": {"type": "FatalError", "code": 503, "message": "busy"}}, 1, True),
    ("gemini", {"type": "result", "status": "error", "error": {"type": "MaxTurns", "message": "too many"}}, 53, False),
    (
        "pi",
        {"type": "message_end", "message": {"role": "assistant", "stopReason": "error", "errorMessage": "429 slow down"}},
        0,
        True,
    ),
    ("pi", {"type": "message_end", "message": {"role": "assistant", "stopReason": "aborted"}}, 0, False),
    ("opencode", {"type": "error", "error": {"name": "APIError", "data": {"message": "no", "statusCode": 500}}}, 0, True),
    ("opencode", {"type": "error", "error": {"name": "APIError", "data": {"message": "no", "isRetryable": True}}}, 1, True),
    ("opencode", {"type": "error", "error": {"name": "UnknownError", "data": {"message": "no"}}}, 0, False),
    ("opencode", {"type": "step_finish", "part": {"reason": "length"}}, 0, False),
    ("cursor", {"type": "error", "error": {"name": "RateLimitError", "status": 429, "message": "slow"}}, 1, True),
    ("cursor", {"type": "result", "status": "cancelled"}, 1, False),
    ("cursor", {"type": "result", "status": "error", "error": {"message": "no"}}, 0, False),
    ("kimi", {"type": "error", "error": {"message": "no", "status": 502}}, 1, True),
]


@pytest.mark.parametrize(("id_", "doc", "code", "retryable"), FAILED)
def test_failures_that_the_stream_reports(id_: str, doc: dict[str, object], code: int, retryable: bool) -> None:
    out = b"".join(GOOD[id_][0].splitlines(keepends=True)[:1]) + lines(doc)
    verdict = read(built_in(id_), out, exit_code=code).verdict
    assert isinstance(verdict, Failed)
    assert verdict.retryable is retryable


SAID = [
    ("no result", b"", b"", 0, "codex ended with exit code 0 but without a result."),
    ("nothing said", b"", b"", 3, "codex failed with exit code 3."),
    (
        "the last line that names an error",
        b"",
        b"began\nerror: no disk\nbye\n",
        3,
        "codex failed with exit code 3: error: no disk.",
    ),
    ("the last line", b"", b"began\nbye!\n", 3, "codex failed with exit code 3: bye!"),
    ("a fault at exit 0", {"message": "it broke."}, b"", 0, "codex reported a failure: it broke."),
    ("a fault", {"message": "it broke"}, b"", 4, "codex reported a failure (exit code 4): it broke."),
    ("a fault that nobody saw end", {"message": "it broke"}, b"", None, "codex reported a failure: it broke."),
    ("no words", {"message": ""}, b"", 1, "codex reported a failure (exit code 1): the turn failed."),
    (
        "an API's error object",
        {"message": 'status 400: {"error": {"message": "too long"}} (again)'},
        b"",
        1,
        "codex reported a failure (exit code 1): status 400: too long (again).",
    ),
    (
        "an object without a sentence",
        {"message": 'status 400: {"a": 1}'},
        b"",
        1,
        'codex reported a failure (exit code 1): status 400: {"a": 1}.',
    ),
]


@pytest.mark.parametrize(("error", "err", "code", "reason"), [one[1:] for one in SAID], ids=[one[0] for one in SAID])
def test_a_reason_is_one_sentence(error: object, err: bytes, code: int | None, reason: str) -> None:
    out = lines({"type": "turn.failed", "error": error}) if error else b""
    verdict = read(built_in("codex"), out, err, code).verdict
    assert isinstance(verdict, Failed)
    assert verdict.reason == reason


@pytest.mark.parametrize(("status", "is_limit"), [(428, False), (429, True), (430, False)])
def test_a_limit_is_known_by_its_status_alone(status: int, is_limit: bool) -> None:
    doc = {"type": "error", "error": {"name": "APIError", "data": {"message": "no", "statusCode": status}}}
    verdict = read(built_in("opencode"), lines(doc), exit_code=1).verdict
    assert isinstance(verdict, Failed)
    assert verdict.is_limit is is_limit


def test_a_session_that_is_gone_is_told_by_the_whole_line_that_says_so() -> None:
    gone = f"No conversation found with session ID: {UUID}"
    verdict = read(built_in("claude"), b"", f"before\n{gone}\nafter\n".encode(), 1, resumed=UUID).verdict
    assert verdict == Gone(f"claude no longer has the session {UUID}: {gone}")


def test_pi_exits_0_on_an_api_error_and_may_mend_it_itself() -> None:
    bad = {"type": "message_end", "message": {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": "503"}}
    good = {"type": "message_end", "message": {**says("worked"), "stopReason": "stop"}}
    end, again = {"type": "agent_end", "messages": []}, {"type": "agent_end", "messages": [], "willRetry": True}
    failed = read(built_in("pi"), lines(bad, end))
    assert isinstance(failed.verdict, Failed)
    assert failed.reader.last_word_seen
    mended = read(built_in("pi"), lines(bad, again, {"type": "auto_retry_start"}, good, end))
    assert mended.verdict == Succeeded(None, "worked")
    assert isinstance(read(built_in("pi"), lines(end)).verdict, Failed), "nothing was done"


def test_codex_warnings_are_no_failures() -> None:
    warning = {"type": "item.completed", "item": {"type": "error", "message": "model metadata not found"}}
    trouble = {"type": "error", "message": "Reconnecting... 1/5"}
    out = GOOD["codex"][0].splitlines(keepends=True)
    told = read(built_in("codex"), b"".join([out[0], lines(warning, trouble), *out[1:]]))
    assert told.verdict == Succeeded(Conversation(THREAD), "worked")
    assert "metadata" in told.shown
    stopped = read(built_in("codex"), out[0] + lines(trouble), exit_code=1).verdict
    assert isinstance(stopped, Failed)
    assert "Reconnecting" in stopped.reason


def test_opencode_refused_permissions_exit_0_with_nothing_said() -> None:
    out = lines({"type": "step_start", "sessionID": "ses_1"}, {"type": "step_finish", "part": {"reason": "stop"}})
    verdict = read(built_in("opencode"), out).verdict
    assert isinstance(verdict, Failed)
    assert "permission" in verdict.reason


def test_opencode_is_not_over_between_steps() -> None:
    step = {"type": "step_finish", "part": {"reason": "tool-calls"}}
    text = {"type": "text", "part": {"text": "let me see"}}
    told = read(built_in("opencode"), lines(text, step))
    assert isinstance(told.verdict, Failed)
    assert not told.reader.last_word_seen
    stopped_in_the_next = lines(text, {"type": "step_finish", "part": {"reason": "stop"}}, {"type": "step_start"})
    assert isinstance(read(built_in("opencode"), stopped_in_the_next).verdict, Failed)


@pytest.mark.parametrize("stream", ["out", "err"])
@pytest.mark.parametrize("version", ["", "1.52.0"])
def test_kimi_1_52_is_a_notice_that_exits_0(stream: str, version: str) -> None:
    notice = b"kimi-cli is no longer maintained. Please install Kimi Code.\n"
    verdict = read(built_in("kimi", version), *((notice, b"") if stream == "out" else (b"", notice))).verdict
    assert isinstance(verdict, Failed)
    assert "@moonshot-ai/kimi-code" in verdict.reason


def test_kimi_1_51_is_over_only_with_an_answer() -> None:
    runner = built_in("kimi", "1.51.0")
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "Shell", "arguments": "{}"}}]}
    assert isinstance(read(runner, lines(call)).verdict, Failed)
    assert isinstance(read(runner, lines(call, {"role": "tool", "content": "ok"})).verdict, Failed)
    parts = [{"type": "think", "think": "hm"}, {"type": "text", "text": "worked"}]
    assert read(runner, lines(call, {"role": "assistant", "content": parts})).verdict == Succeeded(None, "worked")
    busy = read(runner, b"", b"LLM provider overloaded\n", 75).verdict
    assert isinstance(busy, Failed)
    assert busy.retryable


LOGIN = [
    (
        "claude",
        {"type": "result", "subtype": "success", "is_error": True, "result": "Invalid API key · Please run /login"},
        b"",
        1,
    ),
    ("claude", {"type": "assistant", "error": "authentication_failed", "message": says("no")}, b"Not logged in\n", 1),
    ("codex", {"type": "turn.failed", "error": {"message": "unexpected status 401 Unauthorized"}}, b"", 1),
    ("gemini", None, b"Please set an Auth method in your settings.json\n", 41),
    ("gemini", None, b"", 41),
    ("kimi", None, b"LLM not set, run `kimi login`\n", 1),
    ("pi", None, b"No API key found for openai-codex\n", 1),
    ("opencode", {"type": "error", "error": {"name": "ProviderAuthError", "data": {"message": "no key"}}}, b"", 1),
    ("cursor", {"type": "error", "error": {"name": "AuthenticationError", "status": 401, "message": "no"}}, b"", 1),
]


@pytest.mark.parametrize(("id_", "doc", "err", "code"), LOGIN)
def test_a_login_is_wanted(id_: str, doc: object, err: bytes, code: int) -> None:
    verdict = read(built_in(id_), lines(doc) if doc else b"", err, code).verdict
    assert isinstance(verdict, LoginNeeded)
    assert "Log in" in verdict.hint


@pytest.mark.parametrize("where", ["stdout", "stderr"])
def test_a_usage_limit_is_marked_and_its_end_told(where: str) -> None:
    event = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1_795_990_800}}
    text = "You've hit your session limit · resets 10:20pm (America/Edmonton)"
    last = {"type": "result", "subtype": "success", "is_error": True, "result": text if where == "stdout" else "no"}
    verdict = read(built_in("claude"), lines(event, last), text.encode() if where == "stderr" else b"", 1).verdict
    assert isinstance(verdict, Failed)
    assert verdict.is_limit
    assert verdict.limit_until == "2026-11-29T22:20:00Z"


@pytest.mark.parametrize("at", [True, -1, 10**30, "soon", None, 1.5])
def test_a_limit_s_end_that_is_no_time(at: object) -> None:
    event = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": at}}
    verdict = read(built_in("claude"), lines(event), b"usage limit reached\n", 1).verdict
    assert isinstance(verdict, Failed)
    assert (verdict.is_limit, verdict.limit_until) == (True, None)


def test_an_answer_that_breaks_off_at_64_kib_is_incomplete() -> None:
    whole = lines({"role": "assistant", "content": "x" * 65_536})
    assert isinstance(read(built_in("kimi", "1.51.0"), whole).verdict, Failed)
    fine = lines({"role": "assistant", "content": "x" * 65_535})
    assert isinstance(read(built_in("kimi", "1.51.0"), fine).verdict, Succeeded)
    rest = GOOD["opencode"][0] + b"x" * (65_536 - len(GOOD["opencode"][0]))
    assert isinstance(read(built_in("opencode"), rest).verdict, Failed)
    assert isinstance(read(built_in("opencode"), rest[:-1]).verdict, Succeeded)


def test_plugin_streams() -> None:
    found = runner_for("mine", {"mine": PluginFacts("mine", "/x", True, None, "null")})
    assert not isinstance(found, UnknownRunner)
    text, odd = {"type": "text", "content": "worked"}, {"type": "progress", "percent": 5}
    told = read(found, lines(odd, b"plain\n", text, {"type": "finish", "session_id": "s1"}))
    assert told.verdict == Succeeded(Conversation("s1"), "worked")
    assert told.shown == '{"type": "progress", "percent": 5}\nplain\nworked\n'
    assert isinstance(read(found, lines(text, {"type": "finish", "session_id": "s1"}), exit_code=3).verdict, Failed)
    assert isinstance(read(found, lines(text)).verdict, Failed)
    broken = read(found, lines({"type": "finish", "session_id": "s1", "error": {"message": "no"}}))
    assert isinstance(broken.verdict, Failed)
    assert broken.reader.reported_id is None
