"""Known failures of comparable software, in the form that they take when something runs (docs/cases.md has the list)."""

from __future__ import annotations

import json
import shutil
import time
from datetime import timedelta
from pathlib import Path

import pytest

from support.repository import session, task
from support.runs import Stage, finished, machine_run, nothing_left, start
from support.wire import Refused, Wire, wait_for
from support.world import Daemon, DidNotStart, World

MIB = 1024 * 1024
FIRST_GATES_FAIL = """#!/bin/sh
echo x >> "$GATES"; [ "$(wc -l < "$GATES")" -gt {number} ] || {{ echo "failure $(wc -l < "$GATES")" >&2; exit 1; }}
"""
WAITS = "begin(); open(HERE / 'waits', 'w').close(); wait_for('go'); work()"


def _with_gate(world: World, act: str, failures: int) -> Stage:
    """The CI gate fails that often."""
    gate = world.folder / "gate"
    gate.write_text(FIRST_GATES_FAIL.format(number=failures))
    gate.chmod(0o755)
    world.environ["GATES"] = str(world.folder / "gates")
    return Stage.make(world, act, ci_gate={"enabled": True, "argv": [str(gate)]})


def test_a_damaged_session_is_refused_and_moved_whole_by_a_fresh_start_alone_a01(world: World, daemon: Daemon) -> None:
    stage = Stage.make(world)
    damaged = bytes(642)
    world.repository.put(world.repository.session, damaged)
    for flags in ((), ("--resume",)):
        refused = machine_run(stage, "one", *flags)
        assert (refused.outcome, refused.code) == ("stalled", 1)
        assert world.repository.session.read_bytes() == damaged
    assert world.run("run", "one", "--fresh").returncode == 0
    (kept,) = (world.repository.cache / "session-quarantine").iterdir()
    assert kept.read_bytes() == damaged
    assert not world.repository.session.exists()


def test_a_session_that_somebody_writes_during_a_run_is_kept_beside_ours_a06(world: World, daemon: Daemon, wire: Wire) -> None:
    stage = Stage.make(world, f"if PHASE == 'plan':\n    {WAITS}\nelse:\n    work()", phases=2)
    foreign = session(task_id="RQ-0099")
    with nothing_left(stage), daemon.connect() as heard:
        heard.subscribe(kinds=["warning"])
        run_id = start(wire, stage)
        wait_for((stage.folder / "waits").exists, "the agent's beginning")
        world.repository.put(world.repository.session, foreign)
        stage.make_file("go")
        assert finished(wire, run_id)["summary"]["outcome"] == "ran"
        assert "session" in heard.event()["message"]
    assert foreign in [path.read_bytes() for path in (world.repository.ours / "history").iterdir()]
    assert not world.repository.session.exists()


def test_neither_a_call_of_another_version_nor_a_plain_stop_ends_a_run_d12(world: World, daemon: Daemon, wire: Wire) -> None:
    stage = Stage.make(world, WAITS)
    with nothing_left(stage), daemon.connect() as other:
        run_id = start(wire, stage)
        wait_for((stage.folder / "waits").exists, "the agent's beginning")
        with pytest.raises(Refused) as misfit:
            other.call("hello", client={"name": "old", "version": "9.9"}, protocol={"min": 900, "max": 901})
        with pytest.raises(Refused) as refused:
            wire.call("daemon.shutdown")
        assert (misfit.value.code, refused.value.code) == (-32006, -32004)
        assert world.run("daemon", "status").returncode == 0
        stage.make_file("go")
        assert finished(wire, run_id)["summary"]["outcome"] == "ran"


