"""Desktop notifications: wanted or not, how they are shown, and that they never fail."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.runs.notify import LONGEST, DesktopNotify
from cueloop_protocol.documents.config import Notification
from cueloop_protocol.overrides import Overrides

SILENT: dict[str, Any] = {
    "enabled": False,
    "notify_on_complete": False,
    "notify_on_fail": False,
    "notify_on_loop_complete": False,
    "notify_on_watch_new_tasks": False,
    "suppress_when_active": True,
    "sound_enabled": False,
    "sound_path": None,
    "timeout_ms": 8000,
}
DISPLAY = {"DISPLAY": ":0", "PATH": "/usr/bin:/bin"}


def notify(
    call: dict[str, Any] | None = None,
    *,
    env: dict[str, str] | None = None,
    program: str | None = "/bin/notify-send",
    is_watched: bool = False,
    **config: Any,
) -> DesktopNotify:
    return DesktopNotify(
        Notification.model_validate({**SILENT, **config}),
        Overrides.model_validate(call or {}),
        DISPLAY if env is None else env,
        lambda name: program,
        lambda: is_watched,
    )


@pytest.mark.parametrize(
    ("config", "call", "wanted"),
    [
        ({}, {}, set()),
        ({"enabled": True}, {}, set()),
        ({"notify_on_complete": True}, {}, set()),
        ({"enabled": True, "notify_on_complete": True}, {}, {"complete"}),
        ({"enabled": True, "notify_on_fail": True}, {}, {"fail"}),
        ({"enabled": True, "notify_on_loop_complete": True}, {}, {"loop"}),
        ({"enabled": False, "notify_on_complete": True}, {}, set()),
        ({}, {"notify": True}, {"complete", "loop"}),
        ({}, {"notify_fail": True}, {"fail"}),
        ({"enabled": True, "notify_on_complete": True, "notify_on_fail": True}, {"notify": False}, {"fail"}),
        ({"enabled": True, "notify_on_complete": True, "notify_on_fail": True}, {"notify_fail": False}, {"complete"}),
    ],
)
def test_what_is_wanted(config: dict[str, Any], call: dict[str, Any], wanted: set[str]) -> None:
    told = notify(call, **config)
    assert {kind for kind in ("complete", "fail", "loop") if told.is_wanted(kind)} == wanted  # type: ignore[arg-type]  # the three


def test_silent_while_a_window_is_in_front() -> None:
    assert not notify({"notify": True}, is_watched=True).is_wanted("complete")
    assert notify({"notify": True}, is_watched=True, suppress_when_active=False).is_wanted("complete")


def shown(
    told: DesktopNotify, title: str, text: str, monkeypatch: pytest.MonkeyPatch, platform: str = "linux"
) -> list[str] | None:
    """The command that is run, if any; in its thread, waited for."""
    calls: list[list[str]] = []
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(subprocess, "run", lambda argv, **more: calls.append(argv))
    told.send(title, text, kind="complete")
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon and "_show" in thread.name:
            thread.join(5)
    return calls[0] if calls else None


def test_on_linux_the_text_is_no_markup_and_no_option(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = shown(notify({"notify": True}), "--help", "a <b> & c\0", monkeypatch)
    assert argv == ["/bin/notify-send", "--app-name=CueLoop", "--expire-time=8000", "--", "--help", "a &lt;b&gt; &amp; c "]


@pytest.mark.parametrize(
    ("config", "hint"),
    [({}, "--hint=string:sound-name:complete"), ({"sound_path": "/a/bell.ogg"}, "--hint=string:sound-file:/a/bell.ogg")],
)
def test_with_a_sound(config: dict[str, Any], hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hint in (shown(notify({"notify": True, "notify_sound": True}, **config), "t", "x", monkeypatch) or [])
    assert hint in (shown(notify({"notify": True}, sound_enabled=True, **config), "t", "x", monkeypatch) or [])


def test_on_a_mac_both_texts_are_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    told = notify({"notify": True}, program="/usr/bin/osascript", env={})
    argv = shown(told, 'a"b', "c\\d", monkeypatch, "darwin")
    assert argv is not None
    assert (argv[0], argv[3:]) == ("/usr/bin/osascript", ['a"b', "c\\d"])
    assert "a" not in argv[2].split("display")[0].replace("on run argv", "")


def test_long_texts_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = shown(notify({"notify": True}), "t" * 2000, "x" * 2000, monkeypatch)
    assert argv is not None
    assert [len(word) for word in argv[-2:]] == [LONGEST, LONGEST]


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_silent_without_a_program(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(notify({"notify": True}, program=None), "t", "x", monkeypatch, platform) is None


def test_silent_without_a_desktop(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(notify({"notify": True}, env={}), "t", "x", monkeypatch) is None
    assert shown(notify({"notify": True}, env={"DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"}), "t", "x", monkeypatch) is not None


def test_silent_when_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(notify(), "t", "x", monkeypatch) is None


def test_a_real_program_gets_it_and_a_missing_one_is_no_failure(tmp_path: Path) -> None:
    program, written = tmp_path / "notify-send", tmp_path / "written"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {written}.new\nmv {written}.new {written}\n')
    program.chmod(0o755)
    for path in (str(program), str(tmp_path / "gone")):
        told = notify({"notify": True}, program=path)
        argv = told._argv("Title", "Text")
        assert argv is not None
        told._show(argv)
    assert written.read_text().endswith("--|Title|Text|")
