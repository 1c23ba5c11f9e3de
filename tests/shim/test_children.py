"""Real children that behave as agents do in the wild: what is seen of them, and that nothing of them is left."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.shim_process import Message, Talk, World, is_alive, wait_for, with_run_id

MIB = 1024 * 1024
SLEEP = "import time; time.sleep(1000)"


def run(world: World, talk: Talk, code: str, n: int = 1, **limits: object) -> Message:
    """Run a Python program to its end; what `exited` says."""
    world.python(n, code, **limits)
    word, told = talk.ask("start", n=n, token="t")
    assert word == "started", told
    return talk.pushed("exited")


def assert_nobody(world: World) -> None:
    """No process of the run is left."""
    wait_for(lambda: not [pid for pid in with_run_id(world.run_id) if is_alive(pid)])


def pids_in(world: World, count: int) -> list[int]:
    """The pids that the child has written, once they are all there."""
    path = world.root / "pids"
    wait_for(lambda: path.exists() and len(path.read_text().split()) == count)
    return [int(one) for one in path.read_text().split()]


@pytest.mark.parametrize("code", [0, 1, 2, 41, 126, 127, 130, 137, 143, 255])
def test_e18_exit_codes_are_codes(world: World, code: int) -> None:
    told = run(world, world.start(), f"import os; os._exit({code})")
    assert (told["code"], told["signal"], told["cause"]) == (code, None, "self")


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ]
)
def test_e18_signals_are_signals(world: World, number: signal.Signals) -> None:
    """Also those that Python ignores: a child begins with the default of each."""
    world.order(1, "/bin/sh", "-c", f"kill -{int(number)} $$")
    talk = world.start()
    talk.ask("start", n=1, token="t")
    told = talk.pushed("exited")
    assert (told["code"], told["signal"], told["cause"]) == (None, int(number), "self"), "from outside: no cause of ours"


def test_signals_are_at_their_defaults_and_none_is_blocked(world: World) -> None:
    world.order(1, "/bin/sh", "-c", "grep -E 'SigBlk|SigIgn' /proc/self/status")
    talk = world.start()
    talk.ask("start", n=1, token="t")
    talk.pushed("exited")
    found = [int(line.split()[1], 16) for line in world.output(1).decode().splitlines()]
    # 32 and 33 are the C library's own: nobody can set them, so they are as whoever ran the tests left them.
    assert [mask & ~(0b11 << 31) for mask in found] == [0, 0]


def test_e01_without_a_prompt_stdin_is_at_its_end(world: World) -> None:
    told = run(world, world.start(), "import sys; print(repr(sys.stdin.read()))")
    assert told["code"] == 0
    assert world.output(1) == b"''\n"


def test_e01_a_prompt_is_read_to_its_end(world: World) -> None:
    """Larger than any pipe, read slowly, without anybody feeding it."""
    prompt = b"x" * (3 * MIB)
    world.write("1.prompt", prompt)
    told = run(world, world.start(), "import sys; print(len(sys.stdin.buffer.read()))", stdin="1.prompt")
    assert told["code"] == 0
    assert world.output(1) == b"%d\n" % len(prompt)


def test_a_prompt_may_be_named_by_its_whole_path(world: World) -> None:
    world.write("1.prompt", b"hello")
    run(world, world.start(), "import sys; print(sys.stdin.read())", stdin=str(world.folder / "1.prompt"))
    assert world.output(1) == b"hello\n"


@pytest.mark.parametrize("kind", ["missing", "fifo", "folder"])
def test_a_prompt_that_is_no_file(world: World, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(world.folder / "1.prompt")
    elif kind == "folder":
        (world.folder / "1.prompt").mkdir()
    world.python(1, "pass", stdin="1.prompt")
    word, told = world.start().ask("start", n=1, token="t")
    assert (word, told["stage"], told["errno"]) == ("failed", "open", 2 if kind == "missing" else 22)


def test_e02_a_grandchild_that_keeps_the_pipe_open(world: World) -> None:
    """The leader's own code, all it said, and the grandchild is gone."""
    talk = world.start()
    world.order(1, "/bin/sh", "-c", "sleep 1000 & echo $! > pids; echo done; exit 7", grace=1.0)
    talk.ask("start", n=1, token="t")
    told = talk.pushed("exited")
    assert (told["code"], told["cause"], told["left"]) == (7, "self", [])
    assert world.output(1) == b"done\n"
    assert not is_alive(pids_in(world, 1)[0])
    assert_nobody(world)