def test_of_two_clients_that_start_at_once_one_runs_a08(world: World, daemon: Daemon) -> None:
    stage = Stage.make(world, WAITS)
    with nothing_left(stage), daemon.connect() as one, daemon.connect() as other:
        request = {"jsonrpc": "2.0", "method": "run.start", "params": {"mode": "one", "env": world.environ}}
        for number, wire in ((1, one), (2, other)):
            wire.send(json.dumps(request | {"id": number}).encode() + b"\n")
        answers = [one.answer(), other.answer()]
        (run_id,) = [answer["result"]["run_id"] for answer in answers if "result" in answer]
        (refused,) = [answer["error"] for answer in answers if "error" in answer]
        assert (refused["code"], refused["data"]["run_id"]) == (-32004, run_id)
        stage.make_file("go")
        finished(one, run_id)
    assert len(stage.calls()) == 1


def test_of_two_starts_in_a_batch_one_runs_d21(world: World, wire: Wire) -> None:
    stage = Stage.make(world)
    params = {"mode": "one", "env": world.environ, "caller": world.caller}
    batch = [{"jsonrpc": "2.0", "id": number, "method": "run.start", "params": params} for number in (1, 2)]
    wire.send(json.dumps(batch).encode() + b"\n")
    answers = wire.line()
    assert isinstance(answers, list)
    (run_id,) = [answer["result"]["run_id"] for answer in answers if "result" in answer]
    assert [answer["error"]["code"] for answer in answers if "error" in answer] == [-32004]
    finished(wire, run_id)
    assert len(stage.calls()) == 1


GONE_ONCE = """
if RESUMED and NUMBER == 2:
    words = f"No conversation found with session ID: {RESUMED}"
    say(type="result", subtype="error_during_execution", is_error=True, errors=[words])
    print(words, file=sys.stderr)
    sys.exit(1)
work()
"""


def test_a_lost_conversation_is_replaced_once_and_never_asked_for_again_a10(world: World, daemon: Daemon) -> None:
    stage = _with_gate(world, GONE_ONCE, 2)
    told = machine_run(stage)
    assert told.outcome == "ran"
    fresh, lost, again, more = [call["argv"] for call in stage.calls()]
    old, new = (argv[argv.index("--session-id") + 1] for argv in (fresh, again))
    assert lost[lost.index("--resume") + 1] == old
    assert more[more.index("--resume") + 1] == new != old
    said = [event["payload"] for event in told.events if event["kind"] == "resume_decision"]
    assert [(one["status"], one["reason"]) for one in said] == [
        ("resuming_same_session", "session_valid"),
        ("falling_back_to_fresh_invocation", "runner_session_invalid"),
        ("resuming_same_session", "session_valid"),
    ]


def test_nothing_said_at_exit_0_is_no_success_a11(world: World, daemon: Daemon) -> None:
    stage = Stage.make(world, "sys.exit(0)")
    told = machine_run(stage)
    _did_not_count(stage, told.outcome)
    assert "phase_completed" not in told.kinds


def test_a_success_that_is_an_error_is_none_a13(world: World, daemon: Daemon) -> None:
    last = "say(type='result', subtype='success', is_error=True, terminal_reason='api_error', num_turns=484, result='revoked')"
    stage = Stage.make(world, f"begin(); text('so far'); {last}")
    told = machine_run(stage)
    _did_not_count(stage, told.outcome)
    assert "revoked" in told.warnings[-1]
    assert machine_run(stage, "one", "--resume").outcome == "failed"


@pytest.mark.parametrize("words", ["usage limit reached", "limit will be over on the 31st at 25:99 (Nowhere/Atall)"])
def test_a_usage_limit_does_not_count_and_is_not_hammered_a14(world: World, daemon: Daemon, wire: Wire, words: str) -> None:
    limit = f"say(type='result', subtype='success', is_error=True, api_error_status=429, result={words!r}, session_id=ID)"
    stage = Stage.make(world, f"begin(); {limit}; sys.exit(1)", runner_retry={"max_attempts": 5, "base_backoff_ms": 1})
    with daemon.connect() as heard:
        run_id = start(wire, stage)
        stage.was_called()
        wait_for(lambda: not stage.processes(), "the agent's end")
        heard.subscribe(run_id=run_id, kinds=["phase_entered"])  # what the first call printed may be told yet
        assert heard.is_quiet(1.5), "a millisecond was configured; a limit lasts longer"
    assert len(stage.calls()) == 1
    assert wire.call("run.cancel", run_id=run_id)["summary"]["outcome"] == "stopped"
    _did_not_count(stage, "failed")


