"""The listening socket and its name."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from cueloop_daemon.server.listener import Listener, accept_one
from cueloop_protocol.identity import peer_pid


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Short enough for a socket, whatever pytest calls its folders."""
    folder = tmp_path / "s"
    folder.mkdir(mode=0o700)
    found = os.path.relpath(folder / "d.sock")
    return min(found, str(folder / "d.sock"), key=len)


@pytest.fixture
def wide_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def reaches(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(5)
        try:
            peer.connect(path)
        except OSError:
            return False
        return True


async def test_it_listens_under_its_name_and_no_other_is_left(path: str) -> None:
    listener = Listener.bind(path)
    assert reaches(path)
    assert os.listdir(os.path.dirname(path)) == ["d.sock"]
    assert listener.still_ours()
    listener.close()
    assert os.listdir(os.path.dirname(path)) == []
    listener.close()


@pytest.mark.usefixtures("wide_umask")
async def test_d25_the_socket_is_never_wider_than_0600(path: str) -> None:
    seen: set[int] = set()
    names: set[str] = set()
    over = threading.Event()

    def look() -> None:
        folder = os.path.dirname(path)
        while not over.is_set():
            for name in os.listdir(folder):
                try:
                    seen.add(stat.S_IMODE(os.lstat(f"{folder}/{name}").st_mode))
                    names.add(name)
                except FileNotFoundError:
                    continue

    watcher = threading.Thread(target=look)
    watcher.start()
    for _ in range(100):
        Listener.bind(path).close()
    listener = Listener.bind(path)
    while "d.sock" not in names:
        await anyio.lowlevel.checkpoint()
    over.set()
    watcher.join()
    listener.close()
    assert seen <= {0o600}
    assert os.umask(0) == 0


async def test_d01_a_leftover_is_replaced_and_it_is_never_without_a_listener_behind_it(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    assert not reaches(path)
    listener = Listener.bind(path)
    assert reaches(path)
    listener.close()


async def test_a_temporary_name_left_by_a_crash_is_no_hindrance(path: str) -> None:
    Path(path).with_name("d.new").write_text("x")
    listener = Listener.bind(path)
    assert reaches(path)
    listener.close()


async def test_a_bind_that_fails_leaves_nothing(path: str) -> None:
    os.mkdir(path)
    with pytest.raises(OSError, match="directory"):
        Listener.bind(path)
    assert os.listdir(os.path.dirname(path)) == ["d.sock"]


async def test_a_folder_that_is_missing_is_an_oserror(path: str) -> None:
    with pytest.raises(FileNotFoundError):
        Listener.bind(f"{path}/x/d.sock")


async def test_d02_only_its_own_name_is_removed(path: str) -> None:
    old = Listener.bind(path)
    new = Listener.bind(path)
    assert not old.still_ours()
    assert new.still_ours()
    old.close()
    assert reaches(path)
    new.close()


async def test_d08_a_removed_name_is_noticed_and_made_again_under_a_waiting_accept(path: str) -> None:
    listener = Listener.bind(path)
    os.unlink(path)
    assert not listener.still_ours()
    taken: list[socket.socket] = []

    async with anyio.create_task_group() as tasks:

        async def accept() -> None:
            taken.extend(await listener.accept())

        tasks.start_soon(accept)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        listener.rebind()
        assert listener.still_ours()
        assert await anyio.to_thread.run_sync(reaches, path)
    assert len(taken) == 1
    taken[0].close()
    listener.close()


async def test_d08_a_foreign_file_in_its_place_is_noticed_and_not_removed_at_the_end(path: str) -> None:
    listener = Listener.bind(path)
    os.unlink(path)
    Path(path).write_text("somebody's")
    assert not listener.still_ours()
    listener.close()
    assert Path(path).read_text() == "somebody's"


async def test_a_rebind_that_fails_keeps_the_old_socket(path: str) -> None:
    listener = Listener.bind(path)
    os.rename(path, f"{path}.kept")
    os.mkdir(path)
    with pytest.raises(OSError, match="directory"):
        listener.rebind()
    assert reaches(f"{path}.kept")
    listener.close()


async def test_a_passed_socket_is_used_and_its_name_stays(path: str) -> None:
    passed = socket.socket(socket.AF_UNIX)
    passed.bind(path)
    passed.listen()
    listener = Listener.adopt(passed.detach(), path)
    assert reaches(path)
    [peer] = await listener.accept()
    peer.close()
    assert listener.still_ours()
    with pytest.raises(ValueError, match="belongs"):
        listener.rebind()
    listener.close()
    assert os.path.exists(path)


def test_what_is_no_listening_unix_socket_is_not_adopted() -> None:
    wrong = [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_INET), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)]
    for sock in wrong:
        with sock, pytest.raises(ValueError, match="no listening"):
            Listener.adopt(sock.fileno(), "x")


async def test_a_burst_is_accepted_together_and_connections_are_our_own(path: str) -> None:
    listener = Listener.bind(path)
    peers = [socket.socket(socket.AF_UNIX) for _ in range(10)]
    for peer in peers:
        peer.connect(path)
    taken = await listener.accept()
    assert len(taken) == 10
    assert not any(sock.getblocking() or sock.get_inheritable() for sock in taken)
    for sock in [*taken, *peers]:
        sock.close()
    listener.close()