def test_e02_what_a_grandchild_says_while_it_is_waited_for_is_kept(world: World) -> None:
    world.order(1, "/bin/sh", "-c", "(sleep 0.3; echo late) & echo early")
    talk = world.start()
    talk.ask("start", n=1, token="t")
    assert talk.pushed("exited")["code"] == 0
    assert world.output(1) == b"early\nlate\n"


def test_e04_the_leader_dies_politely_and_its_child_does_not(world: World) -> None:
    talk = world.start()
    code = (
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\n"
        "    open('pids', 'a').write(f'{os.getpid()}\\n')\n"
        "    while True: time.sleep(0.01)\n"
        "time.sleep(1000)"
    )
    world.python(1, code)
    talk.ask("start", n=1, token="t")
    (grandchild,) = pids_in(world, 1)
    assert talk.ask("signal", n=1, grace=0.4)[0] == "gone"
    assert not is_alive(grandchild), "gone is said of the whole group"
    assert_nobody(world)
    told = talk.pushed("exited")
    assert (told["signal"], told["cause"], told["left"]) == (2, "signal", [])


ESCAPES = {
    "ignores": "{ignore}; {note}; {stay}",
    "forks": "{ignore}\nfor _ in range(3): os.fork()\n{note}; {stay}",
    "double fork": "{ignore}\nif os.fork() == 0:\n    if os.fork() == 0:\n        {note}; {stay}\n    os._exit(0)\nos.wait(); {stay}",
    "setsid": "{ignore}\nif os.fork() == 0:\n    os.setsid(); {note}; {stay}\n{stay}",
    "daemon": (
        "{ignore}\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        [os.close(fd) for fd in (0, 1, 2)]; {note}; {stay}\n    os._exit(0)\nos.wait(); {stay}"
    ),
    "stops": "{note}; os.kill(os.getpid(), signal.SIGSTOP)",
    "own group": "{ignore}\nif os.fork() == 0:\n    os.setpgid(0, 0); {note}; {stay}\n{stay}",
}


@pytest.mark.parametrize("how", ESCAPES)
def test_e04_whatever_it_does_it_is_gone_when_gone_is_said(world: World, how: str) -> None:
    code = "import os, signal, time\n" + ESCAPES[how].format(
        ignore="[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]",
        note="fd = os.open('pids', 1 | 64 | 1024, 0o600); os.write(fd, b'%d\\n' % os.getpid()); os.close(fd)",
        stay="time.sleep(1000)",
    )
    talk = world.start()
    world.python(1, code)
    _, told = talk.ask("start", n=1, token="t")
    pids = pids_in(world, 8 if how == "forks" else 1)
    assert talk.ask("signal", n=1, grace=0.3)[0] == "gone"
    assert [pid for pid in (*pids, int(str(told["pid"]))) if is_alive(pid)] == []
    assert_nobody(world)
    assert talk.pushed("exited")["left"] == []


def test_a_daemon_that_its_leader_leaves_behind_is_ended(world: World) -> None:
    """It has left session, group and pipes; the leader is long dead; TERM first, so that it may clean up."""
    code = (
        "import os, signal, time\n"
        "def leave(*_): open('cleaned', 'w').close(); os._exit(0)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        signal.signal(15, leave); [os.close(fd) for fd in (0, 1, 2)]\n"
        "        open('pids', 'w').write(str(os.getpid())); time.sleep(1000)\n"
        "    os._exit(0)\n"
        "while not os.path.exists('pids') or not open('pids').read(): time.sleep(0.01)\n"
        "os._exit(5)"
    )
    told = run(world, world.start(), code)
    assert (told["code"], told["cause"], told["left"]) == (5, "self", [])
    assert not is_alive(pids_in(world, 1)[0])
    assert (world.root / "cleaned").exists()


def test_one_that_forks_for_ever_is_gone_in_the_end(world: World) -> None:
    """Each process lives a moment and leaves another: whoever escaped the last KILL meets the next."""
    code = (
        "import os, signal, time\n"
        "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]\n"
        "print(1, flush=True)\n"
        "while True:\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid(); time.sleep(0.002)\n"
    )
    talk = world.start()
    world.python(1, code)
    talk.ask("start", n=1, token="t")
    told = talk.pushed("exited")
    assert told["code"] == 0, "the leader left by itself"
    assert_nobody(world)
    assert talk.ask("status")[1]["child"] is None


