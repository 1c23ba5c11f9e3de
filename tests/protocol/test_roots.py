"""Where the root is: the recorded cases, paths of any length and any bytes, and the caller's folders."""

from __future__ import annotations

import datetime as dt
import errno
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_protocol import folders, roots
from cueloop_protocol.roots import Caller, Expanded, Root, RootError, find_root, open_root

VECTORS = Path(__file__).parents[1] / "data" / "vectors"


def _check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vectors_check", VECTORS / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CASES = [json.loads(line) for line in (VECTORS / "root.jsonl").read_text().splitlines()]


@contextmanager
def working_in(folder: int | str) -> Iterator[None]:
    """The working directory for a while, by path or descriptor."""
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(folder)
        yield
    finally:
        os.fchdir(before)
        os.close(before)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_recorded_case(case: dict[str, object], tmp_path: Path) -> None:
    check = _check()
    root = tmp_path.resolve() / "repo"
    root.mkdir()
    where = (str(root), str(tmp_path), dt.datetime.now(dt.UTC))
    check.lay(root, case["repo"], *where)
    if case.get("git") == "clean":
        check.git(root, "init", "-q", ".")
    check.lay(root, case.get("after_commit", {}), *where)
    changes = dict(case["rust"]["document"]["set"])  # type: ignore[index]
    expected = changes.get("/paths/repo_root", "{{root}}").replace("{{root}}", str(root))
    folder = str(root / str(case.get("cwd", "")))
    assert find_root(folder) == Root(expected, expected)
    with working_in(folder):
        assert find_root(None) == Root(expected, expected)


@given(markers=st.lists(st.sampled_from(["", ".git", *(f".cueloop/{name}" for name in roots.MARKERS)]), min_size=1, max_size=6))
def test_the_nearest_marker_wins(markers: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    top = tmp_path_factory.mktemp("walk").resolve()
    folder, expected = top, None
    for marker in markers:
        folder = folder / "d"
        folder.mkdir()
        if marker:
            (folder / marker).parent.mkdir(exist_ok=True)
            (folder / marker).write_text("{}")
            expected = folder
    if expected is not None:
        assert find_root(str(folder)).path == str(expected)
    assert open_root(str(folder)).path == str(folder)


def test_a_fifo_or_a_dangling_link_is_no_marker(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    (inner / ".cueloop").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    os.mkfifo(inner / ".cueloop" / "queue.jsonc")
    (inner / ".cueloop" / "config.jsonc").symlink_to("nowhere")
    (inner / ".git").symlink_to("nowhere")
    assert find_root(str(inner)).path == str(tmp_path.resolve())


def deep(top: Path, length: int) -> str:
    """Make folders below `top` until the path has exactly `length` bytes."""
    path, fd = str(top), os.open(top, os.O_RDONLY)
    while len(path) < length:
        left = length - len(path) - 1
        name = "n" * (left if left <= 200 else min(200, left - 2))
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        path, fd = f"{path}/{name}", below
    os.close(fd)
    assert len(path) == length
    return path


@pytest.fixture
def top(tmp_path: Path) -> Iterator[Path]:
    """A folder that may hold paths which only descriptors reach."""
    folder = tmp_path.resolve() / "top"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


LENGTHS = [folders.PIECE - 1, folders.PIECE, folders.PATH_MAX - 1, folders.PATH_MAX, folders.PATH_MAX + 1, 3 * folders.PATH_MAX]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_root_of_any_length_is_found_and_usable(top: Path, length: int) -> None:
    path = deep(top, length)
    fd = folders.open_folder(path)
    try:
        os.mkdir(".git", dir_fd=fd)
        os.makedirs(f"/proc/self/fd/{fd}/.cueloop/cache/cueloopd/{'x' * 150}" if sys.platform == "linux" else f"{path}/.cueloop")
        os.mkdir("sub", dir_fd=fd)
        below = os.open("sub", os.O_RDONLY, dir_fd=fd)
        with working_in(below):
            found = find_root(None)
            assert find_root(".") == found
        os.close(below)
    finally:
        os.close(fd)
    assert found.path == path
    assert (found.base == path) == (length < folders.PIECE)
    with open(found.join(".cueloop", "cache", "cueloopd", "x" * 150, "file"), "w") as file:
        file.write("here")
    assert find_root(f"{path}/sub") == open_root(path) == found  # and no further descriptor is kept for it


@pytest.mark.parametrize("refusal", [errno.ENAMETOOLONG, errno.ERANGE])
def test_a_c_library_whose_getcwd_gives_up_is_helped(top: Path, monkeypatch: pytest.MonkeyPatch, refusal: int) -> None:
    def getcwd() -> str:
        raise OSError(refusal, os.strerror(refusal))

    path = deep(top, folders.PATH_MAX + 300)
    fd = folders.open_folder(path)
    monkeypatch.setattr(os, "getcwd", getcwd)
    with working_in(fd):
        assert roots.physical_path(None) == path
    os.close(fd)


def test_links_and_dots_in_a_path_that_is_too_long_are_resolved(top: Path) -> None:
    path = deep(top, folders.PATH_MAX + 100)
    (top / "link").symlink_to(path[len(str(top)) + 1 :][:200])
    rest = path[len(str(top)) + 202 :]
    assert find_root(f"{top}/link/../link/{rest}/./.").path == path
    with working_in(str(top)):
        assert find_root(f"link/{rest}").path == path


def test_macos_asks_the_kernel_for_the_path_and_addresses_a_long_one_by_number(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "Repo").mkdir()
    long = deep(top, folders.PATH_MAX + 100)

    def getpath(fd: int, command: int, buffer: bytes) -> bytes:
        assert command == 50
        path = os.readlink(f"/proc/self/fd/{fd}")
        return os.fsencode(path).ljust(len(buffer), b"\0")

    monkeypatch.setattr("fcntl.fcntl", getpath)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        assert find_root(str(top / "Repo")).path == f"{top}/Repo"
        number = os.stat(folders.open_folder(long))
        assert open_root(long) == Root(long, f"/.vol/{number.st_dev}/{number.st_ino}")


def test_a_path_that_the_kernel_cannot_tell_is_found_by_walking(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (top / "repo").mkdir()
    (top / "other").mkdir()
    monkeypatch.setattr(os, "readlink", lambda path: str(top / "other"))
    with working_in(str(top / "repo")), monkeypatch.context() as patch:
        patch.setattr(os, "getcwd", _too_long)
        assert roots.physical_path(None) == f"{top}/repo"


def _too_long() -> str:
    raise OSError(errno.ENAMETOOLONG, "File name too long")


def test_a_folder_that_goes_while_it_is_looked_for(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = deep(top, folders.PATH_MAX + 100)
    fd = folders.open_folder(path)
    stat = os.stat

    def nowhere(name: str, **rest: object) -> os.stat_result:
        if "dir_fd" in rest and rest.get("follow_symlinks") is False:
            raise FileNotFoundError(errno.ENOENT, "gone")
        return stat(name, **rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, working_in(fd):
        patch.setattr(os, "getcwd", _too_long)
        patch.setattr(os, "stat", nowhere)
        with pytest.raises(RootError, match="does not exist"):
            find_root(None)
    monkeypatch.setattr(roots, "physical_path", lambda path: path)
    with pytest.raises(RootError, match="does not exist"):
        open_root(path + "/gone")
    os.close(fd)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path.resolve()) + b"/caf\xe9 \xf0\x9f\x8e\xac")
    os.makedirs(f"{folder}/.git")
    root = find_root(folder)
    assert os.fsencode(root.path).endswith(b"/caf\xe9 \xf0\x9f\x8e\xac")
    assert roots.shown(root.path).endswith("/caf\ufffd \U0001f3ac")


def test_a_folder_that_is_gone_is_one_plain_sentence(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with working_in(str(gone)):
        gone.rmdir()
        with pytest.raises(RootError, match="working directory does not exist"):
            find_root(None)
    with pytest.raises(RootError, match=r"does not exist .*--repo"):
        find_root(str(gone))


def test_a_file_or_a_loop_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("file", "loop"):
        with pytest.raises(RootError, match="cannot be used as a folder"):
            find_root(str(tmp_path / name))
    with pytest.raises(RootError, match="cannot be used as a folder"):
        find_root(str(tmp_path / ("n" * 300)))
    with pytest.raises(RootError):
        find_root(f"{tmp_path}/file/" + "./" * folders.PATH_MAX)


def test_the_file_system_root_is_a_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "_is_root", lambda path: False)
    assert find_root("/") == Root("/", "/")
    assert Root("/", "/").join(".cueloop", "config.jsonc") == "/.cueloop/config.jsonc"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/h"}, Caller("/h", None)),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, Caller("/h", "/x")),
        ({"HOME": "/h", "XDG_CONFIG_HOME": ""}, Caller("/h", None)),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "rel/ative"}, Caller("/h", None)),
        ({}, Caller("/passwd", None)),
        ({"HOME": "", "XDG_CONFIG_HOME": "/x"}, Caller("/passwd", "/x")),
        ({"HOME": "rel"}, Caller("/passwd", None)),
    ],
)
def test_the_caller_of_an_environment(environ: dict[str, str], expected: Caller) -> None:
    assert roots.caller_from_environment(environ, "/passwd") == expected


