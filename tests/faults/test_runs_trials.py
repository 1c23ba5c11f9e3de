"""SIGKILL of client, daemon, shim and agent at random moments (`runs_trials.py` has the rules, and makes more of them)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from faults.runs_trials import VICTIMS, Trials, is_whole


def test_runs_with_kills_leave_no_orphan_start_nothing_twice_and_keep_all_output() -> None:
    """The agent's death has a test of its own below: here it depends on luck whether one is alive at the moment."""
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda seed: Trials(14, seed).all(), (1, 2)))
    assert all(sum(one.killed[victim] for one in done) > 0 for victim in VICTIMS if victim != "agent")
    assert sum(one.ended["ran"] for one in done) > 0


def test_an_agent_that_was_killed_is_asked_to_go_on_once_its_conversation_has_begun_and_begun_anew_before() -> None:
    """At chosen moments. What the second call has printed is not taken for the words of a first one that died before it kept any."""
    moments = {"called": False, "silent": False, "printed": True, "begun": True, "ended": True}
    trials = Trials(len(moments), 0)
    try:
        for number, (moment, goes_on) in enumerate(moments.items(), 1):
            first, second = (call["argv"] for call in trials.dies(number, moment))
            chosen = first[first.index("--session-id") + 1]
            assert second[-2:] == ["--resume", chosen] if goes_on else chosen not in second, moment
    finally:
        trials.faults.close()


def test_what_counts_as_whole_output() -> None:
    calls = [b"a\nb\n", b"a\nc\n"]
    assert is_whole(b"a\nb\na\nc\n", calls, False)
    assert is_whole(b"a\nb\nx\na\nc\n", calls, False)
    assert is_whole(b"a\na\n", [b"", b"a\n"], False)
    assert is_whole(b"a\nb\na", calls, True)
    for kept in (b"", b"a\nb\n", b"a\nb\na", b"b\na\nc\n", b"a\nb\nx\ny\na\nc\n", b"a\nb\na\nc\nx\ny\n"):
        assert not is_whole(kept, calls, False)
    assert not is_whole(b"a\na\nc\n", calls, True)