def test_it_closes_its_streams_and_stays(world: World) -> None:
    """Silence is the idle limit's, not the end of the child."""
    told = run(world, world.start(), f"import os; os.close(1); os.close(2); {SLEEP}", idle=1.0, grace=0.5)
    assert (told["signal"], told["cause"]) == (2, "idle")
    assert_nobody(world)


def test_it_closes_its_streams_and_ends_later(world: World) -> None:
    told = run(world, world.start(), "import os, time; os.close(1); os.close(2); time.sleep(0.3); os._exit(9)")
    assert (told["code"], told["cause"]) == (9, "self")


def test_wall_limit(world: World) -> None:
    code = "import time\nwhile True: print('busy', flush=True); time.sleep(0.05)"
    told = run(world, world.start(), code, wall=1.0, idle=1000.0, grace=0.5)
    assert told["cause"] == "wall"


def test_output_keeps_the_idle_limit_away(world: World) -> None:
    code = "import time\nfor _ in range(70): print('busy', flush=True); time.sleep(0.05)"
    told = run(world, world.start(), code, idle=2.5)
    assert (told["code"], told["cause"]) == (0, "self")


def test_a_stopped_agent_meets_its_idle_limit(world: World) -> None:
    told = run(world, world.start(), "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", idle=1.0, grace=0.5)
    assert told["cause"] == "idle"
    assert_nobody(world)


def test_e11_both_streams_at_full_speed(world: World) -> None:
    """10 MB of errors before the first byte of output, then both at once; nobody listens; all is there."""
    code = (
        "import os, threading\n"
        "def write(fd, byte, count):\n"
        "    for _ in range(count): os.write(fd, byte * 65536)\n"
        "write(2, b'e', 160)\n"
        "one = threading.Thread(target=write, args=(1, b'o', 160)); one.start()\n"
        "write(2, b'E', 160); one.join()\n"
    )
    talk = world.start()
    world.order(1, sys.executable, "-c", code)
    talk.ask("start", n=1, token="t")
    talk.close()
    wait_for(lambda: any(word == "exit" for word, _ in world.records()))
    assert world.output(1) == b"o" * 160 * 65536
    assert world.output(1, "err") == b"e" * 160 * 65536 + b"E" * 160 * 65536
    told = dict(world.records())["exit"]
    assert (told["out"], told["err"], told["dropped"]) == (160 * 65536, 320 * 65536, 0)


@pytest.mark.parametrize("size", [70_000, 3_000_000, 64 * MIB])
def test_e07_one_line_of_many_megabytes(world: World, size: int) -> None:
    """Nothing of it is lost, and what comes behind it is there."""
    code = f"import os\nleft = {size}\nwhile left: left -= os.write(1, b'x' * min(left, 1 << 20))\nos.write(1, b'\\nlast\\n')"
    told = run(world, world.start(), code)
    assert (told["code"], told["out"], told["dropped"]) == (0, size + 6, 0)
    data = world.output(1)
    assert len(data) == size + 6
    assert data.strip(b"x") == b"\nlast\n"


