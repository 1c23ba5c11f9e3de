"""The same daemon is found from every environment, and nothing is believed that a stranger could have put there."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_protocol import identity, place
from cueloop_protocol.place import Locator, PlaceError
from cueloop_protocol.roots import Root

UID = os.getuid()
LOCAL_FOLDER = place.local_folder
VARIABLE = "TMPDIR" if sys.platform == "darwin" else "XDG_RUNTIME_DIR"


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder of ours with a short path: sockets live below it."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="c-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def local(short: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for `/tmp/cueloopd-<uid>`, so that tests leave nothing there."""
    monkeypatch.setattr(place, "local_folder", lambda uid: f"{short}/local-{uid}")
    return short / f"local-{UID}"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / place.FOLDER).mkdir(parents=True)
    return Root(str(tmp_path), str(tmp_path))


def runtime(short: Path, length: int, letter: str = "x") -> str:
    """A folder of ours for which the longest socket path is `length` bytes."""
    left = length - len(os.fsencode(f"{short}//cueloopd/{'0' * 16}/d.sock"))
    count, rest = divmod(left, len(letter.encode()))
    folder = short / (letter * count + "x" * rest)
    folder.mkdir(mode=0o700)
    return str(folder)


@pytest.mark.parametrize("letter", ["x", "é", "語"])
@pytest.mark.parametrize("limit", [103, 107])
@pytest.mark.parametrize("length", [60, 96, 97, 100, 103, 104, 107, 108, 150])
def test_d06_sockets_fit_whatever_the_runtime_folder_s_length(
    short: Path, root: Root, monkeypatch: pytest.MonkeyPatch, length: int, limit: int, letter: str
) -> None:
    monkeypatch.setattr(place, "SOCKET_LIMIT", limit)
    environ = {VARIABLE: runtime(short, length, letter)}
    folder = place.ensure_socket_folder(root, environ, UID)
    path = place.socket_path(root, environ, UID)
    assert len(os.fsencode(path)) <= limit
    assert folder.startswith(environ[VARIABLE]) == (length - len("d.sock") + place.NAME_ROOM <= limit)
    for name in (path, f"{folder}/{'t' * place.NAME_ROOM}"):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name)


def test_d06_long_roots_with_a_common_beginning_share_nothing() -> None:
    one, other = (Root(f"/{'a' * 120}/{name}", "/") for name in ("one", "other"))
    assert place.root_hash(one) != place.root_hash(other)
    assert place.socket_path(one, {}, UID) != place.socket_path(other, {}, UID)
    assert place.local_lock_path(one, UID) != place.local_lock_path(other, UID)


def test_the_hash_is_of_the_path_s_bytes() -> None:
    assert place.root_hash(Root("/repo", "/proc/self/fd/9")) == place.root_hash(Root("/repo", "/repo")) == "816fc349d3faebf8"
    assert len(place.root_hash(Root(os.fsdecode(b"/r\xff"), "/"))) == 16


def test_the_local_lock_knows_no_environment() -> None:
    assert LOCAL_FOLDER(7) == "/tmp/cueloopd-7"
    code = "from cueloop_protocol import place, roots; print(place.local_lock_path(roots.Root('/repo', '/repo'), 7))"
    for environ in ({}, {"TMPDIR": "/var/tmp", "XDG_RUNTIME_DIR": "/run", "HOME": "/nowhere"}):
        done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
        assert done.stdout == "/tmp/cueloopd-7/816fc349d3faebf8.lock\n"


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o711, 0o777, 0o1777])
def test_a_runtime_folder_that_is_open_to_others_is_not_used(mode: int, tmp_path: Path, local: Path) -> None:
    (tmp_path / "run").mkdir()
    os.chmod(tmp_path / "run", mode)
    assert place.runtime_folders({VARIABLE: str(tmp_path / "run")}, UID) == (place.local_folder(UID),)


