"""Any repository, and any environment of daemon and client: the same daemon is found."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cueloop_protocol.place import local_folder, root_hash
from cueloop_protocol.roots import Root
from support.repository import Repository, git, queue, session
from support.wire import wait_for
from support.world import World


def _status(world: World, **options: object) -> dict[str, object]:
    done = world.run("daemon", "status", "--json", **options)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def _decides(world: World, **options: object) -> str:
    """The root that a call answers for, whose session must be seen."""
    done = world.run("machine", "config", "resolve", **options)
    assert (done.returncode, done.stderr) == (0, b"")
    document = json.loads(done.stdout)
    assert document["resume_preview"]["reason"] == "session_valid"
    return str(document["paths"]["repo_root"])


@pytest.mark.parametrize(
    "name", ["a b", " ", "Größe", "日本語", "quote'\"$(x)", "new\nline", "-n", "e\u0301", "*"], ids=lambda name: ascii(name)
)
def test_strange_names(world: World, name: str) -> None:
    repository = Repository(world.folder / name).lay(with_git=True)
    repository.put(repository.session, session())
    assert _decides(world, cwd=repository.path) == str(repository.path)
    below = repository.path / "below"
    below.mkdir()
    assert _decides(world, cwd=below) == str(repository.path)
    assert len(world.daemons()) == 1
    assert world.run("daemon", "stop", cwd=below).returncode == 0
    assert world.daemons() == []


def test_a_name_that_is_no_unicode(world: World) -> None:
    path = Path(os.fsdecode(os.fsencode(world.folder) + b"/\xff\xfe"))
    repository = Repository(path).lay()
    repository.put(repository.session, session())
    assert "\ufffd" in _decides(world, cwd=path)
    assert len(world.daemons()) == 1


def test_a_link_to_the_repository_is_the_repository(world: World) -> None:
    world.repository.put(world.repository.session, session())
    link = world.folder / "link"
    link.symlink_to(world.repository.path)
    assert _decides(world, cwd=link) == _decides(world) == str(world.repository.path)
    assert _status(world, cwd=link)["pid"] == _status(world)["pid"]
    assert len(world.daemons()) == 1


def test_a_linked_worktree_is_a_repository_of_its_own(world: World) -> None:
    main = Repository(world.folder / "main").lay(with_git=True)
    git(main.path, "worktree", "add", "-q", "../tree")
    tree = Repository(world.folder / "tree")
    tree.cache.mkdir(parents=True, exist_ok=True)
    for one in (main, tree):
        one.put(one.session, session())
        assert _decides(world, cwd=one.path) == str(one.path)
    pids = {int(str(_status(world, cwd=one.path)["pid"])) for one in (main, tree)}
    assert sorted(pids) == sorted(world.daemons())
    assert len(pids) == 2


def _deep(world: World, length: int) -> tuple[Path, int]:
    """A folder whose path has that many bytes, and a descriptor of it: too long a path can only be walked in pieces."""
    path = str(world.folder)
    fd = os.open(path, os.O_RDONLY)
    while (left := length - len(os.fsencode(path))) > 0:
        name = "d" * min(left - 1, 200)
        if 0 < left - 1 - len(name) < 2:
            name = name[:-2]
        os.mkdir(name, dir_fd=fd)
        inner = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd, path = inner, f"{path}/{name}"
    return Path(path), fd


def _fill(fd: int) -> None:
    """Lay out a repository in the folder of this descriptor."""
    os.mkdir(".cueloop", dir_fd=fd)
    inside = os.open(".cueloop", os.O_RDONLY, dir_fd=fd)
    os.mkdir("cache", dir_fd=inside)
    for name, data in (("queue.jsonc", queue()), ("cache/session.jsonc", session())):
        with open(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=inside), "wb") as file:
            file.write(data)
    os.close(inside)


@pytest.mark.parametrize("length", [100, 107, 108, 150, 1000, 4000, 4090, 4095, 4096, 4100])
def test_paths_of_any_length_d06(world: World, length: int) -> None:
    path, fd = _deep(world, length)
    try:
        assert len(os.fsencode(path)) == length
        _fill(fd)
        inside: Callable[[], None] = lambda: os.fchdir(fd)  # noqa: E731
        assert _decides(world, cwd="/", before=inside) == str(path)
        first = _status(world, cwd="/", before=inside)["pid"]
        assert _decides(world, cwd="/", before=inside) == str(path)
        assert _status(world, cwd="/", before=inside)["pid"] == first
        assert world.daemons() == [first]
        assert world.run("session", "clear", "--yes", cwd="/", before=inside).returncode == 0
        assert world.run("daemon", "stop", cwd="/", before=inside).returncode == 0
    finally:
        os.close(fd)
        hashed = root_hash(Root(str(path), str(path)))
        for left in Path(local_folder(os.getuid())).glob(f"{hashed}*"):
            if left.is_file():
                left.unlink()


def test_long_names_that_begin_alike_have_daemons_of_their_own_d06(world: World) -> None:
    roots = []
    for end in ("one", "other"):
        repository = Repository(world.folder / ("x" * 120 + end)).lay()
        repository.put(repository.session, session())
        roots.append(_decides(world, cwd=repository.path))
    assert len(set(roots)) == len(world.daemons()) == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"XDG_RUNTIME_DIR": "{folder}/other"},
        {"XDG_RUNTIME_DIR": ""},
        {"XDG_RUNTIME_DIR": "relative"},
        {"XDG_RUNTIME_DIR": "/nowhere/at/all"},
        {"TMPDIR": "{folder}/other"},
        {"HOME": "{folder}/other"},
        {"HOME": "/nowhere/at/all"},
        {"XDG_CONFIG_HOME": "{folder}/other"},
        {"XDG_RUNTIME_DIR": "{folder}/other", "TMPDIR": "/nowhere", "HOME": "{folder}/other", "LANG": "C"},
    ],
    ids=lambda changed: "+".join(changed),
)
@pytest.mark.parametrize("who", ["daemon", "client"])
def test_a_different_environment_finds_the_same_daemon(world: World, changed: dict[str, str], who: str) -> None:
    other = world.folder / "other"
    other.mkdir(mode=0o700)
    environ = {key: value.format(folder=world.folder) for key, value in changed.items()}
    world.repository.put(world.repository.session, session())
    daemon = world.start(environ=environ if who == "daemon" else None)
    _decides(world, environ=environ if who == "client" else None)
    assert _status(world, environ=environ if who == "client" else None)["pid"] == daemon.pid
    assert world.daemons() == [daemon.pid]
    assert daemon.stop() == 0


def test_a_runtime_folder_that_others_may_write_is_not_used_d25(world: World) -> None:
    """The daemon goes elsewhere or says why not; it never puts its socket where somebody else could replace it."""
    shared = world.folder / "shared"
    shared.mkdir()
    (shared / "cueloopd").mkdir()
    (shared / "cueloopd").chmod(0o777)
    done = world.run("daemon", "start", environ={"XDG_RUNTIME_DIR": str(shared)})
    assert b"Traceback" not in done.stderr
    if done.returncode:
        assert str(shared).encode() in done.stderr
    assert not list(shared.glob("cueloopd/*/d.sock"))


def test_the_socket_is_never_wider_than_its_owner_d25(world: World) -> None:
    """With a umask of 0, looked at from the first moment at which it can be seen."""
    modes = set()
    for _ in range(5):
        daemon = world.start(before=_mask_nothing)
        place = Path(daemon.socket)
        modes |= {stat.S_IMODE(place.stat().st_mode) & 0o177, stat.S_IMODE(place.parent.stat().st_mode) & 0o77}
        for file in (world.repository.ours, *world.repository.ours.iterdir()):
            modes.add(stat.S_IMODE(file.stat().st_mode) & 0o77)
        assert daemon.stop() == 0
    assert modes == {0}


def _mask_nothing() -> None:
    os.umask(0)


def test_a_daemon_started_from_a_folder_that_goes_lives_on_d10(world: World) -> None:
    gone = world.repository.path / "gone"
    gone.mkdir()
    world.repository.put(world.repository.session, session())
    assert world.run("daemon", "start", cwd=gone).returncode == 0
    (pid,) = world.daemons()
    gone.rmdir()
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert _decides(world) == str(world.repository.path)
    assert world.daemons() == [pid]


def test_a_caller_whose_folder_is_gone_is_told_so_d10(world: World) -> None:
    gone = world.repository.path / "gone"
    gone.mkdir()

    def remove() -> None:
        os.rmdir(gone)

    done = world.run("machine", "config", "resolve", cwd=gone, before=remove)
    assert done.returncode == 1
    error = json.loads(done.stderr)
    assert error["version"] == 1
    assert "Traceback" not in done.stderr.decode()


def test_a_hang_up_of_the_starter_s_group_ends_no_daemon_d14(world: World) -> None:
    starter = subprocess.run(
        ["setsid", "--wait", "sh", "-c", f"{_command()} daemon start; kill -HUP 0"],
        cwd=world.repository.path, env=world.environ, capture_output=True, timeout=60,
    )  # fmt: skip
    assert starter.returncode in (-1, 128 + 1)
    (pid,) = world.daemons()
    assert os.getsid(pid) == pid
    os.kill(pid, 1)
    assert _status(world)["pid"] == pid  # HUP is not for the daemon
    os.kill(pid, 15)
    wait_for(lambda: world.daemons() == [], "the daemon leaves")


def _command() -> str:
    return f"{shlex.quote(sys.executable)} -P -m cueloop_client"
