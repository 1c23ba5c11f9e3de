"""What a dead shim's children left: who is proven to be the run's, and the end of it. No other process is ever signalled."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import anyio
import pytest

from cueloop_daemon.runs.shim import Born, Sweep, Swept, end_leftovers, leftovers, sweep, system_processes
from cueloop_daemon.runs.shim.processes import Process, environment_of
from cueloop_protocol.identity import process_start_time
from runs.shim_world import PATIENCE, ShimWorld, shim_world

RUN = "sweep-run"
OWN = 100
BARE = "env -i /bin/sh -c 'echo $$ > bare; while :; do /bin/sleep 0.05; done'"
"""A process without the run's id in its environment."""
UNTIL_BARE = "while [ ! -s bare ]; do sleep 0.01; done"


class Machine:
    """Processes that do not exist. `tagged` were executed with the run's id in their environment."""

    def __init__(self, processes: Iterable[Process], tagged: Iterable[int] = ()) -> None:
        self.processes = list(processes)
        self.tagged = set(tagged)

    def of(self, uid: int) -> Iterator[Process]:
        yield from self.processes

    def has_variable(self, pid: int, entry: bytes) -> bool:
        assert entry == f"CUELOOP_RUN_ID={RUN}".encode()
        return pid in self.tagged


def process(pid: int, *, start: str = "7", parent: int = 1, session: int | None = None) -> Process:
    return Process(pid, start, parent, pid if session is None else session, f"p{pid}")


def found(machine: Machine, *children: Born) -> tuple[list[int], list[int]]:
    result = leftovers(Sweep(RUN, children, 0, OWN, machine))
    return [one.pid for one in result.proven], [one.pid for one in result.suspects]


BORN = Born(1, 500, "7")
DAEMON = process(OWN, parent=50)
SHELL = process(50, parent=1)


@pytest.mark.parametrize(
    ("name", "processes", "tagged", "proven", "suspects"),
    [
        ("nobody", [DAEMON], [], [], []),
        ("the child itself", [DAEMON, process(500)], [], [500], []),
        ("a child's number that is another process", [DAEMON, process(500, start="8")], [], [], []),
        ("the session of a child that lives", [process(500), process(501, session=500)], [], [500, 501], []),
        ("the session of a number that is another process", [process(500, start="8"), process(501, session=500)], [], [], []),
        ("a dead child's session without proof", [process(501, session=500)], [], [], [501]),
        ("a dead child's session with proof", [process(501, session=500), process(502, session=500)], [501], [501, 502], []),
        ("one that made itself a session", [process(600)], [600], [600], []),
        ("the session that such a one began", [process(600), process(601, session=600)], [600], [600, 601], []),
        ("a session that one of them joined", [process(601, session=600), process(602, session=600)], [601], [601], []),
        ("the daemon that an agent started", [process(OWN, parent=1)], [OWN], [], []),
        ("what the daemon descends from", [DAEMON, SHELL], [50], [], []),
        ("the daemon in a child's session", [process(500), process(OWN, parent=500, session=500)], [], [], []),
        ("a circle of parents", [process(OWN, parent=50), process(50, parent=OWN), process(501)], [501], [501], []),
    ],
)
def test_f01_who_is_the_runs(
    name: str, processes: list[Process], tagged: list[int], proven: list[int], suspects: list[int]
) -> None:
    assert found(Machine(processes, tagged), BORN) == (proven, suspects)


def test_who_was_proven_stays_so_when_its_proof_is_dead() -> None:
    """The leader hears INT first; who ignores it is still the run's, and what that one forks meanwhile too."""
    leader, member, late = process(500), process(501, session=500), process(502, session=500)
    begun = [process(600), process(601, session=600)]
    machine = Machine([leader, member, *begun], [600])
    before = leftovers(Sweep(RUN, (BORN,), 0, OWN, machine))
    machine.processes = [member, late, begun[1], process(602, session=600), process(503, start="9")]
    after = leftovers(Sweep(RUN, (BORN,), 0, OWN, machine), before)
    assert [one.pid for one in after.proven] == [501, 502, 601, 602]
    machine.processes = [process(501, start="9", session=500), process(601, start="9", session=600)]
    last = leftovers(Sweep(RUN, (BORN,), 0, OWN, machine), after)
    assert last.proven == (), "numbers that were used again prove nothing"
    assert [one.pid for one in last.suspects] == [501]