@pytest.mark.parametrize("value", [None, "", "relative", "/nonexistent", "/"])
def test_a_runtime_folder_that_is_none_of_ours_is_not_used(value: str | None, local: Path) -> None:
    environ = {} if value is None else {VARIABLE: value}
    uid = UID if value != "/" else UID + 1
    assert place.runtime_folders(environ, uid) == (place.local_folder(uid),)


def test_d25_folders_are_private_from_the_first_moment(short: Path, root: Root) -> None:
    for length, umask in enumerate((0o000, 0o022, 0o077, 0o777), 80):
        environ = {VARIABLE: runtime(short, length)}
        before = os.umask(umask)
        try:
            folder = place.ensure_socket_folder(root, environ, UID)
        finally:
            os.umask(before)
        assert stat.S_IMODE(os.stat(folder).st_mode) == stat.S_IMODE(os.stat(os.path.dirname(folder)).st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o750, 0o710, 0o500])
def test_d25_an_open_folder_is_refused_with_the_remedy(short: Path, mode: int) -> None:
    folder = short / "open"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(PlaceError, match=f"open to others .mode {mode:04o}") as caught:
        place.ensure_private_folder(str(folder), UID)
    assert caught.value.remedy == f"close it: chmod 700 {folder}"
    assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_d25_a_link_a_file_and_a_stranger_s_folder_are_refused(short: Path) -> None:
    (short / "real").mkdir(mode=0o700)
    (short / "link").symlink_to("real")
    (short / "file").write_text("")
    for name in ("link", "file"):
        with pytest.raises(PlaceError, match="is not a folder"):
            place.ensure_private_folder(str(short / name), UID)
    with pytest.raises(PlaceError, match="belongs to another user"):
        place.ensure_private_folder(str(short / "real"), UID + 1)
    with pytest.raises(PlaceError, match="cannot be created") as caught:
        place.ensure_private_folder(str(short / "file" / "below"), UID)
    assert caught.value.number == 20
    with pytest.raises(PlaceError, match="cannot be looked at"):
        place.check_private_folder(str(short / "missing"), UID)


def live(root: Root, folder: str, **changes: object) -> Locator:
    """A locator that this process could have written."""
    start = identity.process_start_time(os.getpid())
    fields: dict[str, object] = {
        "socket": f"{folder}/d.sock",
        "pid": os.getpid(),
        "start_time": start,
        "boot_id": identity.boot_id(),
        "host": os.uname().nodename,
        "instance": "i",
        "daemon_version": "0.1.0",
        "protocol_min": 1,
        "protocol_max": 1,
    }
    return Locator(**(fields | changes))  # type: ignore[arg-type]


def write(root: Root, data: bytes) -> str:
    path = root.join(place.FOLDER, place.LOCATOR)
    with open(path, "wb") as file:
        file.write(data)
    return path


def test_the_locator_wins_whatever_the_environments_are(short: Path, root: Root) -> None:
    folder = place.ensure_socket_folder(root, {VARIABLE: runtime(short, 80)}, UID)
    locator = live(root, folder)
    write(root, place.locator_bytes(locator))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(locator.socket)
        for environ in ({}, {VARIABLE: runtime(short, 90)}, {VARIABLE: "/nonexistent", "HOME": "/x"}):
            assert place.read_locator(root, UID) == locator
            assert place.find_socket(root, environ, UID) == (locator.socket,)


def test_without_a_locator_the_computed_places_are_candidates(short: Path, root: Root) -> None:
    environ = {VARIABLE: runtime(short, 80)}
    assert place.find_socket(root, environ, UID) == ()
    listeners = []
    for one in (environ, {}):
        place.ensure_socket_folder(root, one, UID)
        assert place.socket_path(root, one, UID) not in place.find_socket(root, environ, UID)
        listeners.append(socket.socket(socket.AF_UNIX))
        listeners[-1].bind(place.socket_path(root, one, UID))
    expected = (place.socket_path(root, environ, UID), place.socket_path(root, {}, UID))
    assert place.find_socket(root, environ, UID) == expected
    os.chmod(os.path.dirname(expected[0]), 0o755)
    assert place.find_socket(root, environ, UID) == expected[1:]
    for listener in listeners:
        listener.close()