def test_a_resume_without_a_conversation_never_takes_the_latest_one_a18(world: World, daemon: Daemon) -> None:
    stage = Stage.make(world, tasks=(task(1, "doing"),))
    world.repository.put(world.repository.session, session(iterations_planned=1, iterations_completed=0))
    assert machine_run(stage, "one", "--resume").outcome == "ran"
    (call,) = stage.calls()
    assert "--session-id" in call["argv"]
    assert not {"--continue", "-c", "--resume", "-r"} & set(call["argv"])


def test_a_killed_agent_s_output_stays_beside_the_next_one_s_a26(world: World, daemon: Daemon, wire: Wire) -> None:
    stage = Stage.make(world, "begin(); print('x' * (1 << 20), flush=True); text('before'); os.kill(os.getpid(), 9)")
    first = start(wire, stage)
    assert finished(wire, first)["summary"]["outcome"] == "failed"
    before = _output(world, first)
    assert len(before) > MIB
    stage.act("work('after')")
    second = start(wire, stage, "one", resume=True)
    assert finished(wire, second)["summary"]["outcome"] == "ran"
    assert _output(world, first) == before
    assert b"after" in _output(world, second)
    assert b"before" not in _output(world, second)


def test_an_old_session_traps_no_other_task_a27(world: World, daemon: Daemon) -> None:
    stage = Stage.make(world, tasks=(task(1, "doing"), task(2, "todo")))
    old = session(timedelta(hours=30))
    world.repository.put(world.repository.session, old)
    for flags in ((), ("--resume",)):
        refused = machine_run(stage, "one", *flags)
        assert refused.outcome == "stalled"
        assert world.repository.session.read_bytes() == old
    told = machine_run(stage, "one", "--id", "RQ-0002")
    assert told.outcome == "ran"
    (said,) = [event["payload"] for event in told.events if event["kind"] == "resume_decision"]
    assert (said["reason"], said["task_id"]) == ("explicit_task_selection_overrides_session", "RQ-0001")
    assert old in [path.read_bytes() for path in (world.repository.ours / "history").iterdir()]


def test_a_start_that_is_refused_or_fails_keeps_the_session_a30(world: World, daemon: Daemon) -> None:
    stage = Stage.make(world, "sys.exit(41)", tasks=(task(1, "doing"),))
    path = world.repository.session
    world.repository.put(path, session())
    before = path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns
    assert machine_run(stage).outcome == "stalled"
    assert (path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns) == before
    told = machine_run(stage, "one", "--resume")
    assert told.outcome == "failed"
    assert "41" in told.warnings[-1]
    kept = json.loads(path.read_bytes())
    assert (kept["task_id"], kept["current_phase"], kept["iterations_completed"]) == ("RQ-0001", 2, 1)


def test_what_a_run_writes_is_strict_json_whatever_it_read_b01(world: World, daemon: Daemon) -> None:
    copy = "import shutil; shutil.copy('.cueloop/cache/session.jsonc', HERE / 'session')"
    stage = Stage.make(world, f"{copy}; work()", tasks=(task(1, "doing"),))
    world.repository.put(world.repository.session, b"// mine\n" + session().replace(b"\n}", b",\n}"))
    assert machine_run(stage, "one", "--resume").outcome == "ran"
    written = json.loads((stage.folder / "session").read_bytes())
    assert (written["session_id"], written["current_phase"]) == ("550e8400-e29b-41d4-a716-446655440000", 2)


