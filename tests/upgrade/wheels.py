"""Two wheels against each other in both directions: `python tests/upgrade/wheels.py OLD NEW`.

Each is `COMMIT[@VERSION][:LOW-HIGH]`, or `tree` for the files as they are. Prints what was tried and whether it went as it should.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from cueloop_protocol.place import LOCATOR
from support.runs import Stage, finished, nothing_left, start
from support.wire import Wire, wait_for
from support.world import World
from upgrade.installs import Asked, Installed, install

ACT = """
begin()
text("at work")
wait_for("go")
end()
"""
Done = subprocess.CompletedProcess[str]


@dataclass
class Bench:
    """A repository, and two versions that work in it in turn."""

    old: Installed
    new: Installed
    is_wanted: Callable[[str], bool]
    tried: list[tuple[str, str]] = field(default_factory=list)
    """What was tried, and what is wrong with how it went; empty: nothing."""

    def trial(self, name: str, act: Callable[[Place], None], *, run: bool = False) -> None:
        """Do it in a world of its own, `run`: with a run under way, and remember what went wrong."""
        if not self.is_wanted(name):
            return
        world = World.make()
        try:
            with _place(world, is_running=run) as place:
                act(place)
        except AssertionError as exc:
            self.tried.append((name, str(exc).partition("\n")[0] or "it is not so"))
        else:
            self.tried.append((name, ""))
        finally:
            world.close()


@dataclass
class Place:
    """The repository of one trial."""

    stage: Stage
    is_running: bool
    run_id: str = ""
    cursor: str = ""

    def call(self, by: Installed, *argv: str) -> Done:
        """`cueloop` of that version."""
        world = self.stage.world
        return subprocess.run(
            [by.python, "-P", "-m", "cueloop_client", *argv], cwd=world.repository.path, env=world.environ, capture_output=True,
            text=True, timeout=90, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def good(self, by: Installed, *argv: str) -> Done:
        """The same, which must do."""
        done = self.call(by, *argv)
        assert done.returncode == 0, f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip()}"
        return done

    def begin(self, by: Installed) -> int:
        """Its daemon runs here, with a run if one is wanted; its pid."""
        self.good(by, "daemon", "start")
        if self.is_running:
            with Wire(self.socket) as wire:
                self.cursor = wire.subscribe()["cursor"]
                self.run_id = start(wire, self.stage)
            self.stage.was_called()
        return self.daemon()[0]

    def end_run(self) -> None:
        """The run goes on to a good end, with each event once, in the epoch in which it began."""
        self.stage.make_file("go")
        with nothing_left(self.stage), Wire(self.socket) as wire:
            outcome = finished(wire, self.run_id)["summary"]["outcome"]
            assert outcome == "ran", f"the run ended as {outcome}"
            wire.subscribe(cursor=self.cursor)
            seqs, last = [int(self.cursor.partition(":")[2])], ""
            while last != "run.finished":
                note = wire.note()
                last = note["method"]
                epoch, _, seq = note["params"].get("cursor", ":").partition(":")
                assert epoch == self.cursor.partition(":")[0], f"a new epoch began: {last}"
                seqs.append(int(seq))
            assert seqs == sorted(set(seqs)), "an event came twice"

    @property
    def locator(self) -> dict[str, object]:
        """What the daemon says of itself in the repository."""
        found: dict[str, object] = json.loads((self.stage.world.repository.ours / LOCATOR).read_text())
        return found

    @property
    def socket(self) -> str:
        return str(self.locator["socket"])

    def daemon(self) -> tuple[int, str]:
        """Pid and version of the one daemon that runs here, once the one before it has gone."""
        world = self.stage.world
        wait_for(lambda: len(world.daemons()) == 1 and self._is_located(world.daemons()[0]), "one daemon")
        return world.daemons()[0], str(self.locator["daemon_version"])

    def _is_located(self, pid: int) -> bool:
        try:
            return self.locator["pid"] == pid
        except OSError:
            return False


@contextmanager
def _place(world: World, *, is_running: bool) -> Iterator[Place]:
    stage = Stage.make(world, ACT)
    try:
        yield Place(stage, is_running)
    finally:
        stage.make_file("go")


def drive(old: Installed, new: Installed, is_wanted: Callable[[str], bool] = lambda name: True) -> Bench:
    """Everything that two versions may do to each other; the trials whose names are wanted."""
    bench = Bench(old, new, is_wanted)
    for run in (False, True):
        what = "a run" if run else "no run"
        bench.trial(f"old daemon, {what}: a new client asks", lambda place: _new_client(place, old, new), run=run)
        bench.trial(f"new daemon, {what}: an old client asks", lambda place: _old_client(place, old, new), run=run)
        bench.trial(f"old daemon, {what}: the new one replaces it", lambda place: _replaced(place, old, new), run=run)
        bench.trial(f"new daemon, {what}: the old one replaces it", lambda place: _replaced(place, new, old), run=run)
    bench.trial("old daemon: the new client stops it", lambda place: _stopped(place, old, new))
    bench.trial("new daemon: the old client stops it", lambda place: _stopped(place, new, old))
    return bench


def _new_client(place: Place, old: Installed, new: Installed) -> None:
    pid = place.begin(old)
    if old.shares_protocol(new):
        place.good(new, "machine", "config", "resolve")
        assert place.daemon()[0] == pid, "the daemon was replaced"
        told = place.good(new, "daemon", "status").stdout
        waits = f"version {new.version} waits: cueloop daemon restart{' --when-idle' if place.is_running else ''}"
        assert old.version == new.version or waits in told, f"status does not say that {new.version} waits"
    elif place.is_running:
        refused = place.call(new, "machine", "config", "resolve")
        said = json.loads(refused.stderr)
        words = f"{said['message']} {said.get('detail')}"
        assert (refused.returncode, said["code"]) == (1, "version_mismatch"), words
        assert place.run_id in words, f"the run is not named: {words}"
        assert "cueloop daemon restart --when-idle" in words, f"no command is named: {words}"
        assert place.daemon()[0] == pid, "the daemon was replaced under a run"
    else:
        done = place.good(new, "machine", "config", "resolve")
        assert done.stderr.count("\n") == 1, f"not said once: {done.stderr}"
        assert place.daemon()[1] == new.version, "the old daemon still runs"
        assert not place.good(new, "machine", "config", "resolve").stderr, "said twice"
    if place.is_running:
        place.end_run()


def _old_client(place: Place, old: Installed, new: Installed) -> None:
    pid = place.begin(new)
    done = place.call(old, "machine", "config", "resolve")
    if old.shares_protocol(new):
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 1, "it works without a common protocol"
        assert len(json.loads(done.stderr)["message"]) > 20, done.stderr
        assert not old.hands_over or f"update cueloop to {new.version}" in done.stderr, done.stderr
    assert place.daemon()[0] == pid, "the daemon was replaced"
    if place.is_running:
        place.end_run()


def _replaced(place: Place, before: Installed, after: Installed) -> None:
    """By `daemon restart` of the one that comes after, the run being left to it."""
    pid = place.begin(before)
    if place.is_running:
        refused = place.call(after, "daemon", "restart")
        assert refused.returncode == 1, "it replaced the daemon under a run without being told to"
        assert re.search(r"[Rr]un \S+ is active", refused.stderr), refused.stderr
        assert place.daemon()[0] == pid, "the daemon was replaced under a run"
    done = place.good(after, "daemon", "restart", "--leave-runs")
    if before.hands_over and after.hands_over:
        assert "no caller was turned away" in done.stdout, done.stdout
    assert place.daemon() != (pid, before.version)
    assert place.daemon()[1] == after.version, "another version runs"
    if place.is_running:
        place.end_run()


def _stopped(place: Place, daemon: Installed, client: Installed) -> None:
    place.begin(daemon)
    place.good(client, "daemon", "stop")
    assert place.stage.world.daemons() == [], "it still runs"


def main(argv: list[str]) -> int:
    old, new = (Asked.read(text) for text in argv)
    with tempfile.TemporaryDirectory() as folder:
        bench = drive(install(old, Path(folder) / "old"), install(new, Path(folder) / "new"))
    for one in (bench.old, bench.new):
        print(f"version {one.version}, protocol {one.protocols[0]} to {one.protocols[1]}, hands over: {one.hands_over}")
    for name, wrong in bench.tried:
        print(f"  {'ok ' if not wrong else 'NO '} {name}{f': {wrong}' if wrong else ''}")
    return any(wrong for _, wrong in bench.tried)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
