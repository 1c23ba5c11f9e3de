"""Who started the daemon, and what is left of the environment it was started in."""

from __future__ import annotations

import pytest

from cueloop_daemon.service.origin import Origin, own_environment, read_origin

PID = 4711
PASSED = {"LISTEN_PID": "4711", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "cueloopd"}


@pytest.mark.parametrize(
    ("environ", "has_starter", "wanted"),
    [
        ({}, False, Origin("hand")),
        ({}, True, Origin("demand")),
        ({"CUELOOPD_ORIGIN": "demand"}, False, Origin("demand")),
        (PASSED, False, Origin("systemd", (("cueloopd", 3),))),
        ({**PASSED, "LISTEN_PID": "4712"}, False, Origin("hand")),
        ({**PASSED, "LISTEN_PID": "4712"}, True, Origin("demand")),
        ({**PASSED, "LISTEN_FDS": "2"}, False, Origin("systemd", (("unknown", 3), ("unknown", 4)))),
        ({**PASSED, "LISTEN_FDS": "2", "LISTEN_FDNAMES": "a:cueloopd"}, False, Origin("systemd", (("a", 3), ("cueloopd", 4)))),
        ({"LISTEN_PID": "4711", "LISTEN_FDS": "1"}, False, Origin("systemd", (("unknown", 3),))),
        ({**PASSED, "LISTEN_FDS": "x"}, False, Origin("hand")),
        ({**PASSED, "LISTEN_FDS": "-1"}, False, Origin("hand")),
        ({"NOTIFY_SOCKET": "/n", "SYSTEMD_EXEC_PID": "4711"}, False, Origin("systemd", (), "/n")),
        ({"NOTIFY_SOCKET": "/n", "SYSTEMD_EXEC_PID": "9"}, False, Origin("hand")),
        ({"NOTIFY_SOCKET": "/n"}, True, Origin("demand")),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "2500000"}, False, Origin("systemd", (), "/n", 2.5)),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "2500000", "WATCHDOG_PID": "4711"}, False, Origin("systemd", (), "/n", 2.5)),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "2500000", "WATCHDOG_PID": "9"}, False, Origin("systemd", (), "/n")),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "soon"}, False, Origin("systemd", (), "/n")),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "0"}, False, Origin("systemd", (), "/n")),
        ({"XPC_SERVICE_NAME": "io.cueloop.cueloopd.0123456789abcdef"}, False, Origin("launchd")),
        ({"XPC_SERVICE_NAME": "application.com.apple.Terminal"}, False, Origin("hand")),
    ],
)
def test_the_origin_is_read_from_the_environment(environ: dict[str, str], has_starter: bool, wanted: Origin) -> None:
    assert read_origin(environ, PID, has_starter=has_starter) == wanted


def test_a_flood_of_descriptors_is_bounded() -> None:
    assert len(read_origin({**PASSED, "LISTEN_FDS": "100000"}, PID, has_starter=False).descriptors) == 64


def test_the_environment_is_the_same_whoever_started_us() -> None:
    given = {
        **PASSED, "NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "1", "INVOCATION_ID": "1", "JOURNAL_STREAM": "1", "SECRET": "s", "HOME": "/other",
        "PATH": "/bin", "XDG_RUNTIME_DIR": "/run/user/1", "LANG": "de_DE", "VIRTUAL_ENV": "/v", "PYTHONPATH": "/elsewhere", "TMPDIR": "",
    }  # fmt: skip
    wanted = {"HOME": "/home/a", "LANG": "C.UTF-8", "USER": "a", "LOGNAME": "a", "PATH": "/bin", "XDG_RUNTIME_DIR": "/run/user/1"}
    assert own_environment(given, "/home/a", "a", "/packages") == wanted
    assert own_environment({}, "/", None, "/packages") == {"HOME": "/", "LANG": "C.UTF-8"}


def test_what_python_needs_to_find_us_is_kept() -> None:
    kept = own_environment({"PYTHONPATH": "/a:/packages", "PYTHONUSERBASE": "/base"}, "/", None, "/packages")
    assert (kept["PYTHONPATH"], "PYTHONUSERBASE" in kept) == ("/a:/packages", False)
    kept = own_environment({"PYTHONPATH": "/a", "PYTHONUSERBASE": "/base"}, "/", None, "/base/lib/python3/site-packages")
    assert ("PYTHONPATH" in kept, kept["PYTHONUSERBASE"]) == (False, "/base")
