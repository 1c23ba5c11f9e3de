"""`cueloop daemon logs`: any log at any moment, in words and as it is, and what a daemon said that died."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.fakes import Recorder, make_world
from cueloop_client.log_text import readable
from cueloop_client.logfile import Following
from cueloop_client.main import run
from cueloop_protocol.place import local_folder, root_hash
from cueloop_protocol.roots import Root


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder / "daemon.log"


@pytest.fixture
def log(path: Path) -> Iterator[Following]:
    following = Following(str(path))
    yield following
    following.close()


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def rotate(path: Path) -> None:
    """As the daemon does it, with three older files."""
    for number in (3, 2, 1):
        older = path if number == 1 else Path(f"{path}.{number - 1}")
        if older.exists():
            older.replace(f"{path}.{number}")


class TestFollowing:
    def test_what_is_added(self, path: Path, log: Following) -> None:
        path.write_text("1\n2\n")
        assert log.begin(1) == b"2\n"
        assert log.added() == b""
        append(path, "3\n")
        assert log.added() == b"3\n"

    def test_a_line_is_told_when_it_is_whole(self, path: Path, log: Following) -> None:
        path.write_text("")
        log.begin(5)
        append(path, "a")
        assert log.added() == b""
        append(path, "b\nc")
        assert log.added() == b"ab\n"
        rotate(path)
        path.write_text("d\n")
        assert log.added() == b"c\nd\n"

    @pytest.mark.parametrize("times", [1, 2, 3])
    def test_nothing_is_lost_or_repeated_over_rotations_between_two_looks(self, path: Path, log: Following, times: int) -> None:
        path.write_text("0\n")
        assert log.begin(9) == b"0\n"
        for number in range(times):
            append(path, f"old {number}\n")
            rotate(path)
            path.write_text(f"new {number}\n")
        expected = [line for number in range(times) for line in (f"old {number}", f"new {number}")]
        assert log.added().decode().split("\n")[:-1] == expected
        assert log.added() == b""

    def test_after_more_rotations_than_files_are_kept_it_goes_on_with_the_newest(self, path: Path, log: Following) -> None:
        path.write_text("0\n")
        log.begin(9)
        for number in range(6):
            rotate(path)
            path.write_text(f"{number}\n")
        assert log.added() == b"5\n"

    def test_a_file_that_became_shorter_is_read_from_its_beginning(self, path: Path, log: Following) -> None:
        path.write_text("long enough\nunfinished")
        log.begin(0)
        os.truncate(path, 0)
        append(path, "anew\n")
        assert log.added() == b"anew\n"

    def test_a_folder_that_was_removed_and_made_again(self, path: Path, log: Following) -> None:
        path.write_text("1\n")
        log.begin(9)
        append(path, "2\n")
        shutil.rmtree(path.parent)
        assert log.added() == b"2\n"
        path.parent.mkdir()
        path.write_text("3\n")
        assert log.added() == b"3\n"

    def test_a_log_that_is_not_there_yet(self, path: Path, log: Following) -> None:
        with pytest.raises(FileNotFoundError):
            log.begin(9)
        assert log.added() == b""
        path.write_text("1\n")
        assert log.added() == b"1\n"

    @pytest.mark.parametrize(("number", "expected"), [(0, b""), (1, b"5\n"), (3, b"3\n4\n5\n"), (99, b"1\n2\n3\n4\n5\n")])
    def test_the_last_lines_are_those_of_rotated_files_too(
        self, path: Path, log: Following, number: int, expected: bytes
    ) -> None:
        path.write_text("5\n")
        Path(f"{path}.1").write_text("3\n4\n")
        Path(f"{path}.2").write_text("1\n2\n")
        assert log.begin(number) == expected
        assert log.added() == b""

    def test_between_a_rotation_and_the_new_file(self, path: Path, log: Following) -> None:
        path.write_text("1\n")
        rotate(path)
        assert log.begin(9) == b"1\n"
        path.write_text("2\n")
        assert log.added() == b"2\n"


LINE = {
    "time": "2026-02-07T10:00:00.000Z",
    "level": "warning",
    "logger": "app",
    "event": "lost",
    "n": 5,
    "why": "no\nroom",
    "p": None,
}


class TestWords:
    def test_a_line_for_people(self) -> None:
        text = readable(json.dumps({**LINE, "traceback": "Traceback:\n  x"}).encode() + b"\n")
        first, *below = text.splitlines()
        assert first[4] == first[7] == "-"
        assert first.endswith(':00:00 warning lost n=5 why="no\\nroom" p=null')
        assert below == ["    Traceback:", "      x"]

    @pytest.mark.parametrize("line", [b"plain words", b"[1]", b"{", b'{"a": 1}', b"", b"\xff", b"[" * 100_000])
    def test_what_is_no_line_of_the_log_stays(self, line: bytes) -> None:
        assert readable(line + b"\n") == line.decode("utf-8", "replace") + "\n"

    @pytest.mark.parametrize("time", ["yesterday", None, 5, "9999-99-99", "0001-01-01T00:00:00+14:00"])
    def test_any_time(self, time: object) -> None:
        assert readable(json.dumps({**LINE, "time": time}).encode()).endswith('warning lost n=5 why="no\\nroom" p=null\n')


def put(root: Root, text: str) -> Path:
    path = Path(root.join(".cueloop/cache/cueloopd/daemon.log"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def call(root: Root, environ: dict[str, str], line: str) -> tuple[int, Recorder]:
    recorder = Recorder()
    return run(["--repo", root.path, *line.split()], make_world(environ, recorder)), recorder


class TestCommand:
    def test_in_words_and_as_it_is(self, root: Root, environ: dict[str, str]) -> None:
        put(root, json.dumps(LINE) + "\n")
        assert call(root, environ, "daemon logs")[1].out.endswith('warning lost n=5 why="no\\nroom" p=null\n')
        assert call(root, environ, "daemon logs --json")[1].out == json.dumps(LINE) + "\n"

    def test_an_escape_sequence_moves_nobodys_cursor(self, root: Root, environ: dict[str, str]) -> None:
        put(root, "\x1b[2J\n")
        assert call(root, environ, "daemon logs")[1].out == "\ufffd[2J\n"

    @pytest.mark.parametrize("has_log", [True, False])
    def test_d27_what_a_daemon_said_that_died_is_shown_beside_the_log(
        self, root: Root, environ: dict[str, str], has_log: bool
    ) -> None:
        if has_log:
            put(root, "1\n")
        base = Path(local_folder(os.getuid()), root_hash(root))
        base.parent.mkdir(mode=0o700, exist_ok=True)
        base.with_suffix(".stderr").write_text("Fatal Python error: Segmentation fault\n")
        failed = {"count": 1, "at": 1.0, "word": "unknown", "message": "The daemon died.", "detail": "It said nothing."}
        base.with_suffix(".failed").write_text(json.dumps(failed))
        code, told = call(root, environ, "daemon logs")
        assert (code, told.out) == (0, "1\n" if has_log else "")
        for words in ("Segmentation fault", "The daemon died.", "It said nothing."):
            assert words in told.err

    def test_a_log_that_is_not_there_yet_is_waited_for(self, root: Root, environ: dict[str, str]) -> None:
        process = follow(root, environ)
        assert process.stdout is not None
        assert process.stderr is not None
        with process.stdout, process.stderr:
            assert b"Waiting for it." in process.stderr.readline()
            put(root, "1\n")
            assert process.stdout.readline() == b"1\n"
            process.terminate()
            process.wait(30)

    def test_it_ends_when_nobody_reads_any_more_also_if_nothing_is_logged(self, root: Root, environ: dict[str, str]) -> None:
        put(root, "1\n")
        process = follow(root, environ)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"1\n"
        process.stdout.close()
        with process.stderr:
            assert process.stderr.read() == b""
        assert process.wait(30) == 141


def follow(root: Root, environ: dict[str, str]) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "cueloop_client", "daemon", "logs", "--follow"]
    return subprocess.Popen(argv, cwd=root.path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
