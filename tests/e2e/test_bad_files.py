"""Folders and files that are not as they should be: a plain sentence with the remedy, never a traceback, and nothing touched."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.repository import Repository, session
from support.wire import Refused, Wire, wait_for
from support.world import Daemon, DidNotStart, World, without_inotify, without_privileges

READING = [("machine", "config", "resolve"), ("machine", "workspace", "overview"), ("session", "show")]


def _contents(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below the folder: mode, inode, content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path)] = (status.st_mode, status.st_ino, data)
    return found


def _told(done: subprocess.CompletedProcess[bytes]) -> str:
    """What a failed command said: for programs one error document, for people sentences."""
    assert done.returncode == 1
    assert done.stdout == b""
    text = done.stderr.decode()
    assert "Traceback" not in text
    if done.args[0] == "machine":
        document = json.loads(text)
        assert document["version"] == 1
        return f"{document['code']} {document['message']} {document.get('detail')}"
    assert text.startswith("cueloop: ")
    return text


class TestFolder:
    """`.cueloop` itself."""

    @pytest.mark.parametrize("argv", READING, ids=" ".join)
    def test_missing_answers_without_a_daemon_and_creates_nothing(self, world: World, argv: tuple[str, ...]) -> None:
        bare = world.folder / "bare"
        (bare / ".git").mkdir(parents=True)
        before = _contents(bare)
        done = world.run(*argv, cwd=bare)
        assert (done.returncode, done.stderr) == (0, b"") or "queue" in _told(done)
        assert _contents(bare) == before
        assert world.daemons() == []

    @pytest.mark.parametrize("argv", READING, ids=" ".join)
    def test_read_only_answers_without_a_daemon_and_creates_nothing(self, world: World, argv: tuple[str, ...]) -> None:
        world.repository.put(world.repository.session, session())
        for folder in (world.repository.cache, world.repository.folder):
            folder.chmod(0o555)
        before = _contents(world.repository.path)
        try:
            done = world.run(*argv, before=without_privileges)
            assert (done.returncode, done.stderr) == (0, b"")
            assert _contents(world.repository.path) == before
            refused = world.run("session", "clear", "--yes", before=without_privileges)
            assert "writ" in _told(refused)
            assert _contents(world.repository.path) == before
        finally:
            for folder in (world.repository.folder, world.repository.cache):
                folder.chmod(0o755)
        assert world.daemons() == []

    def test_a_read_only_cache_is_no_place_for_a_daemon_b15(self, world: World) -> None:
        world.repository.put(world.repository.session, session())
        world.repository.cache.chmod(0o555)
        done = world.run("daemon", "start", before=without_privileges)
        assert ".cueloop" in _told(done)
        with pytest.raises(DidNotStart) as failed:
            world.start(before=without_privileges)
        world.repository.cache.chmod(0o755)
        assert failed.value.code == 1
        assert failed.value.said["error"]["code"] == "permission_denied"
        assert "Traceback" not in failed.value.stderr
        assert str(world.repository.cache) in failed.value.said["error"]["message"]

    @pytest.mark.parametrize("argv", READING, ids=" ".join)
    def test_unreadable_is_a_sentence(self, world: World, argv: tuple[str, ...]) -> None:
        world.repository.folder.chmod(0)
        try:
            done = world.run(*argv, before=without_privileges)
        finally:
            world.repository.folder.chmod(0o755)
        assert b"Traceback" not in done.stderr
        if done.returncode:
            assert "permission" in _told(done).lower()
        assert world.daemons() == []

    @pytest.mark.parametrize("argv", READING, ids=" ".join)
    def test_a_file_in_its_place(self, world: World, argv: tuple[str, ...]) -> None:
        shutil.rmtree(world.repository.folder)
        world.repository.folder.write_text("not a folder")
        done = world.run(*argv)
        assert b"Traceback" not in done.stderr
        assert done.returncode == 0 or _told(done)
        assert world.repository.folder.read_text() == "not a folder"
        assert "cueloop" in _told(world.run("daemon", "start")).lower()
        assert world.daemons() == []

    @pytest.mark.parametrize("name", ["cache", "cueloopd"])
    def test_a_file_in_place_of_our_folders(self, world: World, name: str) -> None:
        path = {"cache": world.repository.cache, "cueloopd": world.repository.ours}[name]
        if path.exists():
            shutil.rmtree(path)
        path.write_text("in the way")
        assert world.run("machine", "config", "resolve").returncode == 0
        assert str(world.repository.folder) in _told(world.run("daemon", "start"))
        with pytest.raises(DidNotStart) as failed:
            world.start()
        assert f"{path} is not a folder" in failed.value.said["error"]["message"]
        assert path.read_text() == "in the way"
        assert world.daemons() == []

    def test_deleted_under_the_daemon_it_leaves_and_makes_nothing_d11(self, world: World) -> None:
        daemon = world.start()
        with daemon.connect() as wire:
            wire.subscribe(caller=world.caller)
            shutil.rmtree(world.repository.path)
            assert daemon.process.wait(15) == 0
            notes = [wire.note()]
            while notes[-1]["method"] != "daemon.closing":
                notes.append(wire.note())
        assert notes[-1]["params"]["reason"] == "repository_gone"
        assert not world.repository.path.exists()
        assert "Traceback" not in daemon.stderr.read_text()
        Repository(world.repository.path).lay()
        world.repository.put(world.repository.session, session())
        done = world.run("machine", "config", "resolve")
        assert json.loads(done.stdout)["resume_preview"]["reason"] == "session_valid"
        (new,) = world.daemons()
        assert new != daemon.pid

    def test_a_link_out_of_the_repository_is_not_written_through_b11(self, world: World) -> None:
        elsewhere = world.folder / "elsewhere"
        os.rename(world.repository.folder, elsewhere)
        world.repository.folder.symlink_to(elsewhere)
        before = _contents(elsewhere)
        done = world.run("machine", "config", "resolve")
        assert b"Traceback" not in done.stderr
        assert _contents(elsewhere) == before
        assert world.repository.folder.is_symlink()


class TestSession:
    """The session file through the daemon: each state has its decision, nothing is touched, and all else goes on."""

    @pytest.fixture
    def world(self, shared: tuple[World, Daemon]) -> Iterator[World]:
        """One for all of them; the session is gone again afterwards."""
        yield shared[0]
        path = shared[0].repository.session
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)

    @pytest.fixture
    def wire(self, shared: tuple[World, Daemon]) -> Iterator[Wire]:
        with shared[1].connect() as wire:
            yield wire

    @pytest.mark.parametrize(
        ("data", "state"),
        [
            (b"\0" * 642, "corrupt"),
            (b"", "corrupt"),
            (b"   \n", "corrupt"),
            (b"\xef\xbb\xbf", "corrupt"),
            (b"null", "corrupt"),
            (b"[]", "corrupt"),
            (b"{}", "corrupt"),
            (b'"x":' + b"[" * 1000 + b"]" * 1000, "corrupt"),
            (session().replace(b'"task_id"', b'"task_id": "RQ-0002", "task_id"'), "corrupt"),
            (session().replace(b"claude", b"cla\xb2ude"), "corrupt"),
            (session(current_phase=True), "corrupt"),
            (session(task_id="   "), "corrupt"),
            ("\ufeff".encode() + session(), "loaded"),
            (b"// kept\r\n" + session(), "loaded"),
            (session(version=2, more={"keep": 1}), "too_new"),
            (b"\0" * (3 * 1024 * 1024), "too_large"),
        ],
        ids=lambda value: value if isinstance(value, str) else ascii(value[:24]),
    )
    def test_is_told_and_left_alone_a01_a03_a32_b01_b02_b04_b08_b10_b12(
        self, world: World, wire: Wire, data: bytes, state: str
    ) -> None:
        world.repository.session.write_bytes(data)
        before = world.repository.session.stat()
        found = wire.call("session.get", caller=world.caller)
        assert found["state"] == state
        for _ in range(100):
            preview = wire.call("config.resolve", caller=world.caller)["document"]["resume_preview"]
        assert preview["reason"] == ("session_valid" if state == "loaded" else "session_cache_corrupt")
        assert wire.call("workspace.overview", caller=world.caller)["document"]["version"] == 1
        after = world.repository.session.stat()
        assert (after.st_ino, after.st_mtime_ns, after.st_mode) == (before.st_ino, before.st_mtime_ns, before.st_mode)
        assert world.repository.session.read_bytes() == data
        cleared = wire.call("session.clear", etag=found["etag"])
        assert Path(cleared["history"]).read_bytes() == data
        assert wire.call("session.get", caller=world.caller)["state"] == "missing"

    @pytest.mark.parametrize("kind", ["folder", "fifo", "dangling", "loop", "outside", "inside"])
    def test_what_is_no_file_of_ours_is_never_touched_a33_b11(self, world: World, wire: Wire, kind: str) -> None:
        path, elsewhere = world.repository.session, world.folder / "elsewhere"
        data = session()
        elsewhere.write_bytes(data)
        (world.repository.cache / "target").write_bytes(data)
        match kind:
            case "folder":
                path.mkdir()
            case "fifo":
                os.mkfifo(path)
            case "dangling":
                path.symlink_to("nowhere")
            case "loop":
                path.symlink_to(path.name)
            case "outside":
                path.symlink_to(elsewhere)
            case "inside":
                path.symlink_to("target")
        found = wire.call("session.get", caller=world.caller)
        assert found["state"] == "unreadable"
        assert "etag" not in found
        assert found["decision"]["status"] == "refusing_to_resume"
        with pytest.raises(Refused) as refused:
            wire.call("session.clear", etag="whatever")
        assert refused.value.code == -32001
        assert stat.S_IFMT(path.lstat().st_mode) == {"folder": stat.S_IFDIR, "fifo": stat.S_IFIFO}.get(kind, stat.S_IFLNK)
        assert elsewhere.read_bytes() == (world.repository.cache / "target").read_bytes() == data


@pytest.mark.parametrize("closed", ["file", "cache"])
def test_no_access_is_unreadable_and_heals_by_itself_a33(world: World, closed: str) -> None:
    world.repository.put(world.repository.session, session())
    daemon = world.start(before=without_privileges)
    with daemon.connect() as wire:
        path = world.repository.session if closed == "file" else world.repository.cache
        mode = path.stat().st_mode
        path.chmod(0)
        found = wire.call("session.get", caller=world.caller)
        path.chmod(mode)
        assert found["state"] == "unreadable"
        assert "ermission" in found["detail"] or "access" in found["detail"]
        assert wire.call("session.get", caller=world.caller)["state"] == "loaded"
    assert daemon.stop() == 0


class TestDegraded:
    """A daemon starts and answers whatever its inputs are like, and says what does not work."""

    def test_broken_everything_but_it_serves_d27(self, world: World) -> None:
        world.repository.session.write_bytes(b"{")
        world.repository.queue.write_bytes(b"{")
        world.repository.config.write_bytes(b"[]")
        (world.repository.folder / "trust.jsonc").write_bytes(b"no")
        done = [world.run("session", "show") for _ in range(20)]
        assert {one.returncode for one in done} == {0}
        assert len(world.daemons()) == 1
        code, text = (lambda told: told.split(" ", 1))(_told(world.run("machine", "config", "resolve")))
        assert code == "config_incompatible"
        assert ".jsonc" in text

    def test_settings_that_cannot_be_used_are_the_reason_of_the_start(self, world: World) -> None:
        settings = world.home / ".config/cueloop/cueloopd.jsonc"
        settings.parent.mkdir(parents=True)
        settings.write_text('{"max_connections": "many"}')
        with pytest.raises(DidNotStart) as failed:
            world.start(at_home=True)
        assert failed.value.code == 1
        assert failed.value.said["error"]["code"] == "config_incompatible"
        assert str(settings) in failed.value.said["error"]["message"]
        assert "max_connections" in failed.value.said["error"]["message"]
        assert "Traceback" not in failed.value.stderr

    @pytest.mark.parametrize("home", ["missing", "read-only", "file"])
    def test_a_home_that_cannot_be_written_is_no_obstacle(self, world: World, home: str) -> None:
        world.repository.put(world.repository.session, session())
        world.home.rmdir()
        if home == "read-only":
            world.home.mkdir(mode=0o555)
        elif home == "file":
            world.home.write_text("no folder")
        daemon = world.start(at_home=True, before=without_privileges)
        done = world.run("machine", "config", "resolve", before=without_privileges)
        assert (done.returncode, done.stderr) == (0, b"")
        assert json.loads(done.stdout)["resume_preview"]["reason"] == "session_valid"
        assert world.daemons() == [daemon.pid]
        assert daemon.stop() == 0

    @pytest.mark.parametrize("name", ["daemon.log", "events.db"])
    def test_a_log_that_cannot_be_written_d27(self, world: World, name: str) -> None:
        world.start().stop()
        for path in world.repository.ours.glob(f"{name}*"):
            path.unlink()
        (world.repository.ours / name).mkdir()
        world.repository.put(world.repository.session, session())
        daemon = world.start()
        with daemon.connect() as wire:
            wire.subscribe(caller=world.caller)
            world.repository.put(world.repository.session, session(current_phase=3))
            assert wire.event()["kind"] == "resume_decision"
            status = wire.call("daemon.status")
            assert status["events"]["degraded"] is False
            assert ("reason" in status["events"]) is (name == "events.db")  # what was in the way is moved aside, and that is told
        assert daemon.stop() == 0
        assert "Traceback" not in daemon.stderr.read_text()

    @pytest.mark.alone
    def test_without_inotify_it_polls_and_says_which_limit_it_is_c04(self, world: World) -> None:
        """Well before events are tried again, after a minute."""
        world.repository.put(world.repository.session, session())
        with no_inotify() as before:
            daemon = world.start(before=before)
            with daemon.connect() as wire:
                watcher = wire.call("daemon.status")["watcher"]
                assert (watcher["backend"], watcher["degraded"]) == ("polling", True)
                assert "fs.inotify.max_user_instances" in watcher["reason"]
                wire.subscribe(caller=world.caller)
                world.repository.put(world.repository.session, session(current_phase=3))
                assert "phase 3" in wire.event(10)["payload"]["detail"]
            assert daemon.stop() == 0


@contextmanager
def no_inotify() -> Iterator[Callable[[], None] | None]:
    """What a new process has to call to get no inotify instance.

    Where the system allows no user namespaces nothing has to be called: all instances are taken meanwhile. That holds only
    while no other process of this user gives one back.
    """
    try:
        subprocess.run(["true"], check=True, preexec_fn=without_inotify)
    except subprocess.SubprocessError:
        with all_inotify_taken():
            yield None
    else:
        yield without_inotify


@contextmanager
def all_inotify_taken() -> Iterator[None]:
    """All inotify instances that this user may have."""
    libc = ctypes.CDLL(None, use_errno=True)
    held: list[int] = []
    try:
        while (fd := libc.inotify_init1(os.O_CLOEXEC)) >= 0:
            held.append(fd)
        assert ctypes.get_errno() == errno.EMFILE
        os.close(os.open("/", os.O_RDONLY))  # it is the user's limit that was reached, not this process's
        yield
    finally:
        for fd in held:
            os.close(fd)


@dataclass
class Disk:
    """Where `.cueloop/cache` is. Without a file system of its own, no process that is limited can write a byte instead."""

    path: Path
    is_mounted: bool

    def fill(self, daemon: Daemon) -> None:
        """From now on nothing can be written."""
        if self.is_mounted:
            _fill(self.path)
        else:
            resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def free(self, daemon: Daemon) -> None:
        """There is room again."""
        self.path.unlink(missing_ok=True)
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def limit(self) -> None:
        """To be called in a new process, where the disk is full from the beginning."""
        if not self.is_mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


@pytest.fixture(params=["mounted", "limited"])
def disk(request: pytest.FixtureRequest, world: World) -> Iterator[Disk]:
    """A disk that can be filled: 256 KiB where one may be mounted."""
    cache = str(world.repository.cache)
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=755", "tmpfs", cache]
    is_mounted = request.param == "mounted" and subprocess.run(mount, capture_output=True, timeout=10).returncode == 0
    try:
        yield Disk(world.repository.cache / "filling", is_mounted)
    finally:
        for pid in world.daemons():
            os.kill(pid, 9)
        wait_for(lambda: not world.daemons(), "the daemon has let go")
        if is_mounted:
            subprocess.run(["umount", "-l", cache], check=True, timeout=10)


def test_a_full_disk_takes_nothing_and_is_told_a04(world: World, disk: Disk) -> None:
    repository = world.repository
    repository.put(repository.session, session())
    daemon = world.start()
    with daemon.connect() as wire:
        wire.subscribe(caller=world.caller)
        etag = wire.call("session.get", caller=world.caller)["etag"]
        data, names = repository.session.read_bytes(), set(os.listdir(repository.cache))
        disk.fill(daemon)
        with pytest.raises(Refused) as refused:
            wire.call("session.clear", etag=etag)
        assert (refused.value.code, refused.value.data["error"]["code"]) == (-32012, "unknown")
        assert str(repository.session) in refused.value.error["message"]
        assert ("full" in refused.value.error["message"]) is disk.is_mounted
        assert repository.session.read_bytes() == data
        assert set(os.listdir(repository.cache)) - {disk.path.name} == names
        repository.configure(session_timeout_hours=30)  # events go on, from memory if need be
        params = wire.note()["params"]
        told = params["snapshot"]["document"] if "snapshot" in params else params["event"]["payload"]["config"]
        assert told["config"]["agent"]["session_timeout_hours"] == 30
        disk.free(daemon)
        assert Path(wire.call("session.clear", etag=etag)["history"]).read_bytes() == data
        assert not repository.session.exists()
    assert "Traceback" not in daemon.stderr.read_text()
    assert daemon.stop() == 0


def test_a_start_on_a_full_disk_is_a_sentence_or_a_daemon_that_answers_a04_d27(world: World, disk: Disk) -> None:
    world.repository.put(world.repository.session, session())
    if disk.is_mounted:
        _fill(disk.path)
    done = world.run("machine", "config", "resolve", before=disk.limit)
    assert b"Traceback" not in done.stderr
    if done.returncode:
        assert str(world.repository.folder) in _told(done) or "cueloopd" in _told(done)
    else:
        assert json.loads(done.stdout)["resume_preview"]["reason"] == "session_valid"
    assert world.run("--no-daemon", "machine", "config", "resolve", before=disk.limit).returncode == 0


def _fill(path: Path) -> None:
    """Take all the room there is, to the last byte."""
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
