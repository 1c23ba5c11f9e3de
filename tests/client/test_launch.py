"""Starting the daemon, with a fake one as a real process."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cueloop_client.launch
from client.fakes import make_world
from cueloop_client.argv import GLOBAL
from cueloop_client.context import make_context
from cueloop_client.exchange import ask
from cueloop_client.failures import Silent, StartFailed
from cueloop_client.fast import read
from cueloop_client.flags import parse
from cueloop_client.launch import START_SECONDS, launch
from cueloop_client.reach import Process, peer_process, reach
from cueloop_client.spawn import Died, Owned, Ready, Refused, command_line, environment, finders, parse_line
from cueloop_client.table import COMMANDS
from cueloop_client.waiting import await_end
from cueloop_client.world import World
from cueloop_protocol.identity import boot_id, process_start_time
from cueloop_protocol.place import LOCATOR, Locator, ensure_socket_folder, locator_bytes
from cueloop_protocol.roots import Root

if TYPE_CHECKING:
    from client.conftest import FakeStarts


@pytest.fixture
def world(environ: dict[str, str]) -> World:
    return make_world(environ)


def ask_it(root: Root, world: World, seconds: float = 10.0) -> int:
    """The pid of the daemon that answers, started if need be."""
    sock = reach(root, world, world.deadline(seconds)) or launch(root, world, world.deadline(seconds))
    with sock:
        pid: int = ask(sock, "ping", {}, world.deadline(seconds))["pid"]
        return pid


def test_a_cold_call_starts_it_and_the_next_finds_it(root: Root, world: World, starts: FakeStarts) -> None:
    starts.plan(mode="ready")
    assert [ask_it(root, world), ask_it(root, world)] == starts.pids * 2
    assert len(starts.pids) == 1


@pytest.mark.parametrize("when", ["before the start lock", "before the start", "at the daemon"])
def test_d08_a_cleaner_takes_the_local_folder_in_the_middle_of_a_start(
    root: Root, world: World, starts: FakeStarts, short: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    folder, swept = short / "local", list[str]()
    for name in ("cueloop_client.launch", "cueloop_protocol.place"):
        monkeypatch.setattr(f"{name}.local_folder", lambda uid: str(folder))

    def sweeping(real: Callable[..., Any]) -> Callable[..., Any]:
        def act(*args: Any, **more: Any) -> Any:
            if not swept:
                swept.append(when)
                shutil.rmtree(folder)
                if when == "at the daemon":  # it finds no folder for its lock, and says so
                    return Refused("permission_denied", "It cannot be opened.", None)
            return real(*args, **more)

        return act

    target = "start_lock" if when == "before the start lock" else "spawn"
    monkeypatch.setattr(f"cueloop_client.launch.{target}", sweeping(getattr(cueloop_client.launch, target)))
    starts.plan(mode="ready")
    assert ask_it(root, world) == starts.pids[-1]
    assert (swept, len(starts.pids)) == ([when], 1)


def test_a_start_that_fails_while_the_folder_stands_is_not_tried_twice(root: Root, world: World, starts: FakeStarts) -> None:
    starts.plan(mode="refuse", error={"code": "unknown", "message": "No."})
    with pytest.raises(StartFailed):
        launch(root, world, world.deadline(10))
    assert len(starts.pids) == 1


def test_a_hundred_cold_calls_start_one(root: Root, world: World, starts: FakeStarts) -> None:
    starts.plan(mode="ready")
    together = threading.Barrier(100)
    answers: list[int] = []

    def call() -> None:
        together.wait(30)
        answers.append(ask_it(root, world, 30))

    threads = [threading.Thread(target=call) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == starts.pids * 100


def test_e14_d10_the_daemon_does_not_depend_on_who_started_it(root: Root, environ: dict[str, str], starts: FakeStarts) -> None:
    starts.plan(mode="ready")
    agent = {
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "PYTHONPATH": "/x",
        "VIRTUAL_ENV": "/y",
    }
    settings = {"XDG_CONFIG_HOME": "/elsewhere", "GIT_DIR": "/z", "TZ": "Asia/Shanghai", "LC_ALL": "C", "CUELOOP_PASSED_ON": "1"}
    world = make_world({**environ, **agent, **settings})
    ask_it(root, world)
    facts = starts.facts
    expected = {"HOME": world.passwd_home(), "LANG": "C.UTF-8", "USER": world.passwd_name(), "LOGNAME": world.passwd_name()}
    assert {name: value for name, value in facts["environ"].items() if name != "LC_CTYPE"} == {
        **{name: value for name, value in expected.items() if value is not None},
        **{name: environ[name] for name in ("PATH", "XDG_RUNTIME_DIR", "TMPDIR")},
    }
    assert facts["cwd"] == "/"
    assert facts["session"] == facts["pid"]
    assert facts["stdin"] == "/dev/null"


def test_no_descriptor_of_the_starter_is_inherited(root: Root, world: World, starts: FakeStarts, tmp_path: Path) -> None:
    starts.plan(mode="ready")
    secret = os.open(tmp_path / "secret", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(secret, True)
    try:
        ask_it(root, world)
    finally:
        os.close(secret)
    assert "/dev/null" in starts.facts["open"]
    assert str(tmp_path / "secret") not in starts.facts["open"]


def test_d01_after_a_crash_with_socket_and_locator_left_it_is_up_at_once(root: Root, world: World, starts: FakeStarts) -> None:
    starts.plan(mode="ready")
    first = ask_it(root, world)
    started = process_start_time(first)
    assert started is not None
    os.kill(first, signal.SIGKILL)
    await_end(Process(first, started, boot_id()), world.deadline(10))
    assert Path(root.join(".cueloop/cache/cueloopd", LOCATOR)).exists()
    began = time.monotonic()
    second = ask_it(root, world)
    assert second != first
    assert time.monotonic() - began < 5
    assert starts.pids == [first, second]


def test_d01_after_a_reboot_a_locator_of_another_boot_is_not_believed(
    root: Root, environ: dict[str, str], starts: FakeStarts
) -> None:
    starts.plan(mode="ready")
    world = make_world(environ)
    folder = ensure_socket_folder(root, environ, world.uid)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{folder}/d.sock")
    os.makedirs(root.join(".cueloop/cache/cueloopd"))
    left_behind = Locator(f"{folder}/d.sock", os.getpid(), "1", "another boot", os.uname().nodename, "i", "1", 7, 9)
    Path(root.join(".cueloop/cache/cueloopd", LOCATOR)).write_bytes(locator_bytes(left_behind))
    assert ask_it(root, world) == starts.pids[0]


def test_d04_d24_a_stopped_daemon_is_slow_and_not_dead(root: Root, world: World, starts: FakeStarts) -> None:
    starts.plan(mode="ready")
    pid = ask_it(root, world)
    inode = os.stat(Path(environ_socket(root, world))).st_ino
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(Silent, match="does not answer"):
        ask_it(root, world, 0.3)
    sock = launch(root, world, world.deadline(5))  # even one who insists on a start finds that somebody listens
    sock.close()
    assert starts.pids == [pid]
    assert os.stat(Path(environ_socket(root, world))).st_ino == inode
    os.kill(pid, signal.SIGCONT)
    assert ask_it(root, world) == pid


def environ_socket(root: Root, world: World) -> str:
    return os.path.join(ensure_socket_folder(root, world.environ, world.uid), "d.sock")


def test_an_owner_without_a_socket_is_waited_for_and_then_named(root: Root, world: World, starts: FakeStarts) -> None:
    starts.plan(mode="ready", lose_socket=True)
    with pytest.raises(StartFailed, match="gone before it could be asked"):
        launch(root, world, world.deadline(10))
    owner = starts.pids[0]
    with pytest.raises(Silent, match=f"process {owner}.* cannot be reached"):
        launch(root, world, world.deadline(0.8), at_once=True)


def test_an_owner_that_leaves_is_followed_by_a_new_daemon(root: Root, world: World, starts: FakeStarts) -> None:
    """As after `mv` of a repository: its daemon still holds the lock, and is on its way out."""
    starts.plan(mode="ready", lose_socket=True)
    with pytest.raises(StartFailed):
        launch(root, world, world.deadline(10))
    answers: list[socket.socket] = []
    waiting = threading.Thread(target=lambda: answers.append(launch(root, world, world.deadline(20), at_once=True)))
    waiting.start()
    while len(starts.pids) < 2:
        time.sleep(0.01)
    second = process_start_time(starts.pids[1])
    if second is not None:  # it finds the repository owned, says so and ends
        await_end(Process(starts.pids[1], second, boot_id()), world.deadline(10))
    starts.plan(mode="ready")
    os.kill(starts.pids[0], signal.SIGKILL)
    waiting.join(20)
    assert len(answers) == 1
    with answers[0] as sock:
        assert ask(sock, "ping", {}, world.deadline(5))["pid"] == starts.pids[-1]
    assert len(starts.pids) == 3


def test_the_user_s_timeout_counts_for_a_start_too(root: Root, world: World, starts: FakeStarts) -> None:
    starts.plan(mode="hang")
    command = COMMANDS["session", "show"]
    context = make_context(world, command, parse((*GLOBAL, *command.flags), ["--timeout=0.5", f"--repo={root.path}"]))
    with pytest.raises(Silent, match=r"was not ready within 0\.5 s"):
        read(context, "session.get", {})
    assert make_context(world, command, parse(GLOBAL, [])).start_seconds == START_SECONDS


def test_an_owner_that_restores_its_socket_is_found(root: Root, world: World, starts: FakeStarts) -> None:
    starts.plan(mode="ready", lose_socket=True)
    with pytest.raises(StartFailed):
        launch(root, world, world.deadline(10))
    answers: list[socket.socket] = []
    waiting = threading.Thread(target=lambda: answers.append(launch(root, world, world.deadline(20), at_once=True)))
    waiting.start()
    while len(starts.pids) < 2:  # the second process finds the repository owned; then the socket is looked for
        time.sleep(0.01)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(environ_socket(root, world))
        listener.listen(8)
        waiting.join(20)
        assert len(answers) == 1
        answers[0].close()


DEATHS = [
    ("die", r"died while it started \(exit code 7\)", "no room on the disk"),
    ("garbage", r"died while it started \(exit code 0\)", "hello"),
    ("killed", r"died while it started \(signal 9\)", "said nothing"),
]


@pytest.mark.parametrize(("mode", "said", "detail"), DEATHS, ids=[row[0] for row in DEATHS])
def test_d27_a_daemon_that_dies_says_why_at_once(
    root: Root, world: World, starts: FakeStarts, mode: str, said: str, detail: str
) -> None:
    starts.plan(mode=mode)
    began = time.monotonic()
    with pytest.raises(StartFailed, match=said) as caught:
        launch(root, world, world.deadline(30))
    assert time.monotonic() - began < 10
    assert caught.value.detail is not None
    assert detail in caught.value.detail
    assert "\x1b" not in caught.value.detail


def test_d27_twenty_calls_start_a_broken_daemon_once(root: Root, environ: dict[str, str], starts: FakeStarts) -> None:
    error = {
        "version": 1,
        "code": "permission_denied",
        "message": "The log cannot be written.",
        "detail": "Free space.",
        "retryable": False,
    }
    starts.plan(mode="refuse", error=error)
    world = make_world(environ, wall=lambda: 1_000_000.0)
    for number in range(20):
        with pytest.raises(StartFailed, match="The log cannot be written") as caught:
            launch(root, world, world.deadline(10))
        assert caught.value.word == "permission_denied"
        assert caught.value.detail is not None
        assert caught.value.detail.startswith("Free space.")
        assert ("next is tried" in caught.value.detail) == (number > 0)
    assert len(starts.pids) == 1
    with pytest.raises(StartFailed):
        launch(root, world, world.deadline(10), at_once=True)
    assert len(starts.pids) == 2
    later = make_world(environ, wall=lambda: 1_000_000.0 + 2.0)
    starts.plan(mode="ready")
    assert ask_it(root, later) == starts.pids[2]
    assert not any(Path(f"/tmp/cueloopd-{os.getuid()}").glob("*.failed.new"))


def test_a_start_that_takes_too_long_is_left_alone(root: Root, world: World, starts: FakeStarts) -> None:
    starts.plan(mode="hang")
    with pytest.raises(Silent, match="was not ready within 2 s"):
        launch(root, world, world.deadline(2))
    assert process_start_time(starts.pids[0]) is not None


def test_a_daemon_that_closes_its_pipe_and_goes_on_is_told(root: Root, world: World, starts: FakeStarts) -> None:
    starts.plan(mode="close")
    with pytest.raises(StartFailed, match="goes on"):
        launch(root, world, world.deadline(2))


def test_a_folder_that_is_open_to_others_is_refused_with_the_remedy(
    root: Root, world: World, starts: FakeStarts, monkeypatch: pytest.MonkeyPatch, short: Path
) -> None:
    (short / "open").mkdir(mode=0o755)
    (short / "open").chmod(0o755)
    monkeypatch.setattr("cueloop_client.launch.local_folder", lambda uid: str(short / "open"))
    with pytest.raises(StartFailed, match="open to others") as caught:
        launch(root, world, world.deadline(2))
    assert caught.value.detail is not None
    assert "chmod 700" in caught.value.detail
    assert starts.pids == []


LINES = [
    (b'{"ready": {"socket": "/s", "pid": 7}}', Ready("/s", 7)),
    (b'{"ready": {"socket": "/s"}}', Ready("/s", 99)),
    (b'{"owned": {"pid": 7}}', Owned(7)),
    (b'{"owned": {"pid": null}}', Owned(None)),
    (b'{"error": {"code": "unknown", "message": "m", "detail": "d"}}', Refused("unknown", "m", "d")),
    (b'{"error": {"code": "new_word", "message": "m", "detail": 3}}', Refused("unknown", "m", None)),
    (b'{"error": "m"}', None),
    (b'{"ready": {"socket": 3}}', None),
    (b"[]", None),
    (b"", None),
    (b"[" * 100_000, None),
]


@pytest.mark.parametrize(("line", "outcome"), LINES, ids=[repr(row[0][:40]) for row in LINES])
def test_the_ready_line(line: bytes, outcome: Ready | Owned | Refused | Died | None) -> None:
    assert parse_line(line, 99) == outcome


def test_the_command_line_of_the_real_daemon(root: Root) -> None:
    line = command_line(root, 5)
    assert line[-5:] == ["cueloop_daemon", "--root", root.path, "--ready-fd", "5"]
    assert "-P" in line


def test_an_environment_without_a_passwd_entry() -> None:
    assert environment({"PATH": "/bin", "TMPDIR": ""}, "/", None) == {"HOME": "/", "LANG": "C.UTF-8", "PATH": "/bin"}


def test_the_peer_is_pinned(root: Root, world: World, starts: FakeStarts) -> None:
    starts.plan(mode="ready")
    with launch(root, world, world.deadline(10)) as sock:
        process = peer_process(sock)
    assert process is not None
    assert process.pid == starts.pids[0]
    assert process.start_time == process_start_time(process.pid)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, {}),
        ({"PYTHONPATH": "/x:/opt/here/lib"}, {"PYTHONPATH": "/x:/opt/here/lib"}),
        ({"PYTHONPATH": ":/opt/here/./lib:"}, {"PYTHONPATH": "/opt/here/lib"}),
        ({"PYTHONPATH": "/opt/here:/x"}, {}),
        ({"PYTHONUSERBASE": "/opt/here"}, {"PYTHONUSERBASE": "/opt/here"}),
        ({"PYTHONUSERBASE": "/opt/her"}, {}),
        ({"PYTHONUSERBASE": "", "PYTHONPATH": "", "PYTHONHOME": "/opt/here", "PYTHONSTARTUP": "/x"}, {}),
    ],
)
def test_the_daemon_finds_its_packages_where_the_command_found_them(given: dict[str, str], kept: dict[str, str]) -> None:
    assert finders(given, "/opt/here/lib") == kept


def test_a_pythonpath_for_something_else_stays_out_of_the_daemon() -> None:
    assert "PYTHONPATH" not in environment({"PYTHONPATH": "/somewhere/else"}, "/home/me", "me")
