"""Starting a shim, finding one, and telling "never started" from "gone"; with the real shim."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from cueloop_daemon.runs.shim import Fenced, Gone, ShimFailed, ShimLink, ShimUnreachable, channel, ensure_shim, folder, spawn
from cueloop_daemon.shim.command import command_line
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_protocol.identity import is_same_process, process_start_time
from cueloop_protocol.place import SOCKET_LIMIT
from cueloop_protocol.roots import Root, open_root
from runs.fake_shim import FakeShim
from runs.shim_world import PATIENCE, ShimWorld, see_through, shim_world
from support.programs import python_program


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ShimWorld]:
    with shim_world(tmp_path) as made:
        yield made


def executable(path: Path, script: str) -> str:
    return str(python_program(path, script))


async def fails(world: ShimWorld, **changes: object) -> BaseException:
    """How `ensure_shim` ends with a changed spec."""
    found: BaseException | None = None
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            try:
                await ensure_shim(tasks, world.folder, replace(world.spec(), **changes))  # type: ignore[arg-type]  # the test's own
            except Exception as exc:
                found = exc
            tasks.cancel_scope.cancel()
    assert found is not None
    return found


async def test_the_first_call_starts_it_and_the_next_finds_the_same(world: ShimWorld) -> None:
    assert not world.folder.is_held()
    async with world.link() as link:
        await link.status()
        first = world.folder.shim()
    assert world.folder.is_held()
    async with world.link(generation=2) as link:
        await link.status()
    assert first is not None
    assert world.folder.shim() == first
    assert first.socket == world.socket


async def test_what_the_shim_is_given_is_private(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.start(world.order(1, "true"))
        await see_through(link, 1)
    modes = {name: stat.S_IMODE(os.stat(f"{world.folder.path}/{name}").st_mode) for name in os.listdir(world.folder.fd)}
    assert {"run.json", "1.order", "shim.json", "shim.lock"} <= modes.keys()
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(os.stat(world.folder.path).st_mode) == 0o700


async def test_it_is_in_a_session_of_its_own_and_has_none_of_the_daemons_environment(
    world: ShimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E14: an agent's markers in the daemon's environment go no further."""
    monkeypatch.setenv("CLAUDECODE", "1")
    async with world.link():
        place = world.folder.shim()
        assert place is not None
        assert os.getsid(place.pid) == place.pid
        environ = Path(f"/proc/{place.pid}/environ").read_bytes()
    assert environ.split(b"\0") == [b"PATH=/usr/bin:/bin", b"LANG=C.UTF-8", b""]


async def test_a_shim_that_died_is_gone_and_not_started_again(world: ShimWorld) -> None:
    async with world.link() as link:
        world.kill_shim()
        await link.lost.wait()
    assert await world.ensure() == Gone("died")


async def test_after_a_boot_it_is_gone_even_if_it_never_was(world: ShimWorld) -> None:
    assert await world.ensure(boot="another-boot") == Gone("rebooted")
    assert not world.folder.was_there()


async def test_a_settled_run_gets_no_shim(world: ShimWorld) -> None:
    assert world.folder.bury()
    assert await world.ensure() == Gone("over")


async def test_a_late_shim_leaves_when_the_run_was_settled_meanwhile(world: ShimWorld) -> None:
    """A shim that a dead daemon forked, and that comes to the lock only after its run was settled."""
    async with world.link() as link:
        assert await link.end()
    os.unlink(f"{world.folder.path}/shim.json")
    assert world.folder.bury()
    root = os.open(world.root.base, os.O_RDONLY)
    reading, writing = os.pipe()
    fds = (root, world.folder.fd, writing)
    late = subprocess.Popen(command_line(sys.executable, *fds), pass_fds=fds, stderr=subprocess.DEVNULL)
    os.close(writing)
    os.close(root)
    with open(reading, "rb") as ready:
        assert json.loads(ready.read()) == {"over": True}
    assert late.wait(PATIENCE) == 0
    assert not world.folder.was_there()


async def test_two_daemons_that_start_it_at_once_get_one(world: ShimWorld) -> None:
    places = []

    async def ensure(generation: int) -> None:
        async with anyio.create_task_group() as tasks:
            try:
                found = await ensure_shim(tasks, world.folder, world.spec(generation))
                assert isinstance(found, ShimLink)
            except Fenced:
                pass
            places.append(world.folder.shim())
            tasks.cancel_scope.cancel()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as both:
            for generation in (1, 2, 3):
                both.start_soon(ensure, generation)
    assert len(places) == 3
    assert len(set(places)) == 1


async def test_f03_a_daemons_death_leaves_no_lock_with_its_children(world: ShimWorld) -> None:
    """An agent that outlives its shim does not hold the lock by which the shim is known."""
    async with world.link() as link:
        await link.start(world.order(1, "sleep 60"))
        world.kill_shim()
        await link.lost.wait()
    assert not world.folder.is_held()
    assert world.folder.bury()


async def test_a_shim_that_dies_at_its_start_is_told_with_its_last_words(world: ShimWorld, tmp_path: Path) -> None:
    program = executable(tmp_path / "python", "import sys; sys.exit('no room for me')\n")
    exc = await fails(world, executable=program)
    assert isinstance(exc, ShimFailed)
    assert "no room for me" in str(exc)


async def test_an_interpreter_that_is_missing_is_told(world: ShimWorld) -> None:
    exc = await fails(world, executable="/nowhere/python")
    assert isinstance(exc, NotWritable)
    assert "folder is gone" in exc.message


