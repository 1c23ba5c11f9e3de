"""The system calls where the usual way to them is missing."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.store.not_writable import not_writable
from cueloop_daemon.store.system import UNSUPPORTED, System

REAL = ctypes.CDLL(None, use_errno=True)


class OldLibrary:
    """A C library from before renameat2 had a wrapper."""

    syscall = REAL.syscall


@pytest.fixture
def old_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *args, **options: OldLibrary())


def pair(folder: Path) -> tuple[str, str]:
    (folder / "a").write_bytes(b"a")
    (folder / "b").write_bytes(b"b")
    return str(folder / "a"), str(folder / "b")


def check_exchange(folder: Path) -> None:
    one, other = pair(folder)
    System().exchange(one, other)
    assert Path(one).read_bytes() == b"b"
    with pytest.raises(FileExistsError) as caught:
        System().rename_new(one, other)
    assert caught.value.filename == one
    with pytest.raises(FileNotFoundError):
        System().exchange(one, str(folder / "missing"))
    System().rename_new(one, str(folder / "free"))
    assert (folder / "free").read_bytes() == b"b"


def test_exchange(tmp_path: Path) -> None:
    check_exchange(tmp_path)


@pytest.mark.usefixtures("old_library")
def test_exchange_by_the_calls_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_exchange(tmp_path)

    def unknown_machine() -> Any:
        return os.uname_result(("Linux", "host", "1", "1", "vax"))

    monkeypatch.setattr(os, "uname", unknown_machine)
    one, other = pair(tmp_path)
    with pytest.raises(OSError, match="not implemented") as caught:
        System().exchange(one, other)
    assert caught.value.errno in UNSUPPORTED
    assert Path(one).read_bytes() == b"a"
    assert platform.system() in ("Linux", "Darwin")


def test_a_folder_that_knows_no_fsync() -> None:
    System().fsync_folder("/proc/self")
    with pytest.raises(FileNotFoundError):
        System().fsync_folder("/proc/self/nothing")


def test_a_folder_whose_fsync_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fails)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="Input/output"):
        System().fsync_folder(str(tmp_path))
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EACCES, "permission_denied"),
        (errno.EPERM, "permission_denied"),
        (errno.EROFS, "permission_denied"),
        (errno.ENOSPC, "unknown"),
        (errno.EDQUOT, "unknown"),
        (errno.EIO, "unknown"),
        (errno.ELOOP, "unknown"),
        (0, "unknown"),
    ],
)
def test_what_people_are_told(number: int, code: str) -> None:
    exc = OSError(number, os.strerror(number)) if number else OSError("odd")
    error = not_writable(exc, "/repo/f", "remove")
    assert (error.code, error.errno, error.path) == (code, number, "/repo/f")
    assert error.message.startswith("Cannot remove /repo/f: ")
    assert error.message.endswith(".")
    assert error.remedy.endswith(".")
    assert ("of /repo" in error.remedy) == (number in (errno.EACCES, errno.EPERM))
    assert "{" not in error.remedy
    assert str(error) == error.message