LIES = {
    "another boot": {"boot_id": "b"},
    "another host": {"host": "h"},
    "another start": {"start_time": "1"},
    "pid 0": {"pid": 0},
    "pid 1": {"pid": 1},
    "pid -1": {"pid": -1},
    "pid huge": {"pid": 99999999999},
    "pid true": {"pid": True},
    "pid text": {"pid": "7"},
    "no pid": {"pid": None},
    "empty socket": {"socket": ""},
    "protocol text": {"protocol_min": "1"},
}


@pytest.mark.parametrize("lie", LIES)
def test_f01_a_locator_that_lies_is_not_believed(short: Path, root: Root, lie: str) -> None:
    folder = place.ensure_socket_folder(root, {}, UID)
    write(root, place.locator_bytes(live(root, folder)))
    assert place.read_locator(root, UID) is not None
    write(root, place.locator_bytes(live(root, folder, **LIES[lie])))
    assert place.read_locator(root, UID) is None


def test_a_locator_may_only_lead_to_a_private_folder_of_this_root(short: Path, root: Root) -> None:
    folder = place.ensure_socket_folder(root, {}, UID)
    wide = short / place.root_hash(root)
    wide.mkdir()
    wide.chmod(0o755)
    other = short / "0123456789abcdef"
    other.mkdir(mode=0o700)
    link = short / "l" / place.root_hash(root)
    link.parent.mkdir()
    link.symlink_to(folder)
    for path in (f"{wide}/d.sock", f"{other}/d.sock", f"{link}/d.sock", f"{folder}/e.sock", place.root_hash(root) + "/d.sock"):
        write(root, place.locator_bytes(live(root, folder, socket=path)))
        assert place.read_locator(root, UID) is None, path


def test_a_locator_must_be_a_plain_file_of_ours(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = place.ensure_socket_folder(root, {}, UID)
    data = place.locator_bytes(live(root, folder))
    path = write(root, data)
    assert place.read_locator(root, UID + 1) is None
    os.rename(path, f"{path}.real")
    os.symlink(f"{path}.real", path)
    assert place.read_locator(root, UID) is None
    os.unlink(path)
    os.mkfifo(path)
    assert place.read_locator(root, UID) is None
    os.unlink(path)
    os.mkdir(path)
    assert place.read_locator(root, UID) is None
    os.rmdir(path)
    write(root, data + b" " * place.LOCATOR_LIMIT)
    assert place.read_locator(root, UID) is None
    write(root, data + b" " * 100)
    assert place.read_locator(root, UID) is not None
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", lambda fd, size: (_ for _ in ()).throw(OSError(5, "Input/output error")).send(None))
        assert place.read_locator(root, UID) is None


TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1)


@given(
    st.builds(
        Locator, TEXT, st.integers(), TEXT, TEXT, TEXT, TEXT, TEXT, st.integers(-(2**40), 2**40), st.integers(-(2**40), 2**40)
    )
)
def test_a_locator_survives_its_bytes(locator: Locator) -> None:
    assert place.parse_locator(place.locator_bytes(locator)) == locator
    assert place.parse_locator(place.locator_bytes(locator).replace(b"{", b'{"later": [1],', 1)) == locator


@given(
    st.one_of(st.binary(max_size=300), st.sampled_from([b"[]", b"null", b"[" * 100_000, b"\xff\xfe{\x00}\x00", b'{"pid":1e400}']))
)
def test_any_bytes_are_no_locator_and_no_error(data: bytes) -> None:
    assert place.parse_locator(data) is None
