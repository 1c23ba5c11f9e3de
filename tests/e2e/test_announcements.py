"""What the watch announces without a run (design section 5): what, in which order, once, to whom, and what it does not say.

That something is *not* announced is shown by a fence: another change is made, and its event must be the next one.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cueloop_protocol.notifications import EventNotification
from support.repository import Repository, git, queue, session, task
from support.wire import Wire, wait_for
from support.world import Daemon, World

_titles = itertools.count()


def fence(repository: Repository, *wires: Wire, tasks: tuple[dict[str, object], ...] = ()) -> None:
    """Change the queue, and nothing that a decision depends on: the next event of each must be that, and the only one."""
    rows = tasks or (task(1, "doing"), task(2, "todo"))
    repository.put(repository.queue, queue(*rows, task(9, "todo", title=f"Fence {next(_titles)}")))
    for wire in wires:
        event = wire.event()
        assert event["kind"] == "queue_snapshot", event


def decision(wire: Wire, reason: str) -> dict[str, Any]:
    """The next two events are a decision for this reason and the document that has it."""
    event = wire.event()
    assert (event["kind"], event.get("payload", {}).get("reason")) == ("resume_decision", reason), event
    assert event["message"] == event["payload"]["message"]
    assert event.get("task_id") == event["payload"].get("task_id")
    document(wire, event["payload"])
    return event


def document(wire: Wire, preview: object = None) -> dict[str, Any]:
    """The next event is a document with this preview."""
    event = wire.event()
    assert event["kind"] == "config_resolved", event
    found: dict[str, Any] = event["payload"]["config"]
    assert found.get("resume_preview") == preview
    return found


@pytest.fixture
def heard(world: World, wire: Wire) -> Wire:
    """A connection that is subscribed, with a session that was there before."""
    world.repository.put(world.repository.session, session())
    snapshot = wire.subscribe(caller=world.caller)["snapshot"]
    assert snapshot["document"]["resume_preview"]["reason"] == "session_valid"
    return wire


def test_a_new_session_is_a_decision_and_then_the_document_that_has_it(world: World, wire: Wire) -> None:
    assert "resume_preview" not in wire.subscribe(caller=world.caller)["snapshot"]["document"]
    world.repository.put(world.repository.session, session())
    found = decision(wire, "session_valid")
    assert found["version"] == 3
    assert found["task_id"] == "RQ-0001"
    fence(world.repository, wire)


def test_each_notification_says_whose_it_is_and_where_it_stands(world: World, wire: Wire) -> None:
    begun = wire.subscribe(caller=world.caller)
    world.repository.put(world.repository.session, session())
    notes = [wire.note()["params"] for _ in range(2)]
    for note in notes:
        EventNotification.model_validate_json(json.dumps(note))
        assert note["revision"] > begun["snapshot"]["revision"]
    epoch, seq = begun["cursor"].split(":")
    assert all(note["subscription"] == begun["subscription"] and note["origin"] == "watch" for note in notes)
    assert [note.get("run_id") for note in notes] == [None, None]
    places = [note["cursor"].split(":") for note in notes]
    assert [place[0] for place in places] == [epoch, epoch]
    assert int(seq) < int(places[0][1]) < int(places[1][1])


def test_an_envelope_has_its_keys_in_order_and_nothing_is_null(world: World, wire: Wire) -> None:
    wire.subscribe(caller=world.caller)
    world.repository.put(world.repository.session, session())
    first, second = wire.event(), wire.event()
    assert list(first) == ["version", "kind", "timestamp", "task_id", "message", "payload"]
    assert list(second) == ["version", "kind", "timestamp", "payload"]
    fence_event = _queue_event(world, wire)
    assert list(fence_event["payload"]["paths"])[:2] == ["repo_root", "queue_path"]


def _queue_event(world: World, wire: Wire) -> dict[str, Any]:
    world.repository.put(world.repository.queue, queue(task(1, "doing"), task(2, "todo"), task(3, "todo")))
    event = wire.event()
    assert event["kind"] == "queue_snapshot"
    return event


def test_the_queue_comes_first_then_the_decision_then_the_document(world: World, heard: Wire) -> None:
    world.repository.put(world.repository.queue, queue(task(1, "done", completed_at="2026-02-07T10:00:00Z"), task(2, "todo")))
    assert heard.event()["kind"] == "queue_snapshot"
    decision(heard, "session_stale")


def test_none_has_no_event_of_its_own(world: World, heard: Wire) -> None:
    world.repository.session.unlink()
    document(heard, None)
    fence(world.repository, heard)


def test_another_phase_is_another_decision(world: World, heard: Wire) -> None:
    world.repository.put(world.repository.session, session(current_phase=3))
    assert "phase 3" in decision(heard, "session_valid")["payload"]["detail"]
    fence(world.repository, heard)


def _touch(path: Path) -> None:
    os.utime(path)


def _rewrite(path: Path) -> None:
    path.write_bytes(path.read_bytes())


def _rename(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.rename(other, path)


def _add_a_comment(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes() + b"// looked at by a person\n")
    os.rename(other, path)


def _chmod(path: Path) -> None:
    path.chmod(0o640)


def _read(path: Path) -> None:
    for _ in range(100):
        path.read_bytes()


@pytest.mark.parametrize("name", ["session", "queue", "config"])
def test_what_changes_no_content_is_not_announced_c09_c10(world: World, heard: Wire, name: str) -> None:
    world.repository.configure(session_timeout_hours=30)
    document(heard, heard.call("config.resolve", caller=world.caller)["document"]["resume_preview"])
    for harmless in (_touch, _rewrite, _rename, _add_a_comment, _chmod, _read):
        harmless(getattr(world.repository, name))
        fence(world.repository, heard)


def _vim_by_rename(path: Path, data: bytes) -> None:
    """`set nobackup backupcopy=no`: the file is moved away, written anew, the old one removed."""
    probe, old = path.with_name("4913"), path.with_name(f"{path.name}~")
    probe.touch()
    probe.unlink()
    os.rename(path, old)
    path.write_bytes(data)
    old.unlink()


def _vim_in_place(path: Path, data: bytes) -> None:
    """`set backupcopy=yes`: truncated and written."""
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(data[: len(data) // 2])
        file.flush()
        file.write(data[len(data) // 2 :])


def _moved(path: Path, data: bytes) -> None:
    other = path.with_name("tmpAB12")
    other.write_bytes(data)
    os.rename(other, path)


@pytest.mark.parametrize("save", [_vim_by_rename, _vim_in_place, _moved])
def test_each_of_five_saves_is_heard_once_c01(world: World, heard: Wire, save: Callable[[Path, bytes], None]) -> None:
    for completed in range(2, 7):
        save(world.repository.session, session(current_phase=3, tasks_completed_in_loop=completed))
        assert f"{completed} completed" in decision(heard, "session_valid")["payload"]["detail"]
    fence(world.repository, heard)


def test_a_file_caught_half_written_is_not_called_corrupt_c12(world: World, heard: Wire) -> None:
    """The pauses are the writer's own, as measured of shells and editors."""
    data = session(current_phase=3)
    with world.repository.session.open("r+b") as file:
        file.truncate(0)
        time.sleep(0.15)
        assert heard.call("config.resolve", caller=world.caller)["settling"] is True
        file.write(data[:200])
        file.flush()
        time.sleep(0.15)
        file.write(data[200:])
    assert "phase 3" in decision(heard, "session_valid")["payload"]["detail"]
    assert heard.call("config.resolve", caller=world.caller)["settling"] is False
    assert not (world.repository.cache / "session-quarantine").exists()
    fence(world.repository, heard)


