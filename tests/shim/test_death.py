"""What is true after the shim's death, whenever it comes; and how it dies when it may choose."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from cueloop_daemon.shim.output import SEGMENT
from shim.shim_process import HASTY, Closed, Talk, World, is_alive, wait_for, with_run_id

LOCK = {"label": "run one", "command": "cueloopd run r", "started_at": "2026-01-02T03:04:05Z"}
DYING = """
import os, sys
sys.path.extend(sys.argv[1:3])
from cueloop_daemon.shim import boot, record
add, count = record.Record.add, 0
def dying(self, word, **fields):
    global count
    count += 1
    if (count, 'before') == {point}: os.kill(os.getpid(), 9)
    failure = add(self, word, **fields)
    if (count, 'after') == {point}: os.kill(os.getpid(), 9)
    return failure
record.Record.add = dying
sys.exit(boot.main(sys.argv[3:]))
"""
STORY = ("up", "lock", "child", "exit", "child", "failed", "bar", "unlock", "bye")
"""The records of `tell_story`, in order."""
POINTS = [(number, moment) for number in range(1, len(STORY) + 1) for moment in ("before", "after")]


def tell_story(world: World, talk: Talk) -> None:
    """Something of everything that is put on record."""
    world.order(2, "/bin/sh", "-c", "echo ran >> ran; echo out")
    world.order(3, "/nowhere/at/all")
    talk.ask("lock", n=1, **LOCK)
    talk.ask("start", n=2, token="t")
    talk.pushed("exited")
    talk.ask("start", n=3, token="t")
    talk.ask("signal", n=4, grace=1.0)
    talk.ask("unlock", n=5)
    talk.ask("end")
    talk.is_cut()


def test_the_story_has_these_records(world: World) -> None:
    """So that a new record is a new point to die at."""
    tell_story(world, world.start())
    assert tuple(word for word, _ in world.records()) == STORY


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point[1]} {point[0]} {STORY[point[0] - 1]}")
def test_kill_9_around_each_record(world: World, point: tuple[int, str]) -> None:
    """The record is a true prefix: what it says has happened, and what is not in it has not begun."""
    process, told = world.spawn(DYING.format(point=point))
    if "ready" in told:
        with contextlib.suppress(Closed, ConnectionResetError, BrokenPipeError):
            tell_story(world, world.connect())
    assert process.wait() == -signal.SIGKILL
    records = world.records() if (world.folder / "shim.jsonl").exists() else []
    words = tuple(word for word, _ in records)
    assert words == STORY[: point[0] - (point[1] == "before")]
    wait_for(lambda: not [pid for pid in with_run_id(world.run_id) if is_alive(pid)])
    ran = (world.root / "ran").exists()
    if "child" not in words:
        assert not ran, "nothing runs that is not on record"
    if "exit" in words:
        assert ran
        assert world.output(2) == b"out\n", "output is complete when its end is on record"
    lock = world.root / ".cueloop/lock"
    if lock.exists():
        ((_, made),) = [record for record in records if record[0] == "lock"]
        status = lock.stat()
        assert (status.st_dev, status.st_ino, (lock / "owner").read_text()) == (made["dev"], made["ino"], made["owner"])
        assert "unlock" not in words
    elif "lock" in words:
        assert "exit" not in words or "bar" in words, "between the record and its name, or after it was let go"
    leftovers = [path.name for path in (world.root / ".cueloop").iterdir() if path.name.startswith(".lock-")]
    assert leftovers == [] or words[-1] == "lock" or words == ("up",)


def test_gate_a_child_whose_shim_dies_before_the_record_executes_nothing(world: World) -> None:
    """Killed between fork and record: the child has waited for a byte that never comes."""
    process, _ = world.spawn(DYING.format(point=(2, "before")))
    talk = world.connect()
    world.order(1, "/bin/sh", "-c", "echo ran > ran")
    talk.send("start", n=1, token="t")
    assert process.wait() == -signal.SIGKILL
    wait_for(lambda: not shims_below(world))
    assert not (world.root / "ran").exists()
    assert [word for word, _ in world.records()] == ["up"]


def test_gate_a_child_whose_record_cannot_be_written_executes_nothing(world: World) -> None:
    boot = (
        "import os, sys; sys.path.extend(sys.argv[1:3]); from cueloop_daemon.shim import boot\n"
        "pwrite = os.pwrite\n"
        "def full(fd, data, offset):\n"
        "    if b'child' in data: raise OSError(28, 'No space left on device')\n"
        "    return pwrite(fd, data, offset)\n"
        "os.pwrite = full\n"
        "sys.exit(boot.main(sys.argv[3:]))"
    )
    talk = world.start(boot)
    world.order(1, "/bin/sh", "-c", "echo ran > ran")
    assert talk.ask("start", n=1, token="t") == ("failed", {"to": "start", "n": 1, "stage": "record", "errno": 28})
    assert not (world.root / "ran").exists()
    assert talk.ask("status")[1]["child"] is None
    assert world.records()[1:] == [("failed", {"n": 1, "stage": "record", "errno": 28})]


def shims_below(world: World) -> list[int]:
    """Live processes with the run's folder open: the shim, and children that wait at the gate."""
    found = []
    for path in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(path) in (str(world.root), str(world.folder)) and int(path.parts[2]) != os.getpid():
                found.append(int(path.parts[2]))
    return found


