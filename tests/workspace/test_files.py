"""Files by their stat: read when they changed, and again when they could have changed without a trace."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from cueloop_daemon.workspace.files import (
    MISSING,
    MOST_FILES,
    TICK_NS,
    FileCache,
    Input,
    are_unchanged,
    is_unsettled,
    read_regular,
    sign,
    sign_link,
)

LATER = 10**15


def _age(path: Path, ns: int = 10**18) -> None:
    os.utime(path, ns=(ns, ns))


def test_a_file_is_read_once_while_its_stat_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    cache = FileCache(lambda: path.stat().st_mtime_ns + TICK_NS)
    assert cache.read(str(path)) == b"one"
    monkeypatch.setattr("cueloop_daemon.workspace.files.read_regular", _never)
    assert cache.read(str(path)) == b"one"


def _never(path: str) -> tuple[bytes | None, tuple[int, ...]]:
    raise AssertionError(f"{path} was read again")


def test_a_file_that_was_read_in_the_tick_of_its_writing_is_read_again(tmp_path: Path) -> None:
    """A rewrite in the same tick leaves the same stat: inode, size and times."""
    path = tmp_path / "file"
    path.write_bytes(b"one")
    cache = FileCache(lambda: path.stat().st_mtime_ns)
    assert cache.read(str(path)) == b"one"
    assert cache.unsettled(str(path))
    before = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert cache.read(str(path)) == b"two"


@pytest.mark.parametrize("change", ["rename", "grow", "touch", "remove"])
def test_each_change_of_the_stat_is_seen(tmp_path: Path, change: str) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"one")
    cache = FileCache(lambda: LATER)
    assert cache.read(str(path)) == b"one"
    match change:
        case "rename":
            other.write_bytes(b"two")
            os.rename(other, path)
        case "grow":
            path.write_bytes(b"one and more")
        case "touch":
            _age(path)
        case "remove":
            path.unlink()
    assert cache.read(str(path)) == (path.read_bytes() if path.exists() else None)


def test_missing_and_coming(tmp_path: Path) -> None:
    cache, path = FileCache(lambda: LATER), tmp_path / "file"
    assert cache.read(str(path)) is None
    assert not cache.unsettled(str(path))
    path.write_bytes(b"one")
    assert cache.read(str(path)) == b"one"
    assert cache.read(f"{path}/below") is None


def test_what_is_no_regular_file_is_an_error_and_never_waits(tmp_path: Path) -> None:
    cache = FileCache(lambda: LATER)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        cache.read(str(tmp_path / "fifo"))
    with pytest.raises(IsADirectoryError):
        cache.read(str(tmp_path))
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        cache.read(str(tmp_path / "loop"))


def test_a_file_over_the_limit_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(256 * 1024 * 1024 + 1)
    with pytest.raises(OSError, match="large"):
        read_regular(str(path))


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"half")
    real = os.lseek
    changes = iter([b"the whole"])

    def lseek(fd: int, where: int, how: int) -> int:
        for data in changes:
            path.write_bytes(data)
            _age(path)
            break
        return real(fd, where, how)

    monkeypatch.setattr("cueloop_daemon.workspace.files.os.lseek", lseek)
    data, signature = read_regular(str(path))
    assert data == b"the whole"
    assert signature == sign(str(path))


def test_the_files_that_were_asked_for_last_are_kept(tmp_path: Path) -> None:
    cache = FileCache(lambda: 0)
    names = [str(tmp_path / f"file-{number}") for number in range(MOST_FILES + 2)]
    for name in names:
        Path(name).write_bytes(b"x")
        cache.read(name)
    cache.read(names[0])  # again: later than the others
    cache.forget_oldest()
    assert list(cache._kept) == [*names[3:], names[0]]


def test_a_file_that_stood_as_it_was_counts_as_asked_for(tmp_path: Path) -> None:
    cache = FileCache(lambda: LATER)
    names = [str(tmp_path / name) for name in ("one", "two")]
    for name in (*names, names[0]):
        Path(name).write_bytes(b"x")
        _age(Path(name))
        cache.read(name)
    assert list(cache._kept) == [names[1], names[0]]


def test_a_link_can_count_as_itself(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to("target")
    followed, itself = Input(str(link), sign(str(link))), Input(str(link), sign_link(str(link)), is_link_itself=True)
    assert followed.signature == MISSING
    target.write_bytes(b"x")
    assert not are_unchanged((followed,))
    assert are_unchanged((itself,))


@pytest.mark.parametrize(
    ("read_at", "unsettled"), [(0, True), (TICK_NS - 1, True), (TICK_NS, False), (-TICK_NS + 1, True), (-TICK_NS, False)]
)
def test_the_edge_of_a_tick(read_at: int, unsettled: bool) -> None:
    assert is_unsettled((1, 1, 1, LATER, LATER), LATER + read_at) is unsettled
    assert is_unsettled((1, 1, 1, 0, LATER), LATER + read_at) is unsettled
    assert not is_unsettled(MISSING, 0)
    assert not is_unsettled((-13,), 0)


def test_a_fifo_with_a_writer_does_not_hold_the_reader(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    done = threading.Event()

    def read() -> None:
        with pytest.raises(OSError, match="not a regular file"):
            read_regular(str(fifo))
        done.set()

    threading.Thread(target=read, daemon=True).start()
    assert done.wait(5)
