"""Finding the daemon, and whether there may be one."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from client.fakes import answering, make_world, serving
from cueloop_client.failures import Misfit, Older
from cueloop_client.reach import check_version, located_process, may_have_daemon, reach, why_no_daemon
from cueloop_protocol.identity import boot_id, process_start_time
from cueloop_protocol.place import FOLDER, LOCATOR, Locator, locator_bytes
from cueloop_protocol.roots import Root, open_root


def locator(socket: str = "/s/d.sock", protocols: tuple[int, int] = (1, 1)) -> Locator:
    started = process_start_time(os.getpid())
    assert started is not None
    return Locator(socket, os.getpid(), started, boot_id(), os.uname().nodename, "i", "9.9.9", *protocols)


@pytest.mark.parametrize("protocols", [(1, 1), (1, 5)])
def test_a_common_version_is_enough(protocols: tuple[int, int]) -> None:
    check_version(locator(protocols=protocols))
    check_version(None)


@pytest.mark.parametrize(("protocols", "said"), [((2, 4), "protocol 2 to 4"), ((2, 2), "protocol 2,")])
def test_d12_no_common_version_names_both_and_the_command_that_fixes_it(protocols: tuple[int, int], said: str) -> None:
    with pytest.raises(Misfit, match=r"version 9\.9\.9") as caught:
        check_version(locator(protocols=protocols))
    assert said in caught.value.message
    assert "this command 1" in caught.value.message
    assert caught.value.detail is not None
    assert "update cueloop to 9.9.9" in caught.value.detail
    assert not isinstance(caught.value, Older)
    assert caught.value.word == "version_mismatch"


def test_d12_an_older_daemon_is_told_apart_as_it_may_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cueloop_client.reach.PROTOCOL", 5)
    monkeypatch.setattr("cueloop_client.reach.OLDEST_PROTOCOL_VERSION", 4)
    with pytest.raises(Older, match="protocol 1 to 3, this command 4 to 5") as caught:
        check_version(locator(protocols=(1, 3)))
    assert caught.value.detail is not None
    assert "cueloop daemon restart" in caught.value.detail
    check_version(locator(protocols=(1, 4)))
    check_version(locator(protocols=(5, 9)))


def test_d12_a_daemon_of_another_protocol_gets_no_request_but_can_be_reached_to_be_stopped(
    root: Root, environ: dict[str, str]
) -> None:
    world = make_world(environ)
    with serving(root, environ, answering({})) as daemon:
        os.makedirs(root.join(FOLDER))
        Path(root.join(FOLDER, LOCATOR)).write_bytes(locator_bytes(locator(daemon.path, (2, 2))))
        with pytest.raises(Misfit):
            reach(root, world, world.deadline(5))
        sock = reach(root, world, world.deadline(5), any_version=True)
        assert sock is not None
        sock.close()
        assert daemon.received == []


def test_nobody_there(root: Root, environ: dict[str, str]) -> None:
    world = make_world(environ)
    assert reach(root, world, world.deadline(5)) is None
    assert located_process(root, world) is None


def test_the_locator_finds_a_daemon_that_another_environment_started(root: Root, environ: dict[str, str], short: Path) -> None:
    other = {**environ, "XDG_RUNTIME_DIR": str(short / "other")}
    (short / "other").mkdir(mode=0o700)
    with serving(root, other, answering({})) as daemon:
        os.makedirs(root.join(FOLDER))
        Path(root.join(FOLDER, LOCATOR)).write_bytes(locator_bytes(locator(daemon.path)))
        world = make_world(environ)
        sock = reach(root, world, world.deadline(5))
        assert sock is not None
        sock.close()
        process = located_process(root, world)
        assert process is not None
        assert process.pid == os.getpid()


def test_what_is_closed_is_named_with_the_remedy(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    os.makedirs(root.join(FOLDER))
    closed = root.join(".cueloop/cache")
    assert why_no_daemon(root) is None
    monkeypatch.setattr("os.access", lambda path, mode: path != closed)
    assert why_no_daemon(root) == (f"{closed} may not be written.", f"Make it writable: chmod u+rwx {closed} (if it is yours).")


class TestWhereADaemonMayRun:
    def test_with_a_folder_that_can_be_written(self, root: Root) -> None:
        assert may_have_daemon(root)
        os.makedirs(root.join(FOLDER))
        assert may_have_daemon(root)

    def test_not_without_the_folder(self, short: Path) -> None:
        (short / "bare").mkdir()
        assert not may_have_daemon(open_root(str(short / "bare")))
        (short / "bare/.cueloop").write_text("a file")
        assert not may_have_daemon(open_root(str(short / "bare")))

    @pytest.mark.parametrize("name", [".cueloop/cache", FOLDER])
    def test_not_with_a_file_in_the_way(self, root: Root, name: str) -> None:
        os.makedirs(os.path.dirname(root.join(name)), exist_ok=True)
        Path(root.join(name)).write_text("")
        assert not may_have_daemon(root)

    @pytest.mark.parametrize("name", [".cueloop", ".cueloop/cache", FOLDER])
    def test_not_where_the_system_says_that_it_may_not_be_written(
        self, root: Root, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        os.makedirs(root.join(FOLDER))
        closed = root.join(name)
        monkeypatch.setattr("os.access", lambda path, mode: path != closed)
        assert not may_have_daemon(root)

    def test_not_through_a_link_out_of_the_repository(self, root: Root, short: Path) -> None:
        (short / "linked").mkdir()
        (short / "linked/.cueloop").symlink_to(root.join(".cueloop"))
        assert not may_have_daemon(open_root(str(short / "linked")))
        (short / "elsewhere").mkdir()
        os.symlink(short / "elsewhere", root.join(".cueloop/cache"))
        assert not may_have_daemon(root)

    def test_through_a_link_within_the_repository_but_not_for_our_own_folder(self, root: Root) -> None:
        os.mkdir(root.join("within"))
        os.symlink("../within", root.join(".cueloop/cache"))
        assert may_have_daemon(root)
        os.mkdir(root.join("ours"))
        os.symlink("../ours", root.join("within/cueloopd"))
        assert not may_have_daemon(root)

    def test_not_through_a_link_to_nowhere(self, short: Path) -> None:
        (short / "dangling").mkdir()
        (short / "dangling/.cueloop").symlink_to("nowhere")
        assert not may_have_daemon(open_root(str(short / "dangling")))


@pytest.mark.parametrize(("flags", "said"), [(os.ST_RDONLY, "mounted read-only"), (0, "chmod u+rwx")])
def test_a_folder_that_may_not_be_written_is_told_with_the_reason(
    root: Root, monkeypatch: pytest.MonkeyPatch, flags: int, said: str
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=flags))
    found = why_no_daemon(root)
    assert found is not None
    assert said in " ".join(found)