def test_e03_the_agent_outlives_the_daemon_and_its_output_is_complete(world: World) -> None:
    """The daemon's connection breaks; the next one finds the same child, and all that it has said."""
    talk = world.start()
    world.python(1, "import time\nfor number in range(200): print(number, flush=True); time.sleep(0.005)")
    _, first = talk.ask("start", n=1, token="t")
    talk.close()
    again = world.connect(generation=2)
    word, told = again.ask("start", n=1, token="t")
    assert word in ("started", "exited")
    assert told["pid"] == first["pid"]
    if word == "started":
        told = again.pushed("exited")
    assert told["code"] == 0
    assert world.output(1) == b"".join(b"%d\n" % number for number in range(200))
    assert told["out"] == len(world.output(1))


def test_sigterm_is_a_cancel(world: World) -> None:
    """The child ends, the lock is let go, it is told and on record; a daemon may still ask and say goodbye."""
    talk = world.start()
    talk.ask("lock", n=1, **LOCK)
    world.order(2, "/bin/sleep", "1000", grace=1.0)
    _, told = talk.ask("start", n=2, token="t")
    world.shim.terminate()
    talk.pushed("cancelled")
    exited = talk.pushed("exited")
    assert (exited["cause"], exited["signal"]) == ("cancel", 2)
    assert not is_alive(int(str(told["pid"])))
    wait_for(lambda: not (world.root / ".cueloop/lock").exists())
    world.order(3, "/bin/true")
    assert talk.ask("start", n=3, token="t")[0] == "barred"
    assert talk.ask("lock", n=4, **LOCK)[0] == "error"
    assert talk.ask("status")[1]["cancelled"] is True
    assert world.connect(generation=2).ask("end")[0] == "bye"
    assert world.shim.wait() == 0
    assert [word for word, _ in world.records()] == ["up", "lock", "child", "cancelled", "exit", "unlock", "bar", "bye"]


def test_sigterm_without_a_daemon(world: World) -> None:
    """It waits for one a while and then leaves; who comes later reads it in the record."""
    world.start().close()
    began = time.monotonic()
    world.shim.terminate()
    assert world.shim.wait(30) == 0
    assert time.monotonic() - began > 5
    assert world.records()[1:] == [("cancelled", {}), ("bye", {"why": "cancelled"})]
    assert not os.path.exists(world.socket)


