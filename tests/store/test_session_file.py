"""What a session file turns out to be: by its bytes, and by what stands at its path."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.core.model import (
    SessionCorrupt,
    SessionLoaded,
    SessionMissing,
    SessionTooLarge,
    SessionTooNew,
    SessionUnreadable,
)
from cueloop_daemon.store.session_file import classify, read_session
from cueloop_protocol.documents.session import Session, session_json

FIELDS: dict[str, object] = {
    "version": 1,
    "session_id": "550e8400-e29b-41d4-a716-446655440000",
    "task_id": "RQ-0001",
    "run_started_at": "2026-02-07T10:00:00.000000000Z",
    "last_updated_at": "2026-02-07T10:30:00.000000000Z",
    "iterations_planned": 2,
    "iterations_completed": 1,
    "current_phase": 2,
    "runner": "claude",
    "model": "sonnet",
    "tasks_completed_in_loop": 0,
    "max_tasks": 10,
    "git_head_commit": "abc123def456",
    "phase1_settings": {"runner": "claude", "model": "sonnet", "reasoning_effort": None},
    "phase2_settings": {"runner": "codex", "model": "gpt-5.4", "reasoning_effort": "high"},
}
S0 = json.dumps(FIELDS, indent=2).encode()


def with_fields(**changes: object) -> bytes:
    return json.dumps(FIELDS | changes).encode()


def without(key: str) -> bytes:
    return json.dumps({name: value for name, value in FIELDS.items() if name != key}).encode()


def test_a_session_is_loaded_with_the_etag_of_its_bytes() -> None:
    found = classify(S0)
    assert isinstance(found, SessionLoaded)
    assert found.session.task_id == "RQ-0001"
    assert found.etag == hashlib.sha256(S0).hexdigest()


@pytest.mark.parametrize("data", [b"\0" * 2, b"\0" * 642, b"\0" * 900_000], ids=len)
def test_a01_nul_bytes_are_corrupt(data: bytes) -> None:
    found = classify(data)
    assert isinstance(found, SessionCorrupt)
    assert "NUL" in found.detail


@pytest.mark.parametrize("data", [b"", b"\n", b"   ", b"\xef\xbb\xbf", b"// nothing\n"])
def test_a03_b02_a_file_without_a_value_is_corrupt(data: bytes) -> None:
    assert isinstance(classify(data), SessionCorrupt)


@pytest.mark.parametrize("key", ["session_id", "task_id"])
@pytest.mark.parametrize("value", ["", "   ", "\t", None, 7])
def test_a17_blank_ids_are_corrupt_and_named(key: str, value: object) -> None:
    found = classify(with_fields(**{key: value}))
    assert isinstance(found, SessionCorrupt)
    assert key in found.detail


@pytest.mark.parametrize("key", [key for key in FIELDS if key not in ("git_head_commit", "phase1_settings", "phase2_settings")])
def test_a17_b12_a_missing_field_is_corrupt_and_named(key: str) -> None:
    found = classify(without(key))
    assert isinstance(found, SessionCorrupt)
    assert f"{key} is missing" in found.detail


@pytest.mark.parametrize("key", ["git_head_commit", "phase1_settings", "phase2_settings"])
def test_optional_fields_may_be_missing_or_null(key: str) -> None:
    assert isinstance(classify(without(key)), SessionLoaded)
    assert isinstance(classify(with_fields(**{key: None})), SessionLoaded)


@pytest.mark.parametrize("stamp", ["2099-01-01T00:00:00Z", "2026-02-07", "yesterday", ""])
def test_a20_a21_a_stamp_is_kept_whatever_it_says(stamp: str) -> None:
    found = classify(with_fields(last_updated_at=stamp))
    assert isinstance(found, SessionLoaded)
    assert found.session.last_updated_at == stamp


@pytest.mark.parametrize("version", [2, 99, 2**32 - 1])
def test_a32_a_newer_version_is_left_alone_whatever_else_is_in_it(version: int) -> None:
    found = classify(json.dumps({"version": version, "new_field": {"keep": 1}}).encode())
    assert isinstance(found, SessionTooNew)
    assert found.version == version


@pytest.mark.parametrize(
    "version", ["0", "-1", '"1"', '"2"', "1.0", "2.0", "true", "null", "1e400", "[1]", "4294967296", "9" * 4000]
)
def test_a32_an_odd_version_is_corrupt(version: str) -> None:
    data = S0.replace(b'"version": 1', b'"version": ' + version.encode())
    found = classify(data)
    assert isinstance(found, SessionCorrupt)


def test_a32_no_version_is_corrupt() -> None:
    assert isinstance(classify(without("version")), SessionCorrupt)


@pytest.mark.parametrize(
    "data",
    [
        b"// keep me\n" + S0,
        S0.replace(b'"task_id":', b'/* why */ "task_id": /* here */'),
        S0[:-2] + b",\n}",
        b"\xef\xbb\xbf" + S0,
        b"\xef\xbb\xbf" + S0.replace(b"\n", b"\r\n"),
        S0.replace(b"\n", b"\r\n"),
        S0.replace(b"\n", b"\r"),
    ],
    ids=["line comment", "block comment", "trailing comma", "bom", "bom and crlf", "crlf", "cr"],
)
def test_b01_b02_b06_lenient_spellings_load_as_the_same_session(data: bytes) -> None:
    found, plain = classify(data), classify(S0)
    assert isinstance(found, SessionLoaded)
    assert isinstance(plain, SessionLoaded)
    assert found.session == plain.session
    assert found.etag != plain.etag


def test_b06_a_cr_ends_a_comment() -> None:
    found = classify(b"{// note\r" + S0[1:])
    assert isinstance(found, SessionLoaded)


@pytest.mark.parametrize("data", [b"{version: 1}", b"{'version': 1}", S0.replace(b": 1", b": 0x1"), S0.decode().encode("utf-16")])
def test_b02_what_only_json5_or_utf16_reads_is_corrupt(data: bytes) -> None:
    assert isinstance(classify(data), SessionCorrupt)


@pytest.mark.parametrize(
    "data",
    [
        S0.replace(b'"max_tasks"', b'"task_id": "RQ-0002", "max_tasks"'),
        S0.replace(b'"max_tasks"', b'"task\\u005fid": "RQ-0002", "max_tasks"'),
    ],
    ids=["plain", "escaped"],
)
def test_b04_a_key_given_twice_is_corrupt_and_named(data: bytes) -> None:
    found = classify(data)
    assert isinstance(found, SessionCorrupt)
    assert "task_id" in found.detail
    assert "line " in found.detail


def test_b04_a_key_given_twice_inside_is_named_too() -> None:
    found = classify(S0.replace(b'"model": "gpt-5.4"', b'"model": "a", "model": "b"'))
    assert isinstance(found, SessionCorrupt)
    assert '"model"' in found.detail


@pytest.mark.parametrize("depth", [1000, 100_000])
def test_b08_deep_nesting_is_corrupt(depth: int) -> None:
    assert isinstance(classify(b'{"x":' + b"[" * depth + b"]" * depth + b"}"), SessionCorrupt)


@pytest.mark.parametrize("bad", [b"\xb2", b"\xc0\xaf", b"\xe2\x82", b"\xed\xa0\x80"])
def test_b10_bytes_that_are_not_utf8_are_corrupt(bad: bytes) -> None:
    assert isinstance(classify(S0.replace(b"sonnet", bad, 1)), SessionCorrupt)
    assert isinstance(classify(S0 + bad), SessionCorrupt)


@pytest.mark.parametrize("data", [b"null", b"[]", b'"x"', b"42", b"true"])
def test_b12_a_value_that_is_no_object_is_corrupt(data: bytes) -> None:
    found = classify(data)
    assert isinstance(found, SessionCorrupt)
    assert "object" in found.detail


@pytest.mark.parametrize(
    ("key", "value"),
    [("current_phase", value) for value in (True, "2", 2.0, 0, 4, 99, -1, None)]
    + [("iterations_planned", value) for value in (256, -1, True, 1.0)]
    + [("tasks_completed_in_loop", value) for value in (2**32, -1, "0")]
    + [("max_tasks", 2**32), ("runner", 5), ("runner", ""), ("runner", " "), ("model", None)]
    + [("phase1_settings", []), ("phase1_settings", {"runner": "pi"}), ("git_head_commit", 7)]
    + [("phase1_settings", {"runner": "pi", "model": "m", "reasoning_effort": "max"}), ("extra", 1)],
)
def test_b12_a_wrong_value_is_corrupt_and_the_field_is_named(key: str, value: object) -> None:
    found = classify(with_fields(**{key: value}))
    assert isinstance(found, SessionCorrupt)
    assert key in found.detail


@pytest.mark.parametrize(
    ("written", "read"), [("CLAUDE", "claude"), (" Pi ", "pi"), ("foo", "foo"), ("acme.Runner", "acme.Runner"), ("KIMI", "kimi")]
)
def test_b12_a_runner_has_one_spelling(written: str, read: str) -> None:
    found = classify(with_fields(runner=written, phase1_settings={"runner": written, "model": "m", "x": 1}))
    assert isinstance(found, SessionLoaded)
    assert found.session.runner == read
    assert found.session.phase1_settings is not None
    assert found.session.phase1_settings.runner == read


def test_many_errors_are_counted_and_a_long_value_is_cut() -> None:
    found = classify(with_fields(runner=["x" * 10_000], max_tasks=-1))
    assert isinstance(found, SessionCorrupt)
    assert "1 more" in found.detail
    assert len(found.detail) < 300


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail(data: bytes) -> None:
    assert isinstance(classify(data), SessionCorrupt | SessionTooNew | SessionLoaded)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_no_value_makes_the_reader_fail(value: object) -> None:
    for data in (json.dumps(value), json.dumps(FIELDS | {"task_id": value}), json.dumps(FIELDS | {"phase1_settings": value})):
        assert isinstance(classify(data.encode()), SessionCorrupt | SessionTooNew | SessionLoaded)


def test_b01_what_is_written_is_strict_json_in_the_contracts_order() -> None:
    found = classify(b"// note\n" + S0)
    assert isinstance(found, SessionLoaded)
    written = session_json(found.session)
    fields = json.loads(written)
    assert written == (json.dumps(fields, indent=2) + "\n").encode()
    assert list(fields) == [key for key in FIELDS if fields.get(key) is not None]
    assert "reasoning_effort" not in fields["phase1_settings"]
    assert classify(written) == SessionLoaded(found.session, hashlib.sha256(written).hexdigest())


@given(
    st.builds(
        Session,
        version=st.just(1),
        session_id=st.text(min_size=1).map(lambda text: f"s{text}"),
        task_id=st.text().map(lambda text: f"RQ{text}"),
        run_started_at=st.text(),
        last_updated_at=st.text(),
        iterations_planned=st.integers(0, 255),
        iterations_completed=st.integers(0, 255),
        current_phase=st.integers(1, 3),
        runner=st.sampled_from(["claude", "pi", "acme"]),
        model=st.text(),
        tasks_completed_in_loop=st.integers(0, 2**32 - 1),
        max_tasks=st.integers(0, 2**32 - 1),
        git_head_commit=st.none() | st.text(),
    )
)
def test_what_is_written_is_read_back(session: Session) -> None:
    found = classify(session_json(session))
    assert isinstance(found, SessionLoaded)
    assert found.session == session


def test_no_file_and_no_folder_are_no_session(tmp_path: Path) -> None:
    assert read_session(str(tmp_path / "session.jsonc")) == SessionMissing()
    assert read_session(str(tmp_path / "cache" / "session.jsonc")) == SessionMissing()
    (tmp_path / "file").touch()
    assert read_session(str(tmp_path / "file" / "session.jsonc")) == SessionMissing()


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonc"
    data = b" " * (1024 * 1024 - len(S0)) + S0
    path.write_bytes(data)
    assert read_session(str(path)) == classify(data)
    assert isinstance(classify(data), SessionLoaded)


def test_a01_a_file_over_a_mebibyte_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonc"
    path.write_bytes(b" " * (1024 * 1024 + 1 - len(S0)) + S0)
    os.chmod(path, 0o600)
    first = read_session(str(path))
    assert isinstance(first, SessionTooLarge)
    assert first.size == 1024 * 1024 + 1
    assert read_session(str(path)) == first
    path.write_bytes(b"\0" * 3_000_000)
    second = read_session(str(path))
    assert isinstance(second, SessionTooLarge)
    assert second.etag != first.etag


def test_a_file_that_grows_while_it_is_read_ends_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "session.jsonc"
    path.write_bytes(S0)
    monkeypatch.setattr(os, "read", lambda descriptor, size: b"x" * size)
    assert isinstance(read_session(str(path)), SessionTooLarge)


@pytest.mark.parametrize("target", ["other.jsonc", "nowhere", "session.jsonc", "/etc/hostname"])
def test_b11_a33_a_link_is_refused_wherever_it_leads(target: str, tmp_path: Path) -> None:
    (tmp_path / "other.jsonc").write_bytes(S0)
    link = tmp_path / "session.jsonc"
    link.symlink_to(target)
    found = read_session(str(link))
    assert isinstance(found, SessionUnreadable)
    assert "link" in found.detail
    assert os.readlink(link) == target


def test_b11_a_linked_folder_above_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "session.jsonc").write_bytes(S0)
    (tmp_path / "cache").symlink_to("real")
    assert isinstance(read_session(str(tmp_path / "cache" / "session.jsonc")), SessionLoaded)


def test_a33_a_folder_a_fifo_a_device_and_a_socket_are_unreadable_and_nothing_blocks(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    assert "a folder" in _detail(tmp_path / "folder")
    assert "a FIFO" in _detail(tmp_path / "fifo")
    assert "a device" in _detail(Path("/dev/null"))
    with tempfile.TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{short}/s")
        assert "socket" in _detail(Path(short) / "s")


def _detail(path: Path) -> str:
    found = read_session(str(path))
    assert isinstance(found, SessionUnreadable)
    return found.detail


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EPERM])
def test_a33_a_file_that_cannot_be_opened_is_unreadable_until_it_can(number: int, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonc"
    path.write_bytes(S0)

    def refuse(path: str, flags: int) -> int:
        assert flags & os.O_NOFOLLOW
        assert flags & os.O_NONBLOCK
        raise OSError(number, os.strerror(number), path)

    found = read_session(str(path), refuse)
    assert isinstance(found, SessionUnreadable)
    assert os.strerror(number).lower() in found.detail
    assert str(tmp_path) not in found.detail
    assert isinstance(read_session(str(path)), SessionLoaded)


def test_a33_an_error_while_reading_is_unreadable_and_closes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "session.jsonc"
    path.write_bytes(S0)
    opened: list[int] = []

    def remember(path: str, flags: int) -> int:
        opened.append(os.open(path, flags))
        return opened[-1]

    def fail(descriptor: int, size: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "read", fail)
        found = read_session(str(path), remember)
    assert isinstance(found, SessionUnreadable)
    assert "input/output error" in found.detail
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_an_error_without_words_is_told_all_the_same() -> None:
    def refuse(path: str, flags: int) -> int:
        raise OSError

    found = read_session("session.jsonc", refuse)
    assert found == SessionUnreadable("The session file cannot be opened: an unknown error.")


@pytest.fixture
def nobody() -> Iterator[None]:
    """Without the rights of root, which no file mode stops."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.mark.parametrize("closed", ["file", "folder"])
def test_a33_without_access_a_session_is_unreadable_and_nothing_is_changed(
    closed: str, open_folder: Path, request: pytest.FixtureRequest
) -> None:
    path = open_folder / "cache" / "session.jsonc"
    path.parent.mkdir()
    path.write_bytes(S0)
    shut = path if closed == "file" else path.parent
    shut.chmod(0)
    request.getfixturevalue("nobody")
    found = read_session(str(path))
    assert found == SessionUnreadable("The session file cannot be opened: permission denied.")
