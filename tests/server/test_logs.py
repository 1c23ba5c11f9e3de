"""The log: its lines, its bounds, and what it does when it cannot be written."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.logs import FILES, LONGEST_TEXT, REDACTED, JsonLines, Logs, Plain, event_of, redact

log = logging.getLogger("cueloop_daemon.somewhere")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "daemon.log"


def record(message: object, *values: object, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error is not None else None
    made = logging.LogRecord("cueloop_daemon.x", logging.WARNING, "f.py", 1, message, values, info)
    made.created = 1_770_458_400.5
    return made


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize(
    ("message", "values", "event", "fields"),
    [
        ("started", (), "started", {}),
        ("session_written bytes=%d path=%s", (5, "/a b"), "session_written", {"bytes": 5, "path": "/a b"}),
        (
            "event log damaged path=%s reason=%s",
            ("p", OSError("r=1 x=2")),
            "event log damaged",
            {"path": "p", "reason": "r=1 x=2"},
        ),
        ("took seconds=%.3f", (1.23456,), "took", {"seconds": 1.23456}),
        ("is open=%s", (True,), "is", {"open": True}),
        ("is open=%s", (None,), "is", {"open": None}),
        ("full=%d%% used=%s", (3, 4), "full=3% used=4", {}),
        ("hello %s a=%s", ("x", 1), "hello x a=1", {}),
        ("hello %s", ("x",), "hello x", {}),
        ("100%% sure a=%s", (1,), "100% sure", {"a": 1}),
        ("wrong a=%d", ("x",), "wrong", {"a": "x"}),
        ("wrong %d", ("x",), "wrong %d ('x',)", {}),
        (ValueError("odd"), (), "odd", {}),
    ],
)
def test_an_event_and_its_values(message: object, values: tuple[object, ...], event: str, fields: dict[str, object]) -> None:
    assert event_of(record(message, *values)) == (event, fields)


def test_a_value_that_cannot_be_shown_is_named_by_its_type() -> None:
    class Shy:
        def __str__(self) -> str:
            raise RuntimeError

    assert event_of(record("x value=%s", Shy())) == ("x", {"value": "<Shy>"})


def test_a_json_line() -> None:
    line = json.loads(JsonLines().format(record("session_written bytes=%d level=%s", 5, "x")))
    assert line == {
        "time": "2026-02-07T10:00:00.500Z",
        "level": "warning",
        "logger": "x",
        "event": "session_written",
        "bytes": 5,
        "level_": "x",
    }


@given(st.text(), st.text())
def test_any_text_is_one_line(event: str, value: str) -> None:
    made = record(event.replace("%", "%%") + " value=%s", value)
    assert "\n" not in JsonLines().format(made)
    assert isinstance(json.loads(JsonLines().format(made))["value"], str)
    assert not any(ord(character) < 32 for character in Plain().format(made))


def test_a_traceback_is_a_member_and_for_people_it_follows() -> None:
    try:
        raise ValueError("token=abcdefgh")
    except ValueError as error:
        made = record("call_failed method=%s", "m", error=error)
    line = json.loads(JsonLines().format(made))
    assert line["traceback"].endswith(f"ValueError: token={REDACTED}\n")
    first, *rest = Plain().format(made).splitlines()
    assert first.endswith("warning call_failed method=m")
    assert rest[-1] == f"ValueError: token={REDACTED}"


@pytest.mark.parametrize(
    "secret",
    [
        "password=hunter22",
        'api_key: "hunter22"',
        "{'webhook_secret': 'hunter22'}",
        "Authorization: Bearer hunter22",
        "ANTHROPIC_API_KEY=hunter22 and more",
        "https://me:hunter22@example.org/x",
        "used bearer hunter22hunter22",
        "sk-ant-hunter22hunter22",
        "ghp_hunter22hunter22",
        '{"env": 1, "GITHUB_TOKEN": "hunter22"}',
    ],
)
def test_what_looks_like_a_secret_is_redacted(secret: str) -> None:
    assert "hunter22" not in redact(f"before {secret}, after")
    assert redact(f"before {secret}, after").startswith("before ")
    assert "hunter22" not in JsonLines().format(record("x value=%s", secret))
    assert "hunter22" not in Plain().format(record(secret.replace("%", "%%")))


@pytest.mark.parametrize(
    "text", ["", "session_id=5", "reason=stopped path=/a/b", "https://example.org/a@b", "author: me", "8 tasks"]
)
def test_other_text_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("name", ["secret", "token", "password", "api_key", "cookie", "env", "authorization"])
def test_a_value_with_the_name_of_a_secret_is_redacted(name: str) -> None:
    assert event_of(record(f"x {name}=%s", "short"))[1] == {name: REDACTED}


@pytest.mark.parametrize(
    "text", ["a", "token", "-", "'", '"', ":", " ", "://", "://:", "bearer ", "sk-", "secret=", "api_key = "]
)
def test_cleaning_any_text_takes_little_time(text: str) -> None:
    begin = time.process_time()
    JsonLines().format(record("x value=%s", text * 100_000))
    assert time.process_time() - begin < 0.5


def test_long_values_are_cut() -> None:
    [value] = event_of(record("x value=%s", "a" * 100_000))[1].values()
    assert len(str(value)) < LONGEST_TEXT + 50
    assert "100000" in str(value)


def test_it_logs_while_it_is_entered_from_its_level_on(path: Path) -> None:
    with Logs(str(path), "info") as logs:
        log.debug("no")
        log.info("yes n=%d", 1)
        logging.getLogger("some.library").info("no")
        logging.getLogger("some.library").warning("library")
        logs.set("error", 10_000)
        log.warning("no")
        logs.set("debug", 10_000)
        log.debug("debug")
        assert logs.trouble is None
        assert logs.path == str(path)
    log.error("no")
    assert [line["event"] for line in lines(path)] == ["yes", "library", "debug"]
    assert not log.isEnabledFor(logging.INFO)


def test_the_file_is_for_its_owner_alone_and_is_appended_to(path: Path) -> None:
    before = os.umask(0)
    try:
        for _ in range(2):
            with Logs(str(path)):
                log.info("x")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(lines(path)) == 2


def test_in_the_foreground_people_read_along(path: Path) -> None:
    watched = io.StringIO()
    with Logs(str(path), stderr=watched):
        log.info("session_written bytes=%d", 5)
    assert watched.getvalue().endswith(" info session_written bytes=5\n")
    assert len(lines(path)) == 1


def test_all_files_together_stay_within_the_limit(path: Path) -> None:
    with Logs(str(path), "info", 40_000):
        for number in range(2000):
            log.info("number n=%d text=%s", number, "x" * 100)
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["daemon.log", *(f"daemon.log.{number}" for number in range(1, FILES))]
    assert sum(file.stat().st_size for file in files) <= 40_000
    numbers = [line["n"] for file in [*reversed(files[1:]), files[0]] for line in lines(file)]
    assert numbers == list(range(numbers[0], 2000))


def test_a_line_larger_than_a_file_is_written_all_the_same(path: Path) -> None:
    with Logs(str(path), "info", 1000):
        for _ in range(3):
            log.info("x text=%s", "y" * 2000)
    assert len(lines(path)) == 1
    assert len(lines(Path(f"{path}.1"))) == 1


def test_an_existing_file_counts(path: Path) -> None:
    path.write_text("{}\n" * 1000)
    with Logs(str(path), "info", 4000):
        log.info("x")
    assert [line["event"] for line in lines(path)] == ["x"]
    assert len(lines(Path(f"{path}.1"))) == 1000


@pytest.mark.parametrize("what", ["missing folder", "folder", "link", "fifo", "unreadable device"])
def test_d27_a_log_that_cannot_be_written_is_said_once_and_work_goes_on(
    path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = path
    if what == "missing folder":
        target = path / "x"
    elif what == "folder":
        path.mkdir()
    elif what == "link":
        (path.parent / "other").write_text("")
        path.symlink_to(path.parent / "other")
    elif what == "fifo":
        os.mkfifo(path)
    else:
        target = Path("/dev/full")
    with Logs(str(target)) as logs:
        log.info("one")
        log.info("two")
        assert logs.trouble is not None
        assert str(target) in logs.trouble
    assert capsys.readouterr().err.count("cannot be written") == 1
    assert what != "link" or (path.parent / "other").read_text() == ""


def test_it_recovers_when_it_can_be_written_again(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = path.parent / "f"
    with Logs(str(folder / "daemon.log")) as logs:
        log.info("lost")
        folder.mkdir()
        log.info("kept")
        assert logs.trouble is None
        folder.rename(path.parent / "g")
        log.info("lost")
        assert logs.trouble is not None
    assert [line["event"] for line in lines(path.parent / "g" / "daemon.log")] == ["kept"]
    assert capsys.readouterr().err.count("cannot be written") == 2


def test_a_removed_file_is_made_again(path: Path) -> None:
    with Logs(str(path)):
        log.info("one")
        path.unlink()
        log.info("two")
    assert [line["event"] for line in lines(path)] == ["two"]


def test_a_full_disk_is_no_error(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with Logs(str(path)) as logs:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            log.info("lost")
            assert logs.trouble is not None
        log.info("kept")
    assert [line["event"] for line in lines(path)] == ["kept"]
    assert "No space left" in capsys.readouterr().err


def test_a_stderr_that_is_gone_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = io.StringIO()
    gone.close()
    monkeypatch.setattr(sys, "stderr", gone)
    with Logs(str(tmp_path / "none" / "x")) as logs:
        log.info("x")
        assert logs.trouble is not None
