"""Each rule by itself: what it accepts, and what its refusal says."""

from __future__ import annotations

import pytest

from cueloop_daemon.core.config_rules import (
    AGENT_FIELDS,
    CONFIG,
    CONFIG_FIELDS,
    LOOP_FIELDS,
    PARALLEL_FIELDS,
    QUEUE_FIELDS,
    allowed_file,
    cursor_parameter,
    profile_name,
    runner,
    workspace_root,
)
from cueloop_daemon.core.rules import (
    U32,
    U64,
    Rule,
    RuleError,
    Whole,
    boolean,
    integer,
    items,
    key_text,
    mapping,
    number,
    one_of,
    opaque,
    secret,
    table,
    text,
    trimmed,
    words,
)
from cueloop_protocol.documents.config import (
    Agent,
    AgentPatch,
    CiGate,
    CiGatePatch,
    Config,
    Loop,
    Notification,
    NotificationPatch,
)
from cueloop_protocol.documents.config import Parallel as ParallelModel
from cueloop_protocol.documents.config import Queue as QueueModel

ACCEPTED: list[tuple[Rule, object, object]] = [
    (boolean, True, True),
    (boolean, False, False),
    (integer(1, 3), 1, 1),
    (integer(1, 3), 3, 3),
    (number(), 2, 2.0),
    (number(1, 10), 1.5, 1.5),
    (number(1, 10), 10, 10.0),
    (one_of("a", "b"), "b", "b"),
    (text, "", ""),
    (secret, "s", "s"),
    (words, " a ", " a "),
    (trimmed, " a ", "a"),
    (items(text), ["a", "b"], ["a", "b"]),
    (items(text), [], []),
    (opaque, {"b": None}, Whole({"b": None})),
    (runner, "Codex", "codex"),
    (runner, " Acme ", "Acme"),
    (workspace_root, "/a/..b", "/a/..b"),
    (allowed_file, "local/*.json", "local/*.json"),
    (allowed_file, "./a.txt", "./a.txt"),
    (cursor_parameter, True, True),
    (cursor_parameter, "high", "high"),
    (profile_name, "fast", "fast"),
]
REFUSED: list[tuple[Rule, object, str]] = [
    (boolean, 1, "true or false"),
    (boolean, "true", "true or false"),
    (integer(1, 3), 0, "a whole number from 1 to 3"),
    (integer(1, 3), 4, "a whole number from 1 to 3"),
    (integer(1, 3), True, "a whole number from 1 to 3"),
    (integer(1, 3), 2.0, "a whole number from 1 to 3"),
    (integer(1, U64), 0, "a whole number of at least 1"),
    (integer(1, U64), U64 + 1, "a whole number of at least 1"),
    (integer(0, U32), -1, "a whole number of at least 0"),
    (integer(2, 2), 3, "2"),
    (number(), "2", "a number"),
    (number(), True, "a number"),
    (number(), 10**400, "a number"),
    (number(1, 10), 0.5, "a number from 1 to 10"),
    (number(1, 10), 11, "a number from 1 to 10"),
    (one_of("a", "b"), "A", "a, b"),
    (one_of("a", "b"), None, "a, b"),
    (text, 1, "a text"),
    (words, " \t", "a text that is not blank"),
    (words, "a\0b", "a text that is not blank"),
    (words, 1, "a text that is not blank"),
    (trimmed, "  ", "a text that is not blank"),
    (items(text), "a", "a list"),
    (items(text), ["a", None], "a text"),
    (table({}), [], "an object in braces"),
    (mapping(text), [], "an object in braces"),
    (runner, "", "a text that is not blank"),
    (workspace_root, "a/../b", "a path without '..'"),
    (workspace_root, "", "a text that is not blank"),
    (allowed_file, "/etc/passwd", "a path relative to the repository without '.' and '..'"),
    (allowed_file, "c:/x", "a path relative to the repository without '.' and '..'"),
    (allowed_file, "C:\\x", "a path relative to the repository without '.' and '..'"),
    (allowed_file, "a/../b", "a path relative to the repository without '.' and '..'"),
    (allowed_file, "a/./b", "a path relative to the repository without '.' and '..'"),
    (allowed_file, "./", "a path relative to the repository without '.' and '..'"),
    (allowed_file, "dir/", "a file or a pattern for files, not a folder"),
    (allowed_file, "x/node_modules/y", "nothing under node_modules/"),
    (allowed_file, " ", "a text that is not blank"),
    (cursor_parameter, 1, "a text, true or false"),
    (profile_name, "safe", "any name but safe, power-user"),
    (profile_name, " ", "a text that is not blank"),
]


@pytest.mark.parametrize(("rule", "value", "result"), ACCEPTED)
def test_accepted(rule: Rule, value: object, result: object) -> None:
    found = rule(value, ("k",))
    assert found == result
    assert type(found) is type(result)