def test_what_stays_damaged_is_announced_after_the_settle_time_and_left_alone_c12(world: World, heard: Wire) -> None:
    began = time.monotonic()
    cut = session()[:200]
    world.repository.session.write_bytes(cut)
    decision(heard, "session_cache_corrupt")
    assert 0.25 < time.monotonic() - began < 2
    assert world.repository.session.read_bytes() == cut
    world.repository.put(world.repository.session, session())
    decision(heard, "session_valid")


def test_gone_and_back_at_once_is_not_announced(world: World, heard: Wire) -> None:
    data = world.repository.session.read_bytes()
    world.repository.session.unlink()
    world.repository.put(world.repository.session, data)
    fence(world.repository, heard)


def test_gone_and_back_later_is_both_announced(world: World, heard: Wire) -> None:
    data = world.repository.session.read_bytes()
    world.repository.session.unlink()
    document(heard, None)
    world.repository.put(world.repository.session, data)
    decision(heard, "session_valid")


@pytest.mark.alone
@pytest.mark.parametrize("gap", [0, 0.001, 0.05])
def test_the_cache_folder_made_anew_is_watched_again_c06(world: World, daemon: Daemon, heard: Wire, gap: float) -> None:
    """What is ours stays, as after `git clean` of all else; a folder of another inode is watched, and heard within a second.

    The daemon stands still while its own files are away, which it could see otherwise: then it would have a new log, or leave.
    """
    kept = world.folder / "kept"
    for phase in (3, 1):
        daemon.send(signal.SIGSTOP)
        os.rename(world.repository.ours, kept)
        subprocess.run(["rm", "-rf", str(world.repository.cache)], check=True)
        time.sleep(gap)
        world.repository.cache.mkdir()
        os.rename(kept, world.repository.ours)
        daemon.send(signal.SIGCONT)
        time.sleep(gap)
        world.repository.put(world.repository.session, session(current_phase=phase))
        heard.events_until(lambda event, new=f"phase {phase}": new in event.get("payload", {}).get("detail", ""), 1 + gap)
        document(heard, heard.call("config.resolve", caller=world.caller)["document"]["resume_preview"])
    world.repository.put(world.repository.session, session(current_phase=3))
    assert "phase 3" in decision(heard, "session_valid")["payload"]["detail"]