async def test_a_shim_that_says_something_else_is_told(world: ShimWorld, tmp_path: Path) -> None:
    script = "import os, sys; os.write(int(sys.argv[-1]), b'hello\\n')\n"
    exc = await fails(world, executable=executable(tmp_path / "python", script))
    assert isinstance(exc, ShimFailed)
    assert "hello" in str(exc)


async def test_an_error_at_its_start_is_told_with_its_reason(world: ShimWorld, tmp_path: Path) -> None:
    script = """import os, sys; os.write(int(sys.argv[-1]), b'{"error": {"errno": 28, "where": "socket"}}\\n')\n"""
    exc = await fails(world, executable=executable(tmp_path / "python", script))
    assert isinstance(exc, NotWritable)
    assert exc.errno == 28
    assert "socket" in exc.message


@pytest.mark.parametrize(
    ("what", "why"),
    [("mute", "it said nothing"), ("no file", "not said where it listens"), ("another version", "refuses this daemon.*version")],
)
async def test_one_that_lives_and_does_not_talk_is_unreachable(
    world: ShimWorld, monkeypatch: pytest.MonkeyPatch, what: str, why: str
) -> None:
    monkeypatch.setattr(spawn, "PATIENCE", 0.3)
    refuse = "version" if what == "another version" else None
    world.fake = FakeShim(world.folder, str(world.home), world.socket, refuse=refuse, pause=what == "mute")
    if what == "no file":
        os.unlink(f"{world.folder.path}/shim.json")
    with pytest.raises(ShimUnreachable, match=why):
        await world.ensure()


async def test_one_that_greets_in_another_way_is_unreachable(world: ShimWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "PATIENCE", 0.3)
    world.fake = FakeShim(world.folder, str(world.home), world.socket, odd={"Hello": b'{"weather": {}}\n'})
    with pytest.raises(ShimUnreachable, match="no greeting"):
        await world.ensure()


async def test_another_users_socket_is_not_talked_to(world: ShimWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "PATIENCE", 0.3)
    monkeypatch.setattr(channel, "peer_uid", lambda sock: os.getuid() + 1)
    world.fake = FakeShim(world.folder, str(world.home), world.socket)
    with pytest.raises(ShimUnreachable, match="another user"):
        await world.ensure()
    assert world.fake.wishes == [], "it heard no word"


async def test_f06_a_lock_that_the_file_system_does_not_have_is_told(world: ShimWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(folder.fcntl, "flock", flock)
    exc = await fails(world)
    assert isinstance(exc, NotWritable)
    assert exc.errno == errno.ENOLCK
    with pytest.raises(NotWritable):
        world.folder.bury()
    monkeypatch.undo()


async def test_d29_a_stopped_shim_is_unreachable_and_talks_again_when_it_goes_on(
    world: ShimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.link():
        place = world.folder.shim()
    assert place is not None
    monkeypatch.setattr(spawn, "PATIENCE", 0.3)
    world.pause_shim()
    try:
        with pytest.raises(ShimUnreachable):
            await world.ensure()
    finally:
        os.kill(place.pid, 18)
    monkeypatch.setattr(spawn, "PATIENCE", PATIENCE)
    async with world.link(generation=2) as link:
        assert (await link.status()).child is None
    assert is_same_process(place.pid, place.start, place.boot)


async def test_f01_a_file_that_names_another_process_is_not_believed(world: ShimWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is held by somebody else, and `shim.json` names a process that has another start time by now."""
    monkeypatch.setattr(spawn, "PATIENCE", 0.3)
    world.fake = FakeShim(world.folder, str(world.home), world.socket)
    path = Path(world.folder.path, "shim.json")
    told = json.loads(path.read_text())
    assert told["start"] == process_start_time(os.getpid())
    path.write_text(json.dumps({**told, "start": "1"}))
    with pytest.raises(ShimUnreachable, match="not the shim any more"):
        await world.ensure()


async def test_a_repository_with_a_path_longer_than_any_call_takes(tmp_path: Path) -> None:
    """The shim gets descriptors: no path of the repository is ever opened."""
    here = os.open(tmp_path, os.O_RDONLY)
    path = str(tmp_path)
    try:
        while len(path) < 4200:
            os.mkdir("d" * 200, dir_fd=here)
            inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here, path = inner, f"{path}/{'d' * 200}"
        os.mkdir(".cueloop", dir_fd=here)
    finally:
        os.close(here)
    root = open_root(path)
    assert root.base != root.path
    with shim_world(Path(root.base)) as world:
        world.folder.close()
        world.root = Root(root.path, root.base)
        world.folders = type(world.folders)(world.root, world.uid)
        world.folder = world.folders.make(world.run_id)
        async with world.link() as link:
            path = world.folder.write_stdin(1, b"words")
            await link.start(world.order(1, "cat > heard", stdin=path))
            _, ended = await see_through(link, 1)
            assert ended.code == 0
            assert await link.end()
        assert Path(root.base, "heard").read_bytes() == b"words"


def test_the_sockets_path_fits_whatever_the_repositorys_is(world: ShimWorld) -> None:
    path = spawn.socket_path(Root("/" + "x" * 5000, "/proc/self/fd/3"), "r" * 64, 4_294_967_294)
    assert len(os.fsencode(path)) <= SOCKET_LIMIT
    assert spawn.socket_path(world.root, "a", 0) != spawn.socket_path(world.root, "b", 0)