def test_a_second_daemon_leaves_a_run_alone_d02(world: World, wire: Wire) -> None:
    stage = Stage.make(world, WAITS)
    with nothing_left(stage):
        run_id = start(wire, stage)
        wait_for((stage.folder / "waits").exists, "the agent's beginning")
        with pytest.raises(DidNotStart) as refused:
            world.start()
        assert refused.value.code == 3
        stage.make_file("go")
        assert finished(wire, run_id)["summary"]["outcome"] == "ran"


def test_a_daemon_whose_starter_s_folder_is_gone_starts_agents_in_the_root_d10(world: World) -> None:
    stage = Stage.make(world)
    folder = world.folder / "gone"
    folder.mkdir()
    world.start(at_home=True, cwd=folder)
    folder.rmdir()
    assert machine_run(stage).outcome == "ran"
    assert [call["cwd"] for call in stage.calls()] == [str(world.repository.path)]


def test_a_repository_that_goes_under_a_run_takes_its_agent_along_d11(world: World) -> None:
    stage = Stage.make(world, WAITS)
    daemon = world.start(at_home=True)
    with nothing_left(stage):
        with daemon.connect() as wire:
            start(wire, stage)
            wait_for((stage.folder / "waits").exists, "the agent's beginning")
        shutil.rmtree(world.repository.path)
        wait_for(lambda: not stage.processes(), "the agent's end", 30)
        assert daemon.process.wait(30) is not None
    assert not world.repository.path.exists()


FLOOD = """
begin()
piece = (b"x" * 99 + b"\\n") * 10486
for _ in range(200):
    rest = memoryview(piece)
    while rest:
        rest = rest[os.write(1, rest):]
end()
"""


def test_a_subscriber_that_reads_nothing_of_much_output_delays_nobody_d16(world: World, daemon: Daemon, wire: Wire) -> None:
    stage = Stage.make(world, FLOOD)
    with daemon.connect() as deaf:
        deaf.subscribe()
        run_id = start(wire, stage)
        slowest = 0.0
        while wire.call("run.get", run_id=run_id)["run"]["state"] != "finished":
            began = time.monotonic()
            wire.call("ping")
            slowest = max(slowest, time.monotonic() - began)
        assert wire.call("run.get", run_id=run_id)["run"]["summary"]["outcome"] == "ran"
        assert slowest < 2
        assert daemon.resident() < 120 * MIB


def test_neither_marks_of_an_outer_agent_nor_another_caller_s_secrets_reach_an_agent_e14(world: World, daemon: Daemon) -> None:
    stage = Stage.make(world, tasks=(task(1, "todo"), task(2, "todo")))
    first = machine_run(stage, environ={"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli", "SECRET": "mine"})
    assert first.outcome == machine_run(stage, "one", "--force").outcome == "ran"
    one, other = (call["env"] for call in stage.calls())
    assert not {"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"} & set(one)
    assert one["SECRET"] == "mine"
    assert "SECRET" not in other
    kept = [path for path in world.repository.cache.rglob("*") if path.is_file() and b"SECRET" in path.read_bytes()]
    assert kept == []


@pytest.mark.parametrize(("end", "words"), [("os.kill(os.getpid(), 9)", "signal 9"), ("sys.exit(137)", "exit code 137")])
def test_a_signal_is_no_exit_code_e18(world: World, daemon: Daemon, end: str, words: str) -> None:
    told = machine_run(Stage.make(world, f"begin(); {end}"))
    assert told.outcome == "failed"
    assert words in told.warnings[-1].replace("SIGKILL", "signal 9")


def _output(world: World, run_id: str) -> bytes:
    """What is kept of the standard output of a run's children."""
    folder: Path = world.repository.ours / "runs" / run_id
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.out.*")))


def _did_not_count(stage: Stage, outcome: str) -> None:
    assert outcome == "failed"
    assert stage.statuses() == ({"RQ-0001": "doing"}, {})
    saved = json.loads(stage.world.repository.session.read_bytes())
    assert (saved["task_id"], saved["iterations_completed"]) == ("RQ-0001", 0)