# --- the real ones ---


@contextlib.contextmanager
def tree(script: str, *, run_id: str = RUN, ready: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A child as the shim starts one; its script makes the file `ready` when everything stands."""
    env = {"PATH": "/usr/bin:/bin", "CUELOOP_RUN_ID": run_id}
    child = subprocess.Popen(["/bin/sh", "-c", script], env=env, start_new_session=True, cwd=ready.parent)
    try:
        end = time.monotonic() + PATIENCE
        while not ready.exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def real(*children: Born, run_id: str = RUN) -> Sweep:
    return Sweep(run_id, children, os.getuid(), os.getpid(), system_processes())


def born(child: subprocess.Popen[bytes]) -> Born:
    return Born(1, child.pid, process_start_time(child.pid) or "")


def is_alive(path: Path) -> bool:
    return process_start_time(int(path.read_text())) is not None


async def test_e03_a_tree_that_ignores_everything_is_ended(tmp_path: Path) -> None:
    """E03, E04: children that trap INT and TERM, left their session, and lost their parent."""
    run_id = f"tree-{tmp_path.name}"
    script = """
    trap '' INT TERM
    (trap '' INT TERM; setsid sh -c 'trap "" INT TERM; echo $$ > far; while :; do sleep 0.05; done' & exit 0)
    (trap '' INT TERM; sh -c 'echo $$ > near; while :; do sleep 0.05; done') &
    while [ ! -s far ] || [ ! -s near ]; do sleep 0.01; done
    touch ready
    while :; do sleep 0.05; done
    """
    with tree(script, run_id=run_id, ready=tmp_path / "ready") as child:
        before = anyio.current_time()
        swept = await end_leftovers(real(born(child), run_id=run_id), 0.4)
        assert anyio.current_time() - before < 2.0
        assert swept.left == ()
        assert {int(name.split()[0]) for name in swept.ended} >= {child.pid, int((tmp_path / "far").read_text())}
        assert not is_alive(tmp_path / "far")
        assert not is_alive(tmp_path / "near")
        assert child.wait() == -signal.SIGKILL


async def test_a_polite_tree_gets_no_more_than_an_int(tmp_path: Path) -> None:
    run_id = f"polite-{tmp_path.name}"
    script = "trap 'echo bye > said; exit 0' INT; touch ready; while :; do sleep 0.05; done"
    with tree(script, run_id=run_id, ready=tmp_path / "ready") as child:
        swept = await end_leftovers(real(run_id=run_id), 5.0)
        assert child.wait() == 0
        assert swept.left == ()
    assert (tmp_path / "said").read_text() == "bye\n"


async def test_a_stopped_process_is_woken_to_hear_it(tmp_path: Path) -> None:
    run_id = f"stopped-{tmp_path.name}"
    script = "trap 'exit 0' INT; touch ready; while :; do sleep 0.05; done"
    with tree(script, run_id=run_id, ready=tmp_path / "ready") as child:
        os.kill(child.pid, signal.SIGSTOP)
        swept = await end_leftovers(real(born(child), run_id=run_id), 5.0)
        assert swept.left == ()
        assert child.wait() == 0


async def test_one_without_the_tag_is_found_by_the_session_of_its_living_child(tmp_path: Path) -> None:
    run_id = f"bare-{tmp_path.name}"
    script = f"{BARE} & {UNTIL_BARE}; touch ready; wait"
    with tree(script, run_id=run_id, ready=tmp_path / "ready") as child:
        assert not system_processes().has_variable(int((tmp_path / "bare").read_text()), f"CUELOOP_RUN_ID={run_id}".encode())
        await end_leftovers(real(born(child), run_id=run_id), 0.2)
        assert not is_alive(tmp_path / "bare")


async def test_others_are_left_alone(tmp_path: Path) -> None:
    """Another run's processes, and one whose number a child once had."""
    with tree("touch ready; exec sleep 60", run_id=f"{RUN}-other", ready=tmp_path / "ready") as child:
        recycled = Born(1, child.pid, "1")
        assert await end_leftovers(real(recycled), 0.1) == Swept()
        assert child.poll() is None


async def test_a_suspect_is_named_and_lives(tmp_path: Path) -> None:
    """A session whose first process is dead, and nobody in it carries the run's id: it may be anybody's by now."""
    script = f"({BARE} &); {UNTIL_BARE}; touch ready"
    with tree(script, ready=tmp_path / "ready") as child:
        record = Born(1, child.pid, "7")
        child.wait()
        pid = int((tmp_path / "bare").read_text())
        try:
            swept = await end_leftovers(real(record, run_id="no-such-run"), 0.1)
            assert [name.split()[0] for name in swept.suspects if name.startswith(f"{pid} ")] == [str(pid)]
            assert swept.ended == ()
            assert process_start_time(pid) is not None
        finally:
            os.kill(pid, signal.SIGKILL)


async def test_what_cannot_be_ended_is_reported_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "PATIENCE", 0.2)
    told: list[int] = []
    monkeypatch.setattr(sweep, "send_signal", lambda pid, start, boot, number: told.append(number) or True)
    machine = Machine([process(500)], [500])
    swept = await end_leftovers(Sweep(RUN, (), 0, OWN, machine), 0.2)
    assert swept == Swept(left=("500 p500",))
    assert [number for number in told if number != signal.SIGCONT] == [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]