def test_a_burst_of_files_hides_no_change_c05(world: World, daemon: Daemon, heard: Wire) -> None:
    daemon.send(signal.SIGSTOP)
    for number in range(20_000):
        os.close(os.open(f"{world.repository.cache}/burst{number}", os.O_CREAT | os.O_WRONLY))
    world.repository.put(world.repository.session, session(current_phase=3))
    daemon.send(signal.SIGCONT)
    events = heard.events_until(lambda event: event["kind"] == "config_resolved")
    assert "phase 3" in events[-2]["payload"]["detail"]
    assert [event["kind"] for event in events if event["kind"] != "warning"] == ["resume_decision", "config_resolved"]


class TestLock:
    """While another tool's run holds the queue lock, its session is not an interrupted one."""

    @pytest.mark.parametrize("label", ["run one", "run loop"])
    def test_a_live_run_makes_the_watch_mute_until_it_ends(self, world: World, heard: Wire, label: str) -> None:
        repository = world.repository
        repository.take_lock(label, os.getpid())
        found = heard.call("config.resolve", caller=world.caller)
        assert "resume_preview" not in found["document"]
        assert (found["queue_lock"]["label"], found["queue_lock"]["live"]) == (label, True)
        for phase in (3, 1, 3):
            repository.put(repository.session, session(current_phase=phase))
        fence(repository, heard)
        repository.release_lock()
        assert "phase 3" in decision(heard, "session_valid")["payload"]["detail"]
        fence(repository, heard)

    def test_a_run_that_leaves_the_session_as_it_was_has_nothing_announced(self, world: World, heard: Wire) -> None:
        world.repository.take_lock("run one", os.getpid())
        fence(world.repository, heard)
        world.repository.release_lock()
        wait_for(lambda: heard.call("config.resolve", caller=world.caller).get("queue_lock") is None, "the lock is seen as gone")
        fence(world.repository, heard)

    def test_settings_are_announced_meanwhile(self, world: World, heard: Wire) -> None:
        world.repository.take_lock("run one", os.getpid())
        world.repository.configure(session_timeout_hours=30)
        assert document(heard, None)["config"]["agent"]["session_timeout_hours"] == 30
        world.repository.release_lock()

    def test_a_run_that_was_killed_is_noticed_without_any_file_changing(self, world: World, heard: Wire) -> None:
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as holder:
            world.repository.take_lock("run one", holder.pid)
            world.repository.put(world.repository.session, session(current_phase=3))
            fence(world.repository, heard)
            holder.kill()
        assert "phase 3" in decision(heard, "session_valid")["payload"]["detail"]

    @pytest.mark.parametrize(("label", "pid"), [("task", os.getpid()), ("run one", 2**22 + 1)], ids=["task", "dead"])
    def test_another_lock_mutes_nothing(self, world: World, heard: Wire, label: str, pid: int) -> None:
        world.repository.take_lock(label, pid)
        world.repository.put(world.repository.session, session(current_phase=3))
        assert "phase 3" in decision(heard, "session_valid")["payload"]["detail"]


