"""A process is its pid, its start and its boot; nothing else is ever signalled."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_protocol import identity

NO_PIDS = [0, 1, -1, -(2**31), True, False, 2**31, 99999999999, 2.0, "2", "", "abc", None]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A live process that does nothing until its stdin closes."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        yield child
        child.kill()


def test_a_process_has_one_start_time(sleeper: subprocess.Popen[bytes]) -> None:
    start = identity.process_start_time(sleeper.pid)
    assert start
    assert start == identity.process_start_time(sleeper.pid)
    assert identity.is_same_process(sleeper.pid, start, identity.boot_id())


def test_f01_a_number_that_is_used_again_is_another_process(sleeper: subprocess.Popen[bytes]) -> None:
    start, boot = identity.process_start_time(sleeper.pid), identity.boot_id()
    assert start
    assert not identity.is_same_process(sleeper.pid, f"{start}0", boot)
    assert not identity.is_same_process(sleeper.pid, start, "another boot")
    assert not identity.is_same_process(sleeper.pid, "", boot)
    assert not identity.send_signal(sleeper.pid, f"{start}0", boot, signal.SIGKILL)
    assert not identity.send_signal(sleeper.pid, start, "another boot", signal.SIGKILL)
    assert sleeper.poll() is None


def test_the_recorded_process_is_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    start, boot = identity.process_start_time(sleeper.pid), identity.boot_id()
    assert start
    assert identity.send_signal(sleeper.pid, start, boot, signal.SIGTERM)
    assert sleeper.wait(10) == -signal.SIGTERM
    assert not identity.send_signal(sleeper.pid, start, boot, signal.SIGTERM)


def test_a_zombie_is_not_alive() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    try:
        assert identity.process_start_time(pid) is None
    finally:
        os.waitpid(pid, 0)


@pytest.mark.parametrize("pid", NO_PIDS, ids=repr)
def test_f01_what_is_no_pid_reaches_no_system_call(pid: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(*_: object) -> int:
        raise AssertionError("a system call was made")

    for name in ("kill", "killpg", "pidfd_open"):
        monkeypatch.setattr(os, name, reached, raising=False)
    monkeypatch.setattr(identity, "_start_time_linux", reached)
    monkeypatch.setattr(identity, "_start_time_darwin", reached)
    assert not identity.is_pid(pid)
    assert identity.process_start_time(pid) is None  # type: ignore[arg-type]
    assert not identity.is_same_process(pid, "1", identity.boot_id())  # type: ignore[arg-type]
    assert not identity.send_signal(pid, "1", identity.boot_id(), signal.SIGKILL)  # type: ignore[arg-type]


def test_a_pid_that_nobody_has() -> None:
    assert identity.process_start_time(identity.PID_LIMIT) is None
    assert not identity.send_signal(identity.PID_LIMIT, "1", identity.boot_id(), signal.SIGKILL)


@given(name=st.binary(max_size=15), state=st.sampled_from([b"R", b"S", b"D", b"T"]), start=st.integers(0, 2**63))
def test_the_name_of_a_process_cannot_fake_its_start(name: bytes, state: bytes, start: int) -> None:
    numbers = [b"%d" % n for n in range(100, 118)]
    line = b"7 (%s) %s %s %d 0 0\n" % (name, state, b" ".join(numbers), start)
    assert identity.parse_stat(line) == str(start)


@pytest.mark.parametrize("state", [b"Z", b"X", b"x"])
def test_a_dead_process_has_no_start(state: bytes) -> None:
    line = b"7 (a) %s %s 5 0\n" % (state, b" ".join(b"1" for _ in range(18)))
    assert identity.parse_stat(line) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_without_an_error(data: bytes) -> None:
    assert identity.parse_stat(data) is None or data.split()


def test_the_boot_is_named_and_stays() -> None:
    assert identity.boot_id()
    assert identity.boot_id() == identity.boot_id()


class Darwin:
    """What the macOS libraries answer: a process by number, and the boot session."""

    def __init__(self, status: int = 2, size: int = 136, failed: int = 0) -> None:
        self.status, self.size, self.failed = status, size, failed

    def __call__(self, name: str | None) -> Darwin:
        return self

    def proc_pidinfo(self, pid: int, flavor: int, argument: object, buffer: ctypes.Array[ctypes.c_char], size: int) -> int:
        assert (flavor, size) == (3, 136)
        struct.pack_into("I", buffer, 4, self.status)
        struct.pack_into("QQ", buffer, 120, 1_700_000_000, 42)
        return self.size

    def sysctlbyname(self, name: bytes, buffer: ctypes.Array[ctypes.c_char], size: object, new: object, length: object) -> int:
        assert name == b"kern.bootsessionuuid"
        buffer.value = b"B-1"
        return self.failed


@contextmanager
def darwin(monkeypatch: pytest.MonkeyPatch, libraries: Darwin) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(identity.sys, "platform", "darwin")
        patch.setattr(ctypes, "CDLL", libraries)
        yield


def test_macos_process_and_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    with darwin(monkeypatch, Darwin()):
        assert identity.process_start_time(7) == "1700000000.000042"
        assert identity.boot_id() == "B-1"
        assert identity.is_same_process(7, "1700000000.000042", "B-1")
    with darwin(monkeypatch, Darwin(status=5)):
        assert identity.process_start_time(7) is None
    with darwin(monkeypatch, Darwin(size=0, failed=-1)):
        assert identity.process_start_time(7) is None
        assert identity.boot_id() == ""


def test_macos_signals_only_what_was_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    with darwin(monkeypatch, Darwin()):
        assert not identity.send_signal(7, "1", "B-1", 15)
        assert sent == []
        assert identity.send_signal(7, "1700000000.000042", "B-1", 15)
        assert sent == [(7, 15)]
        monkeypatch.setattr(os, "kill", lambda pid, number: (_ for _ in ()).throw(ProcessLookupError()).send(None))
        assert not identity.send_signal(7, "1700000000.000042", "B-1", 15)


class Peer:
    """A macOS socket: LOCAL_PEERCRED gives a struct xucred, LOCAL_PEERPID a pid."""

    def __init__(self, version: int = 0) -> None:
        self.version = version

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert level == 0
        return struct.pack("i", 77) if option == 2 else struct.pack("IIh", self.version, 501, 1).ljust(size, b"\0")


def test_macos_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    with darwin(monkeypatch, Darwin()):
        assert identity.peer_uid(Peer()) == 501  # type: ignore[arg-type]
        assert identity.peer_pid(Peer()) == 77  # type: ignore[arg-type]
        with pytest.raises(OSError, match="unknown credentials"):
            identity.peer_uid(Peer(version=1))  # type: ignore[arg-type]


def test_a_process_that_dies_between_looking_and_signalling(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = identity.process_start_time(sleeper.pid)
    assert start

    def die(pid: int, start_time: str, boot: str) -> bool:
        sleeper.kill()
        sleeper.wait()
        return True

    monkeypatch.setattr(identity, "is_same_process", die)
    assert not identity.send_signal(sleeper.pid, start, identity.boot_id(), signal.SIGTERM)


def test_a_system_that_does_not_tell_its_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> object:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", missing)
    assert identity.boot_id() == ""
    assert identity.process_start_time(os.getpid()) is None


def test_the_peer_of_a_connection_is_known() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert identity.peer_uid(ours) == os.getuid()
        assert identity.peer_pid(ours) == os.getpid()


def test_credentials_of_a_closed_socket_are_an_oserror() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    theirs.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        identity.peer_uid(ours)