async def test_one_that_comes_while_the_others_are_ended_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of three is forked by the one before it at the moment at which that one is killed."""
    waiting = [process(502), process(501)]
    machine = Machine([process(500)], [500, 501, 502])

    def kill(pid: int, start: str, boot: str, number: int) -> bool:
        if number == signal.SIGINT:
            machine.processes = [waiting.pop()] if waiting else []
        return True

    monkeypatch.setattr(sweep, "send_signal", kill)
    swept = await end_leftovers(Sweep(RUN, (), 0, OWN, machine), 1.0)
    assert swept == Swept(ended=("500 p500", "501 p501", "502 p502"))


def test_the_machines_own_processes_are_seen_as_they_are() -> None:
    mine = {one.pid: one for one in system_processes().of(os.getuid())}
    me = mine[os.getpid()]
    assert (me.start, me.parent, me.session) == (process_start_time(os.getpid()), os.getppid(), os.getsid(0))
    dead = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    assert dead.pid not in {one.pid for one in system_processes().of(os.getuid())}, "a zombie is dead"
    dead.wait()
    assert not any(system_processes().of(os.getuid() + 54_321))


def test_a_variable_is_looked_for_whole() -> None:
    code = "import os; print(flush=True); os.read(0, 1)"
    env = {"CUELOOP_RUN_ID": "r-12", "OTHER": "CUELOOP_RUN_ID=r-3"}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        look = system_processes().has_variable
        assert look(child.pid, b"CUELOOP_RUN_ID=r-12")
        assert not look(child.pid, b"CUELOOP_RUN_ID=r-1")
        assert not look(child.pid, b"CUELOOP_RUN_ID=r-3")
        child.communicate(b"x")
    assert not look(child.pid, b"CUELOOP_RUN_ID=r-12")


def test_macos_arguments_are_no_environment() -> None:
    told = struct.pack("i", 2) + b"/bin/sh\0\0\0sh\0CUELOOP_RUN_ID=a\0CUELOOP_RUN_ID=b\0\0"
    assert b"CUELOOP_RUN_ID=a" not in environment_of(told)
    assert b"CUELOOP_RUN_ID=b" in environment_of(told)
    assert environment_of(b"") == []


async def test_e03_after_the_shims_death_nothing_of_its_child_goes_on(tmp_path: Path) -> None:
    """With the real shim, killed with its agent and a grandchild at work."""
    with shim_world(tmp_path, run_id=f"swept-{tmp_path.name[-20:].replace('_', '-')}") as world:
        await _killed_with_a_grandchild(world)


async def _killed_with_a_grandchild(world: ShimWorld) -> None:
    script = "setsid sh -c 'trap \"\" INT TERM; echo $$ > grandchild; while :; do sleep 0.05; done' & wait"
    async with world.link() as link:
        started = await link.start(world.order(1, script))
        with anyio.fail_after(PATIENCE):
            while not (world.home / "grandchild").exists() or not (world.home / "grandchild").read_text():
                await anyio.sleep(0.01)
        world.kill_shim()
        await link.lost.wait()
    record = Born(1, started.pid, started.start_time)  # type: ignore[union-attr]  # it was started
    swept = await end_leftovers(real(record, run_id=world.run_id), 0.4)
    assert swept.left == ()
    assert not is_alive(world.home / "grandchild")
    assert process_start_time(record.pid) is None
