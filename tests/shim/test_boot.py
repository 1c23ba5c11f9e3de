"""How a shim begins: one for each run, after nobody has settled it, found by its file."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cueloop_daemon
import cueloop_protocol
from shim.shim_process import World, is_alive, wait_for

KNOWN = {
    *("_abc", "_bisect", "_codecs", "_collections", "_collections_abc", "_ctypes", "_frozen_importlib"),
    *("_frozen_importlib_external", "_functools", "_imp", "_io", "_json", "_operator", "_signal", "_socket", "_sre", "_stat"),
    *(
        "_struct",
        "_thread",
        "_warnings",
        "_weakref",
        "__future__",
        "__main__",
        "abc",
        "array",
        "builtins",
        "codecs",
        "collections",
    ),
    *(
        "collections.abc",
        "contextlib",
        "copyreg",
        "ctypes",
        "ctypes._endian",
        "encodings",
        "encodings.aliases",
        "encodings.utf_8",
    ),
    *("enum", "errno", "fcntl", "functools", "genericpath", "io", "itertools", "json", "json.decoder", "json.encoder"),
    *(
        "json.scanner",
        "keyword",
        "marshal",
        "operator",
        "os",
        "os.path",
        "posix",
        "posixpath",
        "re",
        "re._casefix",
        "re._compiler",
    ),
    *("re._constants", "re._parser", "reprlib", "select", "signal", "stat", "struct", "sys", "time", "types", "zipimport"),
}
"""What may be loaded of the standard library: each module costs memory for as long as a run lasts."""


def test_ready_says_what_the_file_says(world: World) -> None:
    process, told = world.spawn()
    assert told == {"ready": json.loads((world.folder / "shim.json").read_text())}
    ready = told["ready"]
    assert isinstance(ready, dict)
    assert (ready["pid"], ready["protocol"], ready["socket"]) == (process.pid, 1, world.socket)
    assert ready["start"]
    assert ready["boot"]
    assert world.records() == [("up", {key: ready[key] for key in ("pid", "start", "boot")})]


def test_what_it_makes_is_ours_alone(world: World) -> None:
    world.start()
    for name in ("shim.json", "shim.jsonl", "shim.lock"):
        assert stat.S_IMODE((world.folder / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(os.stat(world.socket).st_mode) == 0o600


def test_a_second_shim_leaves_at_once(world: World) -> None:
    talk = world.start()
    second, told = world.spawn()
    assert told == {"held": True}
    assert second.wait() == 0
    assert talk.ask("status")[0] == "state"


def test_shims_that_race_for_one_run(world: World) -> None:
    """All are under way before the first has said a word: exactly one is ready, and it is the one that is found."""
    pipes = [world.launch() for _ in range(6)]
    told = [json.loads(pipe.readline()) for _, pipe in pipes]
    assert sorted(next(iter(one)) for one in told) == ["held"] * 5 + ["ready"]
    winner = next(process for (process, _), one in zip(pipes, told, strict=True) if "ready" in one)
    assert json.loads((world.folder / "shim.json").read_text())["pid"] == winner.pid
    for _, pipe in pipes:
        pipe.close()


def test_a_late_shim_of_a_settled_run_leaves(world: World) -> None:
    world.write("over", b"")
    process, told = world.spawn()
    assert told == {"over": True}
    assert process.wait() == 0
    assert not (world.folder / "shim.json").exists()
    assert not (world.folder / "shim.jsonl").exists()
    assert not os.path.exists(world.socket)


def test_a_shim_is_held_off_while_somebody_settles(world: World) -> None:
    fd = os.open(world.folder / "shim.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        assert world.spawn()[1] == {"held": True}
    finally:
        os.close(fd)


def test_f02_the_lock_is_free_after_kill_9(world: World) -> None:
    world.start()
    world.shim.kill()
    world.shim.wait()
    assert "ready" in world.spawn()[1]


def test_f03_no_child_keeps_the_lock(world: World) -> None:
    """The agent lives on; the lock is free all the same."""
    talk = world.start()
    world.python(1, "import time; print('x', flush=True); time.sleep(1000)")
    _, told = talk.ask("start", n=1, token="t")
    talk.pushed("grown")
    world.shim.kill()
    world.shim.wait()
    assert is_alive(int(str(told["pid"])))
    fd = os.open(world.folder / "shim.lock", os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(fd)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"run_id": 1}', b"\xff"])
def test_run_json_that_is_none(world: World, content: bytes) -> None:
    world.write("run.json", content)
    process, told = world.spawn()
    assert told == {"error": {"errno": 22, "where": "run"}}
    assert process.wait() == 1
    assert not (world.folder / "shim.json").exists()


def test_run_json_that_is_missing(world: World) -> None:
    (world.folder / "run.json").unlink()
    assert world.spawn()[1] == {"error": {"errno": 2, "where": "run"}}


def test_a_socket_folder_that_is_open_to_others(world: World, sockets: Path) -> None:
    sockets.chmod(0o755)
    assert world.spawn()[1] == {"error": {"errno": 13, "where": "socket"}}


def test_the_socket_s_folder_is_made(make_world: Callable[..., World], sockets: Path) -> None:
    world = make_world(socket=str(sockets / "new" / "run.sock"))
    assert "ready" in world.spawn()[1]
    assert stat.S_IMODE((sockets / "new").stat().st_mode) == 0o700


def test_the_socket_is_made_again(world: World) -> None:
    """A sweep of /tmp, or the end of a session, takes it away; who is connected does not feel it."""
    talk = world.start()
    os.unlink(world.socket)
    wait_for(lambda: os.path.exists(world.socket))
    assert talk.ask("status")[0] == "state"
    assert world.connect(generation=2).ask("status")[0] == "state"


def test_a_socket_that_is_another_s_is_replaced_and_then_ours(world: World) -> None:
    world.start()
    other = socket.socket(socket.AF_UNIX)
    os.unlink(world.socket)
    other.bind(world.socket)
    inode = os.stat(world.socket).st_ino
    wait_for(lambda: os.path.exists(world.socket) and os.stat(world.socket).st_ino != inode)
    other.close()
    assert world.connect().ask("status")[0] == "state"


def test_it_takes_nothing_from_who_started_it(world: World) -> None:
    """Its own session, `/` as working directory, and no descriptor but its own."""
    process, _ = world.spawn()
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    assert fields[3] == str(process.pid), "session"
    assert os.readlink(f"/proc/{process.pid}/cwd") == "/"


def test_it_loads_little() -> None:
    """Memory is measured by the bench; what decides it is what is imported."""
    parents = [str(Path(str(one.__file__)).parent.parent) for one in (cueloop_daemon, cueloop_protocol)]
    code = "import sys; sys.path.extend(sys.argv[1:]); from cueloop_daemon.shim import boot; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, *parents], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    ours = {name for name in loaded if name.startswith("cueloop_")}
    assert {name for name in ours if name.startswith("cueloop_protocol.")} == {
        "cueloop_protocol.frozen",
        "cueloop_protocol.identity",
    }
    assert all(name.startswith(("cueloop_daemon.shim", "cueloop_protocol")) or name == "cueloop_daemon" for name in ours)
    assert loaded - ours <= KNOWN


def test_it_imports_nothing_later(world: World) -> None:
    """An upgrade may remove its files while it lives: whatever it will need is loaded when it is ready."""
    boot = (
        "import sys; sys.path.extend(sys.argv[1:3]); from cueloop_daemon.shim import boot\n"
        "say = boot._say\n"
        "def last(*told): sys.path.clear(); sys.path_importer_cache.clear(); sys.meta_path.clear(); return say(*told)\n"
        "boot._say = last\n"
        "sys.exit(boot.main(sys.argv[3:]))"
    )
    talk = world.start(boot)
    assert talk.ask("lock", n=1, label="run one", command="c", started_at="s")[0] == "made"
    world.order(2, "/bin/sh", "-c", "echo out; echo err >&2")
    assert talk.ask("start", n=2, token="t")[0] == "started"
    assert talk.pushed("exited")["code"] == 0
    world.order(3, "/bin/sleep", "1000")
    talk.ask("start", n=3, token="t")
    assert talk.ask("signal", n=3, grace=1.0)[0] == "gone"
    world.shim.send_signal(signal.SIGTERM)
    talk.pushed("cancelled")
    assert talk.ask("end")[0] == "bye"
    assert world.shim.wait() == 0
