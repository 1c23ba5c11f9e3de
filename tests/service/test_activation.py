"""The manager's socket is taken only if it is the one that was meant."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.service.activation import Activated, NotOurSocket, take_socket
from cueloop_daemon.service.launchd import activated
from cueloop_daemon.service.origin import Origin
from cueloop_protocol.place import ensure_socket_folder
from cueloop_protocol.roots import Root, open_root
from support.world import World


@pytest.fixture
def world() -> Iterator[World]:
    world = World.make()
    yield world
    world.close()


@pytest.fixture
def root(world: World) -> Root:
    return open_root(str(world.repository.path))


@pytest.fixture
def door(world: World, root: Root) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(f"{ensure_socket_folder(root, world.environ, os.getuid())}/d.sock")
        sock.listen()
        yield sock


def passed(*named: tuple[str, int]) -> Origin:
    return Origin("systemd", named)


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_the_socket_of_this_repository_is_taken_and_not_inherited(root: Root, door: socket.socket) -> None:
    os.set_inheritable(door.fileno(), True)
    found = take_socket(passed(("cueloopd", door.fileno())), root, os.getuid())
    assert found == Activated(door.fileno(), door.getsockname())
    assert not os.get_inheritable(door.fileno())
    assert is_open(door.fileno())


def test_none_passed_is_none(root: Root) -> None:
    assert take_socket(passed(), root, os.getuid()) is None
    assert take_socket(Origin("launchd"), root, os.getuid(), from_launchd=lambda name: ()) is None


def test_what_comes_with_it_is_closed_and_named(root: Root, door: socket.socket, capsys: pytest.CaptureFixture[str]) -> None:
    other = os.open(os.devnull, os.O_RDONLY)
    found = take_socket(passed(("debug", other), ("cueloopd", door.fileno())), root, os.getuid())
    assert found is not None
    assert found.fd == door.fileno()
    assert not is_open(other)
    assert "'debug'" in capsys.readouterr().err


@pytest.mark.parametrize("names", [["unknown"], ["cueloopd", "cueloopd"], ["http"]])
def test_another_name_or_number_is_refused_and_who_waits_can_be_told(root: Root, door: socket.socket, names: list[str]) -> None:
    with pytest.raises(NotOurSocket, match="one socket named 'cueloopd'") as refused:
        take_socket(passed(*((name, os.dup(door.fileno())) for name in names)), root, os.getuid())
    assert len(refused.value.listening) == len(names)
    for sock in refused.value.listening:
        sock.close()


def test_a_socket_of_another_repository_is_refused(world: World, door: socket.socket) -> None:
    other = world.folder / "other"
    (other / ".cueloop").mkdir(parents=True)
    with pytest.raises(NotOurSocket, match="which is no place for") as refused:
        take_socket(passed(("cueloopd", os.dup(door.fileno()))), open_root(str(other)), os.getuid())
    assert refused.value.remedy == "Write the unit anew: cueloop service install"
    refused.value.listening[0].close()


def test_a_folder_that_others_may_enter_is_refused(root: Root, door: socket.socket) -> None:
    os.chmod(os.path.dirname(door.getsockname()), 0o755)
    with pytest.raises(NotOurSocket, match="no place") as refused:
        take_socket(passed(("cueloopd", os.dup(door.fileno()))), root, os.getuid())
    refused.value.listening[0].close()


def not_listening(tmp_path: Path) -> int:
    return socket.socket(socket.AF_UNIX).detach()


def datagrams(tmp_path: Path) -> int:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).detach()


def inet(tmp_path: Path) -> int:
    sock = socket.socket(socket.AF_INET)
    sock.bind(("127.0.0.1", 0))
    sock.listen()
    return sock.detach()


def a_file(tmp_path: Path) -> int:
    return os.open(tmp_path, os.O_RDONLY)


@pytest.mark.parametrize("make", [not_listening, datagrams, inet, a_file])
def test_what_is_no_listening_unix_socket_is_refused_and_closed(root: Root, tmp_path: Path, make: Any) -> None:
    fd = make(tmp_path)
    with pytest.raises(NotOurSocket, match="no listening Unix stream socket"):
        take_socket(passed(("cueloopd", fd)), root, os.getuid())
    assert not is_open(fd)


class Library:
    """launchd's function as a real C function of another process's would be: an array of malloc's, to be freed by the caller."""

    def __init__(self, answer: int, descriptors: list[int]) -> None:
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        self.freed: list[int | None] = []
        self.asked: list[bytes] = []
        self.array: int | None = None

        def activate(name: bytes, fds: Any, count: Any) -> int:
            self.asked.append(name)
            if answer:
                return answer
            self.array = libc.malloc(max(1, len(descriptors)) * ctypes.sizeof(ctypes.c_int))
            (ctypes.c_int * len(descriptors)).from_address(self.array or 0)[:] = descriptors
            fds[0] = ctypes.cast(ctypes.c_void_p(self.array), ctypes.POINTER(ctypes.c_int))
            count[0] = len(descriptors)
            return 0

        def free(pointer: int | None) -> None:
            self.freed.append(pointer)
            libc.free(ctypes.c_void_p(pointer))

        ints = ctypes.POINTER(ctypes.c_int)
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ints), ctypes.POINTER(ctypes.c_size_t))
        self.launch_activate_socket = kind(activate)
        self.free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(free)


def test_launchd_s_sockets_are_taken_not_inheritable_and_its_array_is_freed(root: Root, door: socket.socket) -> None:
    os.set_inheritable(door.fileno(), True)
    library = Library(0, [door.fileno()])
    found = take_socket(Origin("launchd"), root, os.getuid(), from_launchd=lambda name: activated(name, library))
    assert found == Activated(door.fileno(), door.getsockname())
    assert not os.get_inheritable(door.fileno())
    assert (library.asked, library.freed) == ([b"cueloopd"], [library.array])


@pytest.mark.parametrize("number", [errno.ESRCH, errno.EALREADY])
def test_a_process_that_launchd_did_not_start_has_none(number: int) -> None:
    library = Library(number, [])
    assert activated("cueloopd", library) == ()
    assert library.freed == []


def test_a_property_list_without_that_socket_is_refused(root: Root) -> None:
    with pytest.raises(NotOurSocket, match="launchd does not give the socket 'cueloopd': No such file"):
        take_socket(Origin("launchd"), root, os.getuid(), from_launchd=lambda name: activated(name, Library(errno.ENOENT, [])))


def test_sockets_meant_for_another_process_are_not_touched(world: World, root: Root, door: socket.socket) -> None:
    """A child of a service inherits both variables and, by mistake, descriptors: ours are none of them."""
    code = (
        "import os, socket, sys\n"
        "from cueloop_daemon.service.origin import read_origin\n"
        "assert read_origin(os.environ, os.getpid(), has_starter=False).descriptors == ()\n"
        "os.fstat(int(sys.argv[1]))\n"
    )
    environ = {**world.environ, "LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "cueloopd"}
    fd = door.fileno()
    subprocess.run([sys.executable, "-P", "-c", code, str(fd)], env=environ, pass_fds=(fd,), check=True, timeout=20)