class TestRestart:
    """A daemon that starts says once what changed while nobody looked."""

    @contextmanager
    def again(self, world: World, cursor: str) -> Iterator[Wire]:
        daemon = world.start(at_home=True)
        with daemon.connect() as wire:
            wire.subscribe(caller=world.caller, cursor=cursor)
            yield wire
        assert daemon.stop() == 0

    @pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
    def test_what_changed_meanwhile_is_announced_once(self, world: World, crash: bool) -> None:
        world.repository.put(world.repository.session, session())
        daemon = world.start(at_home=True)
        with daemon.connect() as wire:
            cursor = wire.subscribe(caller=world.caller)["cursor"]
        if crash:
            daemon.kill()
        else:
            daemon.stop()
        world.repository.put(world.repository.session, session(current_phase=3))
        with self.again(world, cursor) as wire:
            assert "phase 3" in decision(wire, "session_valid")["payload"]["detail"]
            fence(world.repository, wire)
        with self.again(world, cursor) as wire:
            assert "phase 3" in decision(wire, "session_valid")["payload"]["detail"]
            assert wire.event()["kind"] == "queue_snapshot"
            fence(world.repository, wire)

    def test_what_did_not_change_is_not_announced(self, world: World) -> None:
        world.repository.put(world.repository.session, session())
        daemon = world.start(at_home=True)
        with daemon.connect() as wire:
            cursor = wire.subscribe(caller=world.caller)["cursor"]
        daemon.stop()
        with self.again(world, cursor) as wire:
            fence(world.repository, wire)


class TestAudience:
    """What is announced depends on whose configuration is meant."""

    @staticmethod
    def home(world: World, name: str, **agent: object) -> dict[str, str]:
        home = world.folder / name
        (home / ".config/cueloop").mkdir(parents=True)
        (home / ".config/cueloop/config.jsonc").write_text(json.dumps({"version": 2, "agent": agent}))
        return {"home": str(home)}

    def test_each_hears_the_decision_of_its_own_configuration(self, world: World, daemon: Daemon) -> None:
        short, long = self.home(world, "short", session_timeout_hours=1), self.home(world, "long", session_timeout_hours=72)
        with daemon.connect() as one, daemon.connect() as other, daemon.connect() as nobody:
            one.subscribe(caller=short)
            other.subscribe(caller=long)
            nobody.subscribe()
            world.repository.put(world.repository.session, session(timedelta(hours=5)))
            decision(one, "session_timed_out_requires_confirmation")
            decision(other, "session_valid")
            decision(nobody, "session_valid")
            fence(world.repository, one, other, nobody)

    def test_a_change_of_one_configuration_is_heard_by_it_alone(self, world: World, daemon: Daemon) -> None:
        mine, yours = self.home(world, "mine", session_timeout_hours=72), self.home(world, "yours", session_timeout_hours=72)
        world.repository.put(world.repository.session, session(timedelta(hours=5)))
        with daemon.connect() as one, daemon.connect() as other:
            one.subscribe(caller=mine)
            other.subscribe(caller=yours)
            changed = Path(mine["home"]) / ".config/cueloop/config.jsonc"
            world.repository.put(changed, b'{"version": 2, "agent": {"session_timeout_hours": 2}}')
            decision(one, "session_timed_out_requires_confirmation")
            fence(world.repository, one, other)

    def test_nine_callers_are_all_served(self, world: World, daemon: Daemon, wire: Wire) -> None:
        """Eight snapshots are kept; the ninth caller costs the least recently used one its cache, and nobody an answer."""
        callers = [self.home(world, f"home{hours}", session_timeout_hours=hours) for hours in range(1, 10)]
        for _ in range(2):
            for hours, caller in enumerate(callers, 1):
                found = wire.call("config.resolve", caller=caller)["document"]
                assert found["config"]["agent"]["session_timeout_hours"] == hours
        assert wire.call("daemon.status")["snapshots"] <= 8