@pytest.mark.parametrize("number", [errno.ECONNABORTED, errno.EPROTO, errno.EINTR])
@pytest.mark.parametrize("count", [1, 3, 200])
async def test_d24_a_peer_that_went_before_it_was_accepted_is_passed_over(path: str, number: int, count: int) -> None:
    listener = Listener.bind(path)
    failures = [OSError(number, "gone")] * count

    def accept(sock: socket.socket) -> socket.socket:
        if failures:
            raise failures.pop()
        return accept_one(sock)

    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        [taken] = await listener.accept(accept)
    taken.close()
    listener.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
async def test_d24_without_descriptors_nothing_is_taken_and_it_is_said(
    path: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener.bind(path)
    calls = 0

    def accept(sock: socket.socket) -> socket.socket:
        nonlocal calls
        calls += 1
        raise OSError(number, "none left")

    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        for _ in range(3):
            assert await listener.accept(accept) == []
        assert calls == 3
        assert caplog.text.count("no_descriptor") == 1
        [taken] = await listener.accept()
        taken.close()
    listener.close()


async def test_what_nobody_expects_of_accept_is_raised(path: str) -> None:
    listener = Listener.bind(path)

    def accept(sock: socket.socket) -> socket.socket:
        raise OSError(errno.EINVAL, "strange")

    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        with pytest.raises(OSError, match="strange"):
            await listener.accept(accept)
    listener.close()


async def test_a_close_ends_a_waiting_accept(path: str) -> None:
    listener = Listener.bind(path)
    async with anyio.create_task_group() as tasks:

        async def accept() -> None:
            with pytest.raises(anyio.ClosedResourceError):
                await listener.accept()

        tasks.start_soon(accept)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        listener.close()


async def test_retiring_gives_out_who_waits_and_nobody_else_comes(path: str) -> None:
    listener = Listener.bind(path)
    peers = [socket.socket(socket.AF_UNIX) for _ in range(100)]
    for peer in peers:
        peer.connect(path)
    waiting = listener.retire()
    assert len(waiting) == 100
    assert not reaches(path)
    assert listener.retire() == []
    for sock in [*waiting, *peers]:
        sock.close()
    listener.close()


async def test_a_temporary_name_that_vanishes_in_between_is_an_oserror(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody cleans the folder between bind and rename."""
    lstat = os.lstat

    def cleaned(name: str) -> os.stat_result:
        if name.endswith("d.new"):
            os.unlink(name)
        return lstat(name)

    monkeypatch.setattr(os, "lstat", cleaned)
    with pytest.raises(FileNotFoundError, match="removed"):
        Listener.bind(path)
    assert os.listdir(os.path.dirname(path)) == []


async def test_at_another_place_those_who_waited_at_the_old_one_are_accepted_first(path: str, tmp_path: Path) -> None:
    """A logout takes the runtime folder away, or a cleaner the name of a service manager's socket."""
    listener = Listener.bind(path)
    early = [socket.socket(socket.AF_UNIX) for _ in range(100)]  # more than are taken at a time
    for peer in early:
        peer.connect(path)
    os.unlink(path)
    assert not listener.still_ours()
    other = f"{os.path.dirname(path)}/e.sock"
    listener.rebind(other)
    assert (listener.path, listener.still_ours()) == (other, True)
    taken = await listener.accept()
    assert len(taken) == 100
    assert reaches(other)
    late = await listener.accept()
    assert len(late) == 1
    for sock in [*early, *taken, *late]:
        sock.close()
    listener.close()
    assert not os.path.exists(other)


async def test_who_waits_at_a_manager_s_socket_is_left_to_the_next_daemon(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as manager, socket.socket(socket.AF_UNIX) as peer:
        manager.bind(path)
        manager.listen()
        listener = Listener.adopt(os.dup(manager.fileno()), path)
        assert (listener.is_managed, listener.still_ours()) == (True, True)
        peer.connect(path)
        assert listener.retire() == []
        listener.close()
        manager.settimeout(10)
        manager.accept()[0].close()
        assert os.path.exists(path)


async def test_an_adopted_socket_names_us_as_the_peer(path: str) -> None:
    """Else a client that wants to end the daemon would end the manager."""
    with socket.socket(socket.AF_UNIX) as manager:
        manager.bind(path)
        script = "import socket, sys; socket.socket(fileno=int(sys.argv[1])).listen(1)"
        with subprocess.Popen([sys.executable, "-c", script, str(manager.fileno())], pass_fds=(manager.fileno(),)) as other:
            assert other.wait(20) == 0
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(path)
            assert peer_pid(peer) == other.pid
        listener = Listener.adopt(os.dup(manager.fileno()), path)
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(path)
            assert peer_pid(peer) == os.getpid()
        listener.close()


async def test_a_name_that_was_taken_away_from_a_manager_is_missed(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as manager:
        manager.bind(path)
        manager.listen()
        listener = Listener.adopt(os.dup(manager.fileno()), path)
        os.unlink(path)
        assert not listener.still_ours()
        other = f"{os.path.dirname(path)}/e.sock"
        listener.rebind(other)
        assert (listener.is_managed, reaches(other)) == (False, True)
        listener.close()
