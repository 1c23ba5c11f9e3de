"""The table of orders over the real socket: each twice, in every order that a daemon's crash can bring."""

from __future__ import annotations

import pytest

from shim.shim_process import Talk, World, is_alive, wait_for

LOCK = {"label": "run one", "command": "cueloopd run r", "started_at": "2026-01-02T03:04:05Z"}


def started(world: World, talk: Talk, n: int, code: str = "import time; time.sleep(1000)", **limits: object) -> int:
    """A child that runs; its pid."""
    world.python(n, code, **limits)
    word, told = talk.ask("start", n=n, token="t")
    assert word == "started", told
    return int(str(told["pid"]))


def test_lock_twice_and_unlock_twice(world: World) -> None:
    talk = world.start()
    word, first = talk.ask("lock", n=1, **LOCK)
    assert word == "made"
    assert talk.ask("lock", n=1, **LOCK) == (word, first)
    assert talk.ask("lock", n=7, **LOCK) == (word, {**first, "n": 7}), "another number, the same lock"
    owner = (world.root / ".cueloop/lock/owner").read_text()
    assert owner == first["owner"]
    assert owner == f"pid: {world.shim.pid}\nstarted_at: {LOCK['started_at']}\ncommand: cueloopd run r\nlabel: run one\n"
    assert talk.ask("unlock", n=8) == ("unlocked", {"to": "unlock", "n": 8, "left": []})
    assert not (world.root / ".cueloop/lock").exists()
    assert talk.ask("unlock", n=8)[0] == "absent"
    assert [word for word, _ in world.records()] == ["up", "lock", "unlock"]


def test_a_lock_that_somebody_took_away_is_made_anew(world: World) -> None:
    talk = world.start()
    _, first = talk.ask("lock", n=1, **LOCK)
    (world.root / ".cueloop/lock").rename(world.root / ".cueloop/taken")
    word, second = talk.ask("lock", n=2, **LOCK)
    assert word == "made"
    assert second["ino"] != first["ino"]


def test_a_lock_that_somebody_else_has_now_is_not_unlocked(world: World) -> None:
    talk = world.start()
    talk.ask("lock", n=1, **LOCK)
    (world.root / ".cueloop/lock").rename(world.root / ".cueloop/taken")
    (world.root / ".cueloop/lock").mkdir()
    (world.root / ".cueloop/lock/owner").write_text("pid: 1\n")
    assert talk.ask("unlock", n=2)[0] == "foreign"
    assert (world.root / ".cueloop/lock/owner").read_text() == "pid: 1\n"
    assert talk.ask("end")[0] == "bye", "it has no lock to hold it back"


def test_start_twice_is_one_child(world: World) -> None:
    talk = world.start()
    world.order(1, "/bin/sh", "-c", "echo ran >> ran; sleep 1000")
    talk.send("start", n=1, token="t")
    talk.send("start", n=1, token="t")
    word, first = talk.answer("start", 1)
    assert word == "started"
    assert talk.ask("start", n=1, token="t") == (word, first), "while it runs"
    wait_for(lambda: (world.root / "ran").exists())
    assert talk.ask("signal", n=1, grace=1.0)[0] == "gone"
    word, told = talk.ask("start", n=1, token="t")
    assert (word, told["pid"], told["start"]) == ("exited", first["pid"], first["start"])
    assert talk.ask("start", n=1, token="t") == (word, told), "after its end"
    assert (world.root / "ran").read_text() == "ran\n"


def test_start_twice_of_what_cannot_be_started(world: World) -> None:
    talk = world.start()
    world.order(1, "/nowhere/at/all")
    failed = ("failed", {"to": "start", "n": 1, "stage": "exec", "errno": 2})
    assert talk.ask("start", n=1, token="t") == failed
    world.order(1, "/bin/true")
    assert talk.ask("start", n=1, token="t") == failed, "what became of it stands"
    assert ("failed", {"n": 1, "stage": "exec", "errno": 2}) in world.records()


@pytest.mark.parametrize(
    ("content", "errno"), [(None, 2), (b"", 22), (b'{"token": "t", "kind": "agent", "argv": ["sh"], "env": {}}', 22)]
)
def test_an_order_that_cannot_be_read(world: World, content: bytes | None, errno: int) -> None:
    talk = world.start()
    if content is not None:
        world.write("1.order", content)
    assert talk.ask("start", n=1, token="t") == ("failed", {"to": "start", "n": 1, "stage": "order", "errno": errno})


def test_another_token_is_a_conflict_and_never_obeyed(world: World) -> None:
    talk = world.start()
    world.order(1, "/bin/sh", "-c", "echo ran >> ran")
    assert talk.ask("start", n=1, token="other")[0] == "conflict"
    assert talk.ask("start", n=1, token="t")[0] == "started"
    talk.pushed("exited")
    assert talk.ask("start", n=1, token="other")[0] == "conflict"
    assert (world.root / "ran").read_text() == "ran\n"


def test_one_child_at_a_time(world: World) -> None:
    talk = world.start()
    started(world, talk, 1)
    world.order(2, "/bin/true")
    assert talk.ask("start", n=2, token="t")[0] == "busy"
    assert talk.ask("signal", n=1, grace=1.0)[0] == "gone"
    assert talk.ask("start", n=2, token="t")[0] == "started", "busy is no verdict"