def test_1_gb_of_output_takes_bounded_disk_and_memory(make_world: Callable[..., World]) -> None:
    """The beginning and the end are kept, the middle is counted."""
    world = make_world(budget=64 * MIB)
    talk = world.start()
    world.order(1, "/bin/sh", "-c", "echo first; head -c 1000000000 /dev/zero; echo; echo last")
    talk.ask("start", n=1, token="t")
    told = talk.pushed("exited")
    kept = sum(path.stat().st_size for path in world.folder.glob("1.out.*"))
    assert kept <= 64 * MIB
    assert told["out"] == 1_000_000_012
    assert told["dropped"] == 1_000_000_012 - kept
    segments = sorted(int(path.suffix[1:]) for path in world.folder.glob("1.out.*"))
    assert segments[:4] == [0, 1, 2, 3]
    assert segments[-1] == 1_000_000_012 // (8 * MIB)
    assert (world.folder / "1.out.0").read_bytes()[:6] == b"first\n"
    assert (world.folder / f"1.out.{segments[-1]}").read_bytes()[-6:] == b"\nlast\n"
    status = Path(f"/proc/{world.shim.pid}/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0])
    assert peak < 16 * 1024, "KiB: nothing of it stays in memory"


def test_e14_the_environment_is_the_one_given(world: World) -> None:
    """Nothing of the shim's own, nothing of the daemon's; the run's id whatever the order says; bytes that are no text, too."""
    world.order(1, "/usr/bin/env", "-0", env={"A": "order", "CUELOOP_RUN_ID": "forged", "UGLY": "\udcff"})
    talk = world.start()
    talk.ask("start", n=1, token="t")
    talk.pushed("exited")
    given = dict(one.split(b"=", 1) for one in world.output(1).split(b"\0") if one)
    assert given == {b"A": b"order", b"UGLY": b"\xff", b"CUELOOP_RUN_ID": world.run_id.encode()}


@pytest.mark.parametrize("env", [[], {"A": 1}, {"A=B": "x"}, {"": "x"}, {"A": "x\0"}])
def test_an_environment_that_is_none_starts_nothing(world: World, env: object) -> None:
    world.write("1.order", json.dumps({"token": "t", "kind": "agent", "argv": ["/bin/true"], "env": env}).encode())
    word, told = world.start().ask("start", n=1, token="t")
    assert (word, told["stage"], told["errno"]) == ("failed", "order", 22)


def test_e15_there_is_no_terminal_to_ask_at(world: World) -> None:
    code = "import os\ntry: os.open('/dev/tty', os.O_RDWR)\nexcept OSError as exc: print(exc.errno)\nprint(os.getsid(0) == os.getpid())"
    run(world, world.start(), code)
    assert world.output(1) == b"6\nTrue\n"


def test_a_child_gets_nothing_but_its_streams(world: World) -> None:
    """No descriptor of the shim's; the root as its folder; the umask of who started the shim."""
    code = "import os; fds = os.listdir('/proc/self/fd'); print(len(fds) - 1, os.getcwd(), oct(os.umask(0)))"
    before = os.umask(0o027)
    try:
        talk = world.start()
    finally:
        os.umask(before)
    run(world, talk, code)
    assert world.output(1).decode().split() == ["3", str(world.root), "0o27"]


@pytest.mark.parametrize(
    ("script", "mode", "errno"),
    [("#!/no/such/interpreter\n", 0o755, 2), ("#!/bin/sh\n", 0o644, 13), ("no program", 0o755, 8), (None, 0, 13)],
)
def test_what_cannot_be_executed(world: World, script: str | None, mode: int, errno: int) -> None:
    """A missing interpreter, no permission, no program at all, a folder."""
    program = world.root / "program"
    if script is None:
        program.mkdir()
    else:
        program.write_text(script)
        program.chmod(mode)
    talk = world.start()
    world.order(1, str(program))
    word, told = talk.ask("start", n=1, token="t")
    assert (word, told["stage"], told["errno"]) == ("failed", "exec", errno)
    assert talk.ask("status")[1]["child"] is None
    assert_nobody(world)


def test_a_root_that_is_another_folder_now(world: World) -> None:
    talk = world.start()
    world.root.rename(world.root.parent / "moved")
    (world.root.parent / "repo").mkdir()
    (world.root.parent / "moved/.cueloop/cache/cueloopd/runs" / world.run_id / "1.order").write_bytes(
        b'{"token": "t", "kind": "agent", "argv": ["/bin/true"], "env": {}}'
    )
    word, told = talk.ask("start", n=1, token="t")
    assert (word, told["stage"], told["errno"]) == ("failed", "cwd", 2)
    world.root.rmdir()
    (world.root.parent / "moved").rename(world.root)


def test_children_one_after_the_other(world: World) -> None:
    """Fifty, each with its own output; nothing of the shim's grows by them."""
    talk = world.start()
    before = len(os.listdir(f"/proc/{world.shim.pid}/fd"))
    for n in range(1, 51):
        world.order(n, "/bin/sh", "-c", f"echo {n}; echo err {n} >&2; exit {n % 3}")
        talk.ask("start", n=n, token="t")
        assert talk.pushed("exited")["code"] == n % 3
        assert (world.output(n), world.output(n, "err")) == (b"%d\n" % n, b"err %d\n" % n)
        talk.send("ack", upto=n)
    assert talk.ask("status")[1]["orders"] == {}
    assert len(os.listdir(f"/proc/{world.shim.pid}/fd")) == before
