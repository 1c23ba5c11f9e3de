"""`cueloop daemon list`, with fake daemons and locks in a folder of the test's own."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from client.fakes import Connection, FakeDaemon, Recorder, answering, make_world, serving
from cueloop_client.main import run
from cueloop_protocol.codes import method_not_found
from cueloop_protocol.identity import boot_id, process_start_time
from cueloop_protocol.owners import path_word
from cueloop_protocol.place import FOLDER, Locator, locator_bytes, root_hash
from cueloop_protocol.roots import Root, open_root

STATUS: dict[str, Any] = {
    "pid": os.getpid(), "daemon_version": "1.2.3", "protocol": 1, "state": "serving", "uptime_seconds": 3700.5, "connections": 2,
    "subscribers": 1, "memory_bytes": 41_000_000, "origin": "systemd", "paths": {"repo_root": "/told"},
    "active_run": {"run_id": "r1", "task_id": "CL-1", "phase": "plan", "state": "running"},
}  # fmt: skip


@pytest.fixture
def locks(short: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = short / "locks"
    folder.mkdir(mode=0o700)
    for module in ("owners", "place"):
        monkeypatch.setattr(f"cueloop_protocol.{module}.local_folder", lambda uid: str(folder))
    return folder


def sign(locks: Path, root: Root, *, named: bool = True, start: str | None = None) -> None:
    """A lock as this process would sign it."""
    found = os.stat(root.base)
    started = process_start_time(os.getpid()) if start is None else start
    text = f"pid: {os.getpid()}\nstart: {started}\nboot: {boot_id()}\nhost: {os.uname().nodename}\n"
    text += f"folder: {found.st_dev}-{found.st_ino}\nroot: {path_word(root.path)}\n" if named else ""
    (locks / f"{root_hash(root)}.lock").write_text(text)


def listed(environ: dict[str, str], *more: str) -> list[dict[str, Any]]:
    recorder = Recorder()
    assert run(["daemon", "list", "--json", *more], make_world(environ, recorder)) == 0
    assert recorder.err == ""
    document = json.loads(recorder.out)
    assert document["version"] == 1
    rows: list[dict[str, Any]] = document["daemons"]
    return rows


def printed(environ: dict[str, str], *more: str) -> str:
    recorder = Recorder()
    assert run(["daemon", "list", *more], make_world(environ, recorder)) == 0
    return recorder.out


def deaf(connection: Connection, request: dict[str, Any]) -> None:
    """Never answers."""


def test_nobody(locks: Path, environ: dict[str, str]) -> None:
    assert listed(environ) == []
    assert printed(environ) == "No daemon of yours runs on this machine.\n"


def test_a_daemon_that_answers_is_told_whole(locks: Path, environ: dict[str, str], root: Root) -> None:
    sign(locks, root)
    with serving(root, environ, answering({"daemon.status": STATUS})) as daemon:
        (row,) = listed(environ)
        text = printed(environ)
    assert row["repository"] == root.path
    assert row["repository_found"] is True
    assert row["socket"] == daemon.path
    told = ("state", "daemon_version", "uptime_seconds", "memory_bytes", "connections", "subscribers", "origin", "active_run")
    assert {name: row[name] for name in told} == {name: STATUS[name] for name in told}
    assert text.splitlines()[0] == root.path
    for words in ("serving, process", "version 1.2.3", "up for 1 hour 1 minute", "41 MB", "2 connections", "started by systemd"):
        assert words in text
    assert "run     r1, CL-1, plan, running" in text
    assert f"socket  {daemon.path}" in text


def test_a_dead_daemon_is_not_told_whatever_it_left(locks: Path, environ: dict[str, str], root: Root) -> None:
    sign(locks, root, start="1")
    with serving(root, environ, answering({})) as daemon:
        path = daemon.path
    Path(path).touch()  # a socket's name where nobody listens
    assert listed(environ) == []


def test_many_that_hang_cost_one_deadline_and_hide_nobody(locks: Path, environ: dict[str, str], short: Path, root: Root) -> None:
    silent = [Root(str(short / f"silent{number}"), str(short / f"silent{number}")) for number in range(12)]
    with ExitStack() as stack:
        for one in silent:
            (Path(one.path) / ".cueloop").mkdir(parents=True)
            sign(locks, one)
            stack.enter_context(serving(one, environ, deaf))
        sign(locks, root)
        stack.enter_context(serving(root, environ, answering({"daemon.status": STATUS})))
        began = time.monotonic()
        rows = {row["repository"]: row for row in listed(environ, "--timeout", "0.5")}
        assert time.monotonic() - began < 5
    assert {rows[one.path]["state"] for one in silent} == {"not answering"}
    assert {rows[one.path]["pid"] for one in silent} == {os.getpid()}
    assert rows[root.path]["state"] == "serving"


@contextmanager
def full(root: Root, environ: dict[str, str]) -> Iterator[None]:
    """A daemon that takes no connection: nothing is accepted, and the backlog is used up."""
    daemon = FakeDaemon(root, environ, deaf, backlog=0)
    import socket

    with ExitStack() as stack:
        while True:
            sock = stack.enter_context(socket.socket(socket.AF_UNIX))
            sock.setblocking(False)
            if sock.connect_ex(daemon.path):
                break
        try:
            yield
        finally:
            daemon.close()


def test_one_that_takes_no_connection_is_not_answering(locks: Path, environ: dict[str, str], root: Root) -> None:
    sign(locks, root)
    with full(root, environ):
        (row,) = listed(environ, "--timeout", "0.3")
        text = printed(environ, "--timeout", "0.3")
    assert (row["state"], row["pid"], row["repository_found"]) == ("not answering", os.getpid(), True)
    assert row["memory_bytes"] > 1_000_000
    assert f"not answering, process {os.getpid()}, up for " in text


def test_one_without_a_socket_is_told(locks: Path, environ: dict[str, str], root: Root) -> None:
    sign(locks, root)
    (row,) = listed(environ)
    assert (row["state"], row["repository"]) == ("no socket", root.path)
    assert "has no socket" in printed(environ)


def test_a_repository_that_was_moved_or_deleted_is_shown_as_such(
    locks: Path, environ: dict[str, str], root: Root, short: Path
) -> None:
    sign(locks, root)
    with serving(root, environ, answering({"daemon.status": STATUS})):
        os.rename(root.path, short / "moved")
        (row,) = listed(environ)
        assert (row["repository"], row["repository_found"], row["state"]) == (root.path, False, "serving")
        assert printed(environ).splitlines()[0] == f"{root.path} (moved or deleted)"
        shutil.copytree(short / "moved", root.path)  # the same content is another folder
        assert listed(environ)[0]["repository_found"] is False
        shutil.rmtree(root.path)
        os.rename(short / "moved", root.path)
        assert listed(environ)[0]["repository_found"] is True


@pytest.mark.parametrize("how", ["unknown method", "nonsense"])
def test_one_of_another_version_is_told_with_what_is_known(locks: Path, environ: dict[str, str], root: Root, how: str) -> None:
    sign(locks, root)

    def handle(connection: Connection, request: dict[str, Any]) -> None:
        if how == "nonsense":
            connection.raw(b"\x00\x01\n")
        else:
            connection.refuse(request, method_not_found("daemon.status").to_wire())

    with serving(root, environ, handle):
        (row,) = listed(environ)
        assert "speaks another version" in printed(environ)
    assert (row["state"], row["pid"]) == ("other version", os.getpid())
    assert "daemon_version" not in row


def test_one_whose_locator_says_so_is_not_even_asked(locks: Path, environ: dict[str, str], root: Root) -> None:
    sign(locks, root)
    with serving(root, environ, answering({"daemon.status": STATUS})) as daemon:
        start = process_start_time(os.getpid()) or ""
        locator = Locator(
            daemon.path, os.getpid(), start, boot_id(), os.uname().nodename, "instance", "9.9.9", protocol_min=7, protocol_max=9
        )
        os.makedirs(root.join(FOLDER))
        Path(root.join(FOLDER, "locator.json")).write_bytes(locator_bytes(locator))
        (row,) = listed(environ)
        assert daemon.received == []
    assert (row["state"], row["daemon_version"], row["protocols"]) == ("other version", "9.9.9", [7, 9])


@pytest.mark.parametrize("is_signed", [True, False])
def test_one_whose_lock_does_not_name_the_root_is_found_by_its_socket(
    locks: Path, environ: dict[str, str], root: Root, is_signed: bool
) -> None:
    if is_signed:
        sign(locks, root, named=False)
    with (
        (locks / f"{root_hash(root)}.lock").open("a") as lock,
        serving(root, environ, answering({"daemon.status": STATUS}), signs=False),
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        (row,) = listed(environ)
    assert (row["repository"], row["repository_found"], row["state"], row["pid"]) == ("/told", False, "serving", os.getpid())


def test_a_socket_alone_is_not_called_as_a_service_manager_would_start_what_sleeps(
    locks: Path, environ: dict[str, str], root: Root
) -> None:
    with serving(root, environ, answering({"daemon.status": STATUS}), signs=False) as daemon:
        assert listed(environ) == []
        (locks / f"{root_hash(root)}.lock").touch()
        assert listed(environ) == []
        assert daemon.accepted == 0


@pytest.mark.parametrize("name", ["with\nnewline", "with blank %41", "\udcff", "e\u0301", "long"])
def test_any_path(locks: Path, environ: dict[str, str], short: Path, name: str) -> None:
    folder = short / name
    if name == "long":
        here = os.getcwd()
        try:
            os.chdir(short)
            for _ in range(45):
                os.mkdir("d" * 100)
                os.chdir("d" * 100)
            os.makedirs(".cueloop")
            folder = Path("/".join([str(short), *["d" * 100] * 45]))
        finally:
            os.chdir(here)
    else:
        (folder / ".cueloop").mkdir(parents=True)
    root = open_root(str(folder))
    sign(locks, root)
    with serving(root, environ, answering({"daemon.status": STATUS})):
        (row,) = listed(environ)
        text = printed(environ)
    assert row["repository"] == os.fsencode(root.path).decode("utf-8", "replace")
    assert (row["repository_found"], row["state"]) == (True, "serving")
    assert len(text.splitlines()) == 4


def test_a_daemon_that_dies_while_it_is_asked_is_not_waited_for(locks: Path, environ: dict[str, str], root: Root) -> None:
    sign(locks, root)
    asked = Event()

    def handle(connection: Connection, request: dict[str, Any]) -> None:
        asked.set()
        connection.close()

    with serving(root, environ, handle):
        (row,) = listed(environ, "--timeout", "30")
    assert asked.is_set()
    assert row["state"] == "not answering"
