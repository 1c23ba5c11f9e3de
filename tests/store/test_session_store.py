"""The session store where nothing goes wrong but what people and other programs do. Crashes and races are in tests/faults."""

from __future__ import annotations

import itertools
import json
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.store.etag import SESSION_LIMIT, etag_of_bytes, etag_of_stat
from cueloop_daemon.store.not_writable import FolderMissing, NotWritable
from cueloop_daemon.store.outcomes import Conflict, Missing, Quarantined, Removed, Saved, SavedOver, SessionRefused
from cueloop_daemon.store.session_store import task_id_in
from cueloop_daemon.store.system import System
from faults.systems import Call, Hooked, Unhurried, failing_where, without_exchange
from faults.world import World, session

OLD, NEW, FOREIGN = session("old"), session("new"), session("foreign", "RQ-0007")
ETAG = etag_of_bytes(OLD)


@pytest.fixture(params=["exchange", "no exchange"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    return World(tmp_path, System() if request.param == "exchange" else without_exchange())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestSave:
    def test_first_and_next(self, world: World) -> None:
        first = world.store.save(OLD, None, during_run=False)
        assert first == Saved(ETAG)
        assert world.store.save(NEW, ETAG, during_run=False) == Saved(etag_of_bytes(NEW))
        assert world.file.read_bytes() == NEW
        assert os.listdir(world.cache) == ["session.jsonc"]

    def test_a35_order(self, tmp_path: Path) -> None:
        """A35: written and synced beside it, then exchanged, then the folder synced."""
        world = World(tmp_path, system := Hooked())
        world.put(OLD)
        world.store.save(NEW, ETAG, during_run=False)
        order = [call for call in system.calls if call.name in ("write", "fsync", "exchange", "fsync_folder")]
        assert [call.name for call in order] == ["write", "fsync", "exchange", "fsync_folder"]
        assert order[0].args[0] == order[1].args[0]
        assert os.path.dirname(order[2].args[0]) == os.path.dirname(order[2].args[1]) == str(world.cache)
        assert order[2].args[1] == str(world.file)
        assert order[3].args == (str(world.cache),)

    def test_a35_order_of_a_first_save(self, tmp_path: Path) -> None:
        world = World(tmp_path, system := Hooked())
        world.store.save(NEW, None, during_run=False)
        renames = [number for number, call in enumerate(system.calls) if call.name == "rename_new"]
        assert system.names.index("write") < system.names.index("fsync") < min(renames)
        assert system.calls[max(renames)].args[1] == str(world.file)
        assert system.names.index("fsync_folder") > max(renames)

    def test_a26_the_replaced_session_is_kept(self, world: World) -> None:
        """A26: what a new session replaces stays readable, with the reason."""
        world.put(OLD)
        result = world.store.save(NEW, ETAG, during_run=False, keep_as="explicit_task_selection_overrides_session")
        assert isinstance(result, Saved)
        assert result.kept is not None
        assert (result.kept.note.why, result.kept.note.task_id) == ("explicit_task_selection_overrides_session", "RQ-0001")
        assert Path(result.kept.path).read_bytes() == OLD

    def test_a06_during_a_run_ours_stands_and_theirs_is_kept(self, world: World) -> None:
        """A06: an edit made between our write and the next one is found, named, and not lost."""
        world.put(OLD)
        world.put(FOREIGN)
        result = world.store.save(NEW, ETAG, during_run=True)
        assert isinstance(result, SavedOver)
        assert [(entry.note.why, entry.note.task_id) for entry in result.foreign] == [("foreign", "RQ-0007")]
        assert not result.deleted
        assert (world.file.read_bytes(), world.kept()) == (NEW, {FOREIGN: "foreign"})

    def test_a06_without_a_run_theirs_stands(self, world: World) -> None:
        world.put(FOREIGN)
        for expected in (ETAG, None):
            assert world.store.save(NEW, expected, during_run=False) == Conflict(etag_of_bytes(FOREIGN))
        assert (world.file.read_bytes(), world.kept()) == (FOREIGN, {})
        assert world.leftovers() == []

    def test_a_deleted_file_is_written_again_during_a_run_only(self, world: World) -> None:
        assert world.store.save(NEW, ETAG, during_run=False) == Conflict(None)
        assert not world.file.exists()
        assert world.store.save(NEW, ETAG, during_run=True) == SavedOver(etag_of_bytes(NEW), (), deleted=True)
        assert world.file.read_bytes() == NEW

    def test_a_deleted_cache_folder_is_made_again(self, world: World) -> None:
        world.cache.rmdir()
        assert world.store.save(NEW, None, during_run=True) == Saved(etag_of_bytes(NEW))

    def test_a_deleted_cueloop_folder_is_not(self, world: World) -> None:
        world.cache.rmdir()
        world.cache.parent.rmdir()
        with pytest.raises(FolderMissing):
            world.store.save(NEW, None, during_run=True)
        assert os.listdir(world.path) == []

    def test_a06_a_stale_temporary_file_of_others_is_no_obstacle(self, world: World) -> None:
        """A06: nothing is written to a fixed name."""
        other = world.cache / "session.jsonc.tmp"
        other.write_bytes(b"theirs")
        other.chmod(0)
        world.store.save(NEW, None, during_run=False)
        assert (other.read_bytes() if os.getuid() == 0 else b"theirs", mode(other)) == (b"theirs", 0)

    def test_a06_many_writers_and_no_torn_file(self, tmp_path: Path) -> None:
        """A06: two threads of other programs rename while we save; the file parses at every moment."""
        world = World(tmp_path)
        world.put(OLD)
        stop = threading.Event()
        torn: list[bytes] = []

        def read() -> None:
            while not stop.is_set():
                try:
                    json.loads(world.file.read_bytes())
                except FileNotFoundError:
                    continue
                except ValueError:
                    torn.append(b"torn")

        def write(name: str) -> None:
            number = 0
            while not stop.is_set():
                temp = world.cache / f"{name}.tmp"
                temp.write_bytes(session(f"{name}-{number}" * 200))
                temp.replace(world.file)
                number += 1

        threads = [threading.Thread(target=read), *(threading.Thread(target=write, args=(name,)) for name in ("a", "b"))]
        for thread in threads:
            thread.start()
        try:
            expected = ETAG
            for number in range(20):
                result = world.store.save(session(f"ours-{number}"), expected, during_run=True)
                assert isinstance(result, Saved | SavedOver)
                expected = result.etag
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert torn == []
        assert world.leftovers() == []

    def test_without_exchange_a_file_that_never_stands_still_is_left_to_the_other(self, tmp_path: Path) -> None:
        """There, nothing is replaced that has not stood still for a moment; the history is not flooded by the attempts."""
        world = World(tmp_path)
        numbers = itertools.count()

        def before(call: Call) -> None:
            if call.name == "lstat" and call.path == str(world.file):
                world.put(session(f"theirs-{next(numbers)}"))

        world.put(OLD)
        world.system = without_exchange(before, kind=Unhurried)
        with pytest.raises(NotWritable, match="another program keeps writing the file"):
            world.store.save(NEW, ETAG, during_run=True)
        assert next(numbers) > 100
        assert world.kept() == {}
        assert world.leftovers() == []

    @pytest.mark.parametrize("before", [0o600, 0o640, 0o644, 0o666, 0o400, 0o777])
    @pytest.mark.parametrize("umask", [0o000, 0o077])
    def test_b15_mode_is_kept_or_tightened(self, world: World, before: int, umask: int) -> None:
        """B15: owner only, and never more than it was."""
        world.put(OLD)
        world.file.chmod(before)
        old_umask = os.umask(umask)
        try:
            world.store.save(NEW, ETAG, during_run=False)
        finally:
            os.umask(old_umask)
        assert mode(world.file) == before & 0o600
        assert world.file.read_bytes() == NEW

    def test_b15_a_new_file_is_for_the_owner_only(self, world: World) -> None:
        old_umask = os.umask(0)
        try:
            world.store.save(NEW, None, during_run=False)
        finally:
            os.umask(old_umask)
        assert mode(world.file) == 0o600

    @given(data=st.binary(max_size=2000), old=st.binary(max_size=2000))
    def test_any_bytes(self, tmp_path_factory: pytest.TempPathFactory, data: bytes, old: bytes) -> None:
        world = World(tmp_path_factory.mktemp("any"))
        world.store.save(data, world.put(old), during_run=False, keep_as="session_declined")
        assert world.file.read_bytes() == data
        assert world.kept() == {old: "session_declined"}


def put_thing(world: World, name: str) -> None:
    (world.path / "shared.jsonc").write_bytes(OLD)
    match name:
        case "link to a session":
            world.file.symlink_to("../../shared.jsonc")
        case "link out of the repository":
            world.file.symlink_to("/etc/hostname")
        case "dangling link":
            world.file.symlink_to("nowhere")
        case "folder":
            world.file.mkdir()
        case _:
            os.mkfifo(world.file)


THINGS = {
    "link to a session": "symbolic link",
    "link out of the repository": "symbolic link",
    "dangling link": "symbolic link",
    "folder": "is a folder",
    "fifo": "not a regular file",
}


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("during_run", [True, False])
def test_b11_what_is_no_plain_file_is_refused_and_stays(world: World, thing: str, during_run: bool) -> None:
    """B11: refused, never followed, never turned into a file; by every operation."""
    put_thing(world, thing)
    before = os.lstat(world.file)
    store = world.store
    for change in (
        lambda: store.save(NEW, ETAG, during_run=during_run),
        lambda: store.save(NEW, None, during_run=during_run),
        lambda: store.remove(ETAG, why="finished", during_run=during_run),
        lambda: store.clear(ETAG),
        lambda: store.quarantine(ETAG),
    ):
        with pytest.raises(SessionRefused, match=THINGS[thing]) as caught:
            change()
        assert caught.value.path == str(world.file)
    assert os.lstat(world.file) == before
    assert (world.path / "shared.jsonc").read_bytes() == OLD
    assert sorted(os.listdir(world.cache)) == ["session.jsonc"]


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("during_run", [True, False])
def test_b11_a_link_that_comes_in_between_goes_back(tmp_path: Path, thing: str, during_run: bool) -> None:
    world = World(tmp_path)
    world.put(OLD)

    def before(name: str) -> None:
        if name == "exchange" and not world.file.is_symlink() and world.file.is_file() and world.file.read_bytes() == OLD:
            world.file.unlink()
            put_thing(world, thing)

    world.system = Hooked(lambda call: before(call.name))
    with pytest.raises(SessionRefused):
        world.store.save(NEW, ETAG, during_run=during_run)
    assert stat.S_IFMT(os.lstat(world.file).st_mode) != stat.S_IFREG
    assert world.leftovers() == []
    assert world.kept() == {}


@pytest.mark.parametrize("during_run", [True, False])
def test_b11_a_link_that_comes_before_a_removal_goes_back(tmp_path: Path, during_run: bool) -> None:
    world = World(tmp_path)
    world.put(OLD)

    def before(name: str, target: str) -> None:
        if name == "rename_new" and target == str(world.file):
            world.file.unlink()
            put_thing(world, "link to a session")

    world.system = Hooked(lambda call: before(call.name, call.path))
    with pytest.raises(SessionRefused):
        world.store.remove(ETAG, why="finished", during_run=during_run)
    assert world.file.is_symlink()
    assert world.kept() == {}


def test_an_unreadable_file_is_never_touched(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(OLD)
    world.system = failing_where(lambda call: call.name == "open" and call.path == str(world.file), 13)
    for during_run in (True, False):
        with pytest.raises(SessionRefused, match="cannot be read") as caught:
            world.store.save(NEW, ETAG, during_run=during_run)
        assert (caught.value.kind, caught.value.code) == ("unreadable", "permission_denied")
    with pytest.raises(SessionRefused):
        world.store.clear(ETAG)
    assert world.file.read_bytes() == OLD
    assert os.listdir(world.cache) == ["session.jsonc"]


class TestRemove:
    @pytest.mark.parametrize("during_run", [True, False])
    def test_gone_at_the_last_moment(self, tmp_path: Path, during_run: bool) -> None:
        """Between the look and the rename, and between the rename and the second look."""
        for target in ("session.jsonc", "00000001.jsonc"):
            world = World(tmp_path / target)
            world.put(OLD)

            def before(call: Call, target: str = target) -> None:
                wanted = "lstat" if target == "00000001.jsonc" else "rename_new"
                if call.name == wanted and call.path.endswith(target):
                    os.unlink(call.path)

            world.system = Hooked(before)
            assert world.store.remove(ETAG, why="finished", during_run=during_run) == Missing()
            assert not world.file.exists()

    def test_ours(self, world: World) -> None:
        world.put(OLD)
        result = world.store.remove(ETAG, why="finished", during_run=True)
        assert isinstance(result, Removed)
        assert (result.foreign, result.entry.note.why, result.entry.note.task_id) == (False, "finished", "RQ-0001")
        assert (world.file.exists(), world.kept()) == (False, {OLD: "finished"})
        assert world.store.remove(ETAG, why="finished", during_run=True) == Missing()

    def test_theirs_stays_without_a_run(self, world: World) -> None:
        world.put(FOREIGN)
        assert world.store.remove(ETAG, why="session_stale", during_run=False) == Conflict(etag_of_bytes(FOREIGN))
        assert (world.file.read_bytes(), world.kept()) == (FOREIGN, {})

    def test_theirs_goes_during_a_run_and_is_named(self, world: World) -> None:
        world.put(FOREIGN)
        result = world.store.remove(ETAG, why="finished", during_run=True)
        assert isinstance(result, Removed)
        assert result.foreign
        assert world.kept() == {FOREIGN: "foreign"}

    def test_it_is_durable(self, tmp_path: Path) -> None:
        world = World(tmp_path, system := Hooked())
        world.put(OLD)
        world.store.remove(ETAG, why="finished", during_run=True)
        moved = next(call.number for call in system.calls if call.name == "rename_new" and call.path == str(world.file))
        synced = [call.path for call in system.calls[moved:] if call.name == "fsync_folder"]
        assert {str(world.cache), str(world.cache / "cueloopd" / "history")} <= set(synced)


@pytest.mark.parametrize("during_run", [True, False])
@pytest.mark.parametrize("exchange", [True, False])
def test_first_save_when_a_file_comes_at_the_last_moment(tmp_path: Path, exchange: bool, during_run: bool) -> None:
    world = World(tmp_path)

    def before(call: Call) -> None:
        if call.name == "rename_new" and call.args[1] == str(world.file):
            world.put(FOREIGN)

    world.system = Hooked(before) if exchange else without_exchange(before)
    result = world.store.save(NEW, None, during_run=during_run)
    if during_run:
        assert isinstance(result, SavedOver)
        assert not result.deleted
        assert (world.file.read_bytes(), world.kept()) == (NEW, {FOREIGN: "foreign"})
    else:
        assert result == Conflict(etag_of_bytes(FOREIGN))
        assert (world.file.read_bytes(), world.kept()) == (FOREIGN, {})
    assert world.leftovers() == []


@pytest.mark.parametrize("during_run", [True, False])
@pytest.mark.parametrize("moment", ["exchange", "hold", "last look"])
def test_save_when_the_file_goes_at_the_last_moment(tmp_path: Path, moment: str, during_run: bool) -> None:
    """Before the exchange; and where there is none, before the old file is opened and before it is replaced."""
    world = World(tmp_path)
    world.put(OLD)
    looks = itertools.count()

    def before(call: Call) -> None:
        if call.name == "lstat" and call.path == str(world.file) and "exchange" in hooked.names:
            now = ("hold", "last look")[min(next(looks), 1)] if not gone else ""
        else:
            now = call.name
        if now == moment and not gone:
            gone.append(now)
            world.file.unlink()

    gone: list[str] = []
    hooked = Hooked(before) if moment == "exchange" else without_exchange(before)
    world.system = hooked
    result = world.store.save(NEW, ETAG, during_run=during_run)
    assert gone == [moment]
    assert result == (SavedOver(etag_of_bytes(NEW), (), deleted=True) if during_run else Conflict(None))
    assert world.file.exists() is during_run
    assert world.leftovers() == []
    assert world.kept() == {}


class TestClear:
    @pytest.mark.parametrize(
        "data", [OLD, b"", b"\x00" * 642, b"{torn", b'{"version": 2}'], ids=["valid", "empty", "nul", "torn", "new"]
    )
    def test_whatever_is_in_it(self, world: World, data: bytes) -> None:
        result = world.store.clear(world.put(data))
        assert isinstance(result, Removed)
        assert Path(result.entry.path).read_bytes() == data
        assert result.entry.note.why == "cleared"
        assert not world.file.exists()

    def test_too_large_by_its_stat(self, world: World) -> None:
        world.put(bytes(SESSION_LIMIT + 1))
        etag = etag_of_stat(world.file.stat())
        assert world.store.clear(etag_of_bytes(bytes(SESSION_LIMIT + 1))) == Conflict(etag)
        assert isinstance(world.store.clear(etag), Removed)
        assert not world.file.exists()

    def test_another_one_than_was_seen(self, world: World) -> None:
        world.put(FOREIGN)
        assert world.store.clear(ETAG) == Conflict(etag_of_bytes(FOREIGN))
        assert world.file.read_bytes() == FOREIGN


class TestQuarantine:
    def test_byte_for_byte_once(self, world: World) -> None:
        etag = world.put(b"\x00" * 642)
        result = world.store.quarantine(etag)
        assert isinstance(result, Quarantined)
        assert Path(result.path).read_bytes() == b"\x00" * 642
        assert Path(result.path).parent == world.cache / "session-quarantine"
        assert world.store.quarantine(etag) == Missing()
        assert (world.file.exists(), world.kept()) == (False, {})
        assert world.store.save(NEW, None, during_run=False) == Saved(etag_of_bytes(NEW))

    def test_another_one_stays(self, world: World) -> None:
        world.put(OLD)
        assert world.store.quarantine(etag_of_bytes(b"{torn")) == Conflict(ETAG)
        assert world.file.read_bytes() == OLD


def test_a30_looking_and_being_refused_leaves_everything(world: World) -> None:
    """A30: bytes, inode and times of the file stay through conflicts, and nothing else appears."""
    world.put(FOREIGN)
    before = world.file.stat()
    for _ in range(20):
        world.store.save(NEW, ETAG, during_run=False)
        world.store.remove(ETAG, why="session_stale", during_run=False)
        world.store.clear(ETAG)
        world.store.quarantine(ETAG)
    after = world.file.stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_ctime_ns) == (before.st_ino, before.st_mtime_ns, before.st_ctime_ns)
    assert os.listdir(world.cache) == ["session.jsonc"]


def test_recover_finds_nothing_to_do(world: World) -> None:
    world.put(OLD)
    before = world.file.stat()
    assert world.store.recover(lambda pid: None) == ()
    assert world.file.stat() == before


def test_recover_keeps_what_came_out_when_we_died(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(OLD)
    aside = world.cache / ".session.jsonc.cueloopd-4711-1-0-1.swap"
    aside.write_bytes(FOREIGN)
    foreign_target = world.cache / ".queue.jsonc.cueloopd-4711-1-0-1.swap"
    foreign_target.write_bytes(b"of another store")
    (entry,) = world.store.recover(lambda pid: None)
    assert (entry.note.why, entry.note.task_id) == ("left_behind", "RQ-0007")
    assert world.kept() == {FOREIGN: "left_behind"}
    assert foreign_target.exists()


@pytest.mark.parametrize(
    ("data", "task_id"),
    [
        (OLD, "RQ-0001"),
        (b'{"task_id": " RQ-1 "}', "RQ-1"),
        (b'{"task_id": 1}', None),
        (b"[]", None),
        (b"", None),
        (None, None),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),
        (b'// a comment\n{"task_id": "RQ-1"}', None),
    ],
)
def test_the_task_in_a_note(data: bytes | None, task_id: str | None) -> None:
    assert task_id_in(data) == task_id