def test_signal_before_start_bars_it_for_good(world: World) -> None:
    talk = world.start()
    world.order(1, "/bin/sh", "-c", "echo ran >> ran")
    assert talk.ask("signal", n=1, grace=1.0)[0] == "barred"
    assert talk.ask("signal", n=1, grace=1.0)[0] == "barred"
    assert talk.ask("start", n=1, token="t")[0] == "barred"
    assert not (world.root / "ran").exists()
    assert world.records()[1:] == [("bar", {"n": 1})]


def test_signal_twice_joins(world: World) -> None:
    talk = world.start()
    pid = started(
        world, talk, 1, "import signal, time; signal.signal(2, lambda *_: None); print(1, flush=True); time.sleep(1000)"
    )
    talk.pushed("grown")
    talk.send("signal", n=1, grace=30.0)
    talk.send("signal", n=1, grace=0.2)
    assert talk.answer("signal", 1)[0] == "gone"
    assert not is_alive(pid)
    told = talk.pushed("exited")
    assert (told["code"], told["signal"], told["cause"]) == (None, 15, "signal"), "the sooner of both, and TERM before KILL"
    assert talk.ask("signal", n=1, grace=1.0)[0] == "gone"


def test_signal_and_start_in_one_breath(world: World) -> None:
    """A cancel that overtakes the exec: whatever it met, the child is gone and said to be."""
    talk = world.start()
    for n in range(1, 21):
        world.order(n, "/bin/sleep", "1000")
        talk.send("start", n=n, token="t")
        talk.send("signal", n=n, grace=0.0)
        assert talk.answer("signal", n)[0] == "gone"
        assert talk.answer("start", n)[0] in ("started", "exited", "failed")
        assert talk.ask("status")[1]["child"] is None


def test_acknowledged_orders_are_forgotten_and_never_obeyed_again(world: World) -> None:
    talk = world.start()
    world.order(1, "/bin/sh", "-c", "echo ran >> ran")
    talk.ask("start", n=1, token="t")
    talk.pushed("exited")
    assert talk.ask("status")[1]["orders"] == {"1": "exited"}
    for _ in range(2):
        talk.send("ack", upto=1)
        assert talk.until(lambda _, told: told.get("to") == "ack") == ("ok", {"to": "ack", "upto": 1})
    assert talk.ask("status")[1]["orders"] == {}
    assert talk.ask("start", n=1, token="t")[0] == "forgotten"
    assert talk.ask("signal", n=1, grace=1.0)[0] == "forgotten"
    assert (world.root / "ran").read_text() == "ran\n"


def test_acknowledging_keeps_the_live_child(world: World) -> None:
    talk = world.start()
    pid = started(world, talk, 3)
    talk.send("ack", upto=9)
    _, state = talk.ask("status")
    assert state["orders"] == {"3": "started"}
    child = state["child"]
    assert isinstance(child, dict)
    assert child["pid"] == pid


def test_the_state_says_everything(world: World) -> None:
    talk = world.start()
    _, made = talk.ask("lock", n=1, **LOCK)
    talk.ask("signal", n=2, grace=1.0)
    world.python(3, "import os, time; os.write(1, b'12345'); os.write(2, b'123'); time.sleep(1000)")
    _, run = talk.ask("start", n=3, token="t")
    talk.until(lambda word, told: word == "grown" and (told["out"], told["err"]) == (5, 3))
    word, state = world.talk().hello(world.run_id)
    child = {"n": 3, "pid": run["pid"], "start": run["start"], "out": 5, "err": 3}
    lock = {"dev": made["dev"], "ino": made["ino"]}
    orders = {"2": "barred", "3": "started"}
    assert (word, state) == ("shim", {"protocol": 1, "orders": orders, "child": child, "lock": lock, "cancelled": False})


def test_end_is_refused_with_a_child_or_a_lock(world: World) -> None:
    talk = world.start()
    talk.ask("lock", n=1, **LOCK)
    assert talk.ask("end")[0] == "busy"
    started(world, talk, 2)
    talk.ask("unlock", n=3)
    assert talk.ask("end")[0] == "busy"
    talk.ask("signal", n=2, grace=1.0)
    assert talk.ask("end")[0] == "bye"
    assert world.shim.wait() == 0
    assert talk.is_cut()
    assert world.records()[-1] == ("bye", {"why": "end"})


def test_limits_twice(world: World) -> None:
    """The last word was seen: the child must leave within half a second, and the cause says why it had to."""
    talk = world.start()
    started(world, talk, 1, idle=1000.0)
    assert talk.ask("limits", n=1, leave_within=0.5)[0] == "ok"
    assert talk.ask("limits", n=1, leave_within=0.5)[0] == "ok"
    assert talk.ask("limits", n=99, leave_within=0.5)[0] == "ok", "of no child"
    told = talk.pushed("exited")
    assert (told["n"], told["cause"], told["signal"]) == (1, "leave", 2)


def test_a_word_of_another_protocol_is_no_end(world: World) -> None:
    talk = world.start()
    talk.send("dance", n=1)
    assert talk.read() == ("unknown", {"to": "dance"})
    assert talk.ask("status")[0] == "state"