@pytest.mark.parametrize(("rule", "value", "allowed"), REFUSED)
def test_refused(rule: Rule, value: object, allowed: str) -> None:
    with pytest.raises(RuleError) as caught:
        rule(value, ("k",))
    assert caught.value.allowed == allowed
    assert caught.value.key.startswith("k")


def test_the_error_names_key_value_and_what_is_allowed() -> None:
    with pytest.raises(RuleError) as caught:
        CONFIG({"agent": {"phases": 9}}, ())
    assert str(caught.value) == "agent.phases: is 9; allowed: a whole number from 1 to 3"


def test_a_long_value_is_cut() -> None:
    with pytest.raises(RuleError) as caught:
        boolean("x" * 1000, ("k",))
    assert len(caught.value.reason) < 100


def test_a_secret_is_never_shown() -> None:
    with pytest.raises(RuleError) as caught:
        CONFIG({"agent": {"webhook": {"secret": ["hunter2"]}}}, ())
    assert "hunter2" not in str(caught.value)
    assert caught.value.key == "agent.webhook.secret"


def test_a_key_is_written_so_that_it_can_be_found() -> None:
    assert key_text(("agent", "argv", 0)) == "agent.argv[0]"
    assert key_text(("$schema",)) == "$schema"
    assert key_text(("profiles", "a.b", "phases")) == 'profiles["a.b"].phases'
    assert str(RuleError((), "is 1", "x")).startswith("the document: ")


def test_an_unknown_key_is_named_with_its_neighbour() -> None:
    with pytest.raises(RuleError) as caught:
        CONFIG({"agent": {"session_timeout": 1}}, ())
    assert caught.value.key == "agent.session_timeout"
    assert caught.value.reason == "is no known key (did you mean session_timeout_hours?)"
    with pytest.raises(RuleError) as caught:
        CONFIG({"loop": {"x": 1}}, ())
    assert (caught.value.reason, caught.value.allowed) == ("is no known key", ", ".join(LOOP_FIELDS))


def test_an_unknown_key_is_an_error_even_if_it_is_null() -> None:
    with pytest.raises(RuleError):
        CONFIG({"x": None}, ())


def test_null_means_not_set_at_every_level() -> None:
    assert CONFIG({"queue": None, "agent": {"model": None, "webhook": {"url": None}}, "profiles": {"p": None}}, ()) == {
        "agent": {"webhook": {}},
        "profiles": {},
    }


def test_schema_and_the_old_cursor_bin_are_read_and_dropped() -> None:
    assert CONFIG({"$schema": "https://example.com/s.json", "agent": {"cursor_bin": "gone"}}, ()) == {"agent": {}}
    with pytest.raises(RuleError):
        CONFIG({"$schema": 1}, ())
    with pytest.raises(RuleError):
        CONFIG({"agent": {"cursor_bin": 1}}, ())


def test_schema_is_allowed_at_the_top_only() -> None:
    with pytest.raises(RuleError):
        CONFIG({"agent": {"$schema": "x"}}, ())


def test_a_required_key_must_be_there_and_not_null() -> None:
    rule = table({"a": text}, required=("a",))
    assert rule({"a": "x"}, ()) == {"a": "x"}
    for value in ({}, {"a": None}):
        with pytest.raises(RuleError) as caught:
            rule(value, ("t",))
        assert (caught.value.key, caught.value.reason) == ("t.a", "is missing")


def test_one_runner_in_two_spellings_is_an_error() -> None:
    options = {"codex": {"sandbox": "enabled"}, "Codex": {"sandbox": "disabled"}}
    with pytest.raises(RuleError) as caught:
        CONFIG({"agent": {"runner_cli": {"runners": options}}}, ())
    assert caught.value.key == "agent.runner_cli.runners.Codex"


@pytest.mark.parametrize("days", [(5, 5, None), (None, 9, 8), (9, None, 8), (3, 2, 1)])
def test_aging_thresholds_must_rise(days: tuple[int | None, ...]) -> None:
    names = ("warning_days", "stale_days", "rotten_days")
    with pytest.raises(RuleError) as caught:
        CONFIG({"queue": {"aging_thresholds": dict(zip(names, days, strict=True))}}, ())
    assert caught.value.key == "queue.aging_thresholds"


def test_the_rules_know_the_keys_of_the_documents_and_no_others() -> None:
    pairs = [
        (CONFIG_FIELDS, Config),
        (QUEUE_FIELDS, QueueModel),
        (AGENT_FIELDS, Agent),
        (PARALLEL_FIELDS, ParallelModel),
        (LOOP_FIELDS, Loop),
    ]
    for fields, model in pairs:
        assert set(fields) == set(model.model_fields)


def test_a_patch_has_the_fields_of_what_it_patches_in_the_same_order() -> None:
    for whole, patch in ((Agent, AgentPatch), (CiGate, CiGatePatch), (Notification, NotificationPatch)):
        assert list(whole.model_fields) == list(patch.model_fields)