class TestWarnings:
    """A document that cannot be used is told once, by name; and so is the end of that, by what can be said again."""

    @pytest.mark.parametrize("name", ["queue", "config"])
    def test_a_broken_document_is_named_once_each_time_and_its_repair_brings_the_document(
        self, world: World, heard: Wire, name: str
    ) -> None:
        world.repository.configure(session_timeout_hours=30)
        document(heard, heard.call("config.resolve", caller=world.caller)["document"]["resume_preview"])
        path: Path = getattr(world.repository, name)
        good = path.read_bytes()
        told_first = ["queue_snapshot"] if name == "queue" else []
        for _ in range(2):
            world.repository.put(path, good.replace(b'"version"', b'"nonsense": 1, "version"', 1))
            events = heard.events_until(lambda event: event["kind"] == "warning")
            assert [event["kind"] for event in events] == [*told_first, "warning"]
            assert str(path) in events[-1]["message"]
            assert "nonsense" in events[-1]["message"]
            world.repository.put(path, good)
            events = heard.events_until(lambda event: event["kind"] == "config_resolved")
            assert [event["kind"] for event in events] == [*told_first, "config_resolved"]
        fence(world.repository, heard)

    def test_a_subscription_begins_with_the_error_where_there_is_no_document(self, world: World, wire: Wire) -> None:
        world.repository.put(world.repository.config, b"[]")
        snapshot = wire.subscribe(caller=world.caller)["snapshot"]
        assert "document" not in snapshot
        assert snapshot["error"]["code"] == "config_incompatible"


def test_kinds_filter_events_alone(world: World, wire: Wire) -> None:
    wire.subscribe(caller=world.caller, kinds=["queue_snapshot"])
    world.repository.put(world.repository.session, session())
    fence(world.repository, wire)


def test_trust_and_plugins_are_part_of_the_document(world: World, wire: Wire) -> None:
    wire.subscribe(caller=world.caller)
    world.repository.put(world.repository.folder / "trust.jsonc", b'{"allow_project_commands": true}')
    assert document(wire)["safety"]["repo_trusted"] is True
    world.repository.configure(session_timeout_hours=3)
    assert document(wire)["config"]["agent"]["session_timeout_hours"] == 3


def test_a_tree_that_becomes_dirty_is_announced_when_git_is_asked(world: World, wire: Wire) -> None:
    (world.repository.path / ".gitignore").write_text(".cueloop/\n")
    git(world.repository.path, "init", "-q")
    git(world.repository.path, "add", "-A")
    git(world.repository.path, "commit", "-qm", "start")
    assert wire.call("config.resolve", caller=world.caller, exact=True)["document"]["safety"]["dirty_repo"] is False
    wire.subscribe(caller=world.caller)
    (world.repository.path / "new").touch()
    assert wire.call("config.resolve", caller=world.caller, exact=True)["document"]["safety"]["dirty_repo"] is True
    assert document(wire)["safety"]["dirty_repo"] is True


def test_a_holder_of_the_queue_lock_that_is_killed_lets_the_decision_be_told(world: World, wire: Wire) -> None:
    """No file changes then."""
    with subprocess.Popen(["sleep", "600"]) as holder:
        world.repository.take_lock("run loop", holder.pid)
        world.repository.put(world.repository.session, session())
        snapshot = wire.subscribe(caller=world.caller)["snapshot"]
        assert snapshot["queue_lock"]["live"]
        assert "resume_preview" not in snapshot["document"]
        holder.kill()
    decision(wire, "session_valid")


def test_any_number_of_callers_may_listen_and_none_is_looked_for_without_end(world: World, daemon: Daemon, wire: Wire) -> None:
    """More than the eight that a snapshot is kept for: each snapshot made anew would be the hint to look again."""
    callers = [{"home": f"/home/{number}"} for number in range(12)]
    for caller in callers:
        wire.subscribe(caller=caller)
    revisions: list[int] = []
    for number in range(3):
        rows = task(1, "doing"), task(2, "todo"), task(9, "todo", title=f"Change {number}")
        world.repository.put(world.repository.queue, queue(*rows))
        notes = [wire.note()["params"] for _ in callers]
        assert {note["event"]["kind"] for note in notes} == {"queue_snapshot"}
        revisions.append(max(note["revision"] for note in notes))
    assert revisions[-1] - revisions[0] <= 4 * len(callers)
    assert wire.call("daemon.status")["snapshots"] == len(callers) + 1