def test_the_caller_s_files() -> None:
    assert roots.global_config_path(Caller("/h", None)) == "/h/.config/cueloop/config.jsonc"
    assert roots.global_config_path(Caller("/h", "/x")) == "/x/cueloop/config.jsonc"
    assert roots.settings_path(Caller("/h", "/x")) == "/x/cueloop/cueloopd.jsonc"


def test_the_key_of_a_caller_is_stable_and_its_own() -> None:
    callers = [Caller("/h", None), Caller("/h", "/x"), Caller("/h/x", None), Caller(os.fsdecode(b"/h\xff"), None)]
    assert Caller("/h", None).key == "e5f27ab21f9b7484"
    assert len({caller.key for caller in callers}) == 4


@pytest.mark.parametrize(
    ("text", "shown", "io"),
    [
        ("q.jsonc", "/r/q.jsonc", "/b/q.jsonc"),
        ("a/../b.jsonc", "/r/a/../b.jsonc", "/b/a/../b.jsonc"),
        ("/abs/q.jsonc", "/abs/q.jsonc", "/abs/q.jsonc"),
        ("~/q.jsonc", "/h/q.jsonc", "/h/q.jsonc"),
        ("~", "/h", "/h"),
        ("~other/q.jsonc", "/r/~other/q.jsonc", "/b/~other/q.jsonc"),
        ("a/~/q.jsonc", "/r/a/~/q.jsonc", "/b/a/~/q.jsonc"),
    ],
)
def test_expand(text: str, shown: str, io: str) -> None:
    assert roots.expand(text, Root("/r", "/b"), Caller("/h", None)) == Expanded(shown, io)