def test_a_fault_leaves_nothing_behind(world: World) -> None:
    """Whatever breaks in the shim itself: child and lock go with it."""
    boot = (
        "import sys; sys.path.extend(sys.argv[1:3]); from cueloop_daemon.shim import boot, orders\n"
        "def broken(self, *_): raise RuntimeError('broken')\n"
        "orders.Orders._acknowledge = broken\n"
        "sys.exit(boot.main(sys.argv[3:]))"
    )
    _, told = world.spawn(boot)
    assert "ready" in told
    talk = world.connect()
    talk.ask("lock", n=1, **LOCK)
    world.order(2, "/bin/sh", "-c", "trap '' INT TERM; sleep 1000")
    talk.ask("start", n=2, token="t")
    talk.send("ack", upto=1)
    assert world.shim.wait() == 1
    assert not [pid for pid in with_run_id(world.run_id) if is_alive(pid)]
    assert not (world.root / ".cueloop/lock").exists()
    assert world.records()[-1] == ("bye", {"why": "fault"})
    assert "RuntimeError: broken" in (world.folder / "shim.log").read_text()


@pytest.mark.parametrize("what", ["folder", "lock", "tombstone", "root"])
def test_its_place_is_gone(world: World, what: str) -> None:
    """The agent ends, the lock is let go, and the shim leaves, without anybody's word."""
    talk = world.start(None if what == "folder" else HASTY)
    talk.ask("lock", n=1, **LOCK)
    world.order(2, "/bin/sleep", "1000", grace=1.0)
    _, told = talk.ask("start", n=2, token="t")
    home = world.root
    match what:
        case "folder":
            shutil.rmtree(world.folder)
        case "lock":
            (world.folder / "shim.lock").unlink()
        case "tombstone":
            world.write("over", b"")
        case _:
            home = world.root.rename(world.root.parent / "moved")
    assert talk.pushed("exited")["cause"] == "folder"
    assert world.shim.wait(30) == 0
    assert not is_alive(int(str(told["pid"])))
    assert not (home / ".cueloop/lock").exists()
    assert not os.path.exists(world.socket)


def test_c06_a_folder_that_blinks_is_no_loss(world: World) -> None:
    """A checkout takes it away and brings it back within a second or two."""
    talk = world.start()
    world.order(1, "/bin/sleep", "1000")
    talk.ask("start", n=1, token="t")
    for gap in (0.0, 0.05, 1.5):
        world.root.rename(world.root.parent / "away")
        time.sleep(gap)
        (world.root.parent / "away").rename(world.root)
        os.unlink(world.socket)
        wait_for(lambda: os.path.exists(world.socket))  # it has looked around meanwhile
    _, state = talk.ask("status")
    assert state["orders"] == {"1": "started"}


def test_d29_limits_after_a_stop_of_everything(world: World) -> None:
    """SIGSTOP of shim and agent for longer than every limit: none fires by the gap alone."""
    talk = world.start()
    world.python(1, "import time; print('x', flush=True); time.sleep(7)", idle=6.0, wall=12.0)
    _, told = talk.ask("start", n=1, token="t")
    talk.pushed("grown")
    pids = (world.shim.pid, int(str(told["pid"])))
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(4)  # the gap itself
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    exited = talk.pushed("exited")
    assert (exited["cause"], exited["code"]) == ("self", 0)


def test_a_full_disk_costs_output_and_nothing_else(world: World) -> None:
    """The child goes on and ends as it would; what was lost is counted, and told once."""
    boot = (
        "import sys; sys.path.extend(sys.argv[1:3]); from cueloop_daemon.shim import boot\n"
        "import resource\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({SEGMENT // 8}, {SEGMENT // 8}))\n"
        "sys.exit(boot.main(sys.argv[3:]))"
    )
    talk = world.start(boot)
    size = SEGMENT // 2
    world.order(1, "/bin/sh", "-c", f"head -c {size} /dev/zero; exit 3")
    talk.ask("start", n=1, token="t")
    trouble = talk.pushed("trouble")
    assert trouble == {"what": "output", "errno": 27}
    told = talk.pushed("exited")
    assert told["code"] == 3
    assert (told["out"], told["dropped"]) == (SEGMENT // 8, size - SEGMENT // 8)
    assert len(world.output(1)) == SEGMENT // 8
