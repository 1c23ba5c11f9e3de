"""What `make run` shows: the daemon of a repository answers a preview and pushes each decision while files change.

Without arguments a sample repository is laid out in a temporary folder and taken through the life of an interrupted session;
the programme ends by itself. With `--repo PATH` it shows the same of a real repository until Ctrl-C, and changes nothing in it
but the daemon's own folder `.cueloop/cache/cueloopd`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio

from cueloop_client import connect
from cueloop_client.api import Client, Subscription
from cueloop_client.failures import Failure
from cueloop_protocol.codes import RpcError
from cueloop_protocol.documents.envelope import ConfigResolved, Event, QueueSnapshot, ResumeDecision, Warned
from cueloop_protocol.notifications import EventNotification, GapNotification
from cueloop_protocol.place import read_locator
from cueloop_protocol.roots import RootError, find_root

TASK = "RQ-0001"
LIMIT = timedelta(hours=24)
ROUNDS = 12
SHOWN_ROUNDS = 3
WARM_CALLS = 20
BOLD, DIM, PLAIN = ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else ("", "", "")


def say(text: str = "") -> None:
    """One line, at once."""
    print(text, flush=True)


def stamp(moment: datetime) -> str:
    """A time as session and queue files have it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


class Sample:
    """The sample repository: git, a queue of two tasks, and a session that a crash left behind."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.session = root / ".cueloop/cache/session.jsonc"
        self.queue = root / ".cueloop/queue.jsonc"

    def lay_out(self, last_sign_of_life: datetime) -> None:
        """Create everything. The session was written last at `last_sign_of_life`."""
        self.session.parent.mkdir(parents=True)
        (self.root / ".gitignore").write_text(".cueloop/cache/\n.cueloop/lock/\n")
        (self.root / "README.md").write_text("A sample repository.\n")
        self.queue.write_text(self.queue_text("doing"))
        git = ["git", "-c", "user.name=sample", "-c", "user.email=sample@example.com", "-c", "commit.gpgsign=false"]
        for arguments in (["init", "-q", "."], ["add", "-A"], ["commit", "-q", "-m", "Sample"]):
            subprocess.run([*git, *arguments], cwd=self.root, check=True, capture_output=True)
        self.session.write_text(self.session_text(last_sign_of_life, phase=2))

    def queue_text(self, status: str) -> str:
        """The queue, with the first task in this status."""
        now = stamp(datetime.now(UTC))
        tasks = [
            {"id": TASK, "status": status, "title": "Teach the parser comments", "created_at": now, "updated_at": now},
            {"id": "RQ-0002", "status": "todo", "title": "Write it down", "created_at": now, "updated_at": now},
        ]
        if status == "done":
            tasks[0]["completed_at"] = now
        return json.dumps({"version": 1, "tasks": tasks}, indent=2) + "\n"

    def session_text(self, last_sign_of_life: datetime, phase: int) -> str:
        """The session file as an interrupted loop leaves it."""
        session = {
            "version": 1,
            "session_id": "550e8400-e29b-41d4-a716-446655440000",
            "task_id": TASK,
            "run_started_at": stamp(last_sign_of_life - timedelta(minutes=20)),
            "last_updated_at": stamp(last_sign_of_life),
            "iterations_planned": 2,
            "iterations_completed": 1,
            "current_phase": phase,
            "runner": "claude",
            "model": "sonnet",
            "tasks_completed_in_loop": 1,
            "max_tasks": 10,
        }
        return json.dumps(session, indent=2) + "\n"

    def put(self, path: Path, text: str) -> float:
        """Replace a file the way careful programs do; the moment of the rename on the monotonic clock."""
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(text)
        moment = time.monotonic()
        temporary.rename(path)
        return moment


def is_decision(event: Event) -> bool:
    """Whether this is a decision about the interrupted session."""
    return isinstance(event, ResumeDecision)


class View:
    """Prints what is pushed, each with its delay after what caused it (seconds on the monotonic clock)."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self.delays: list[float] = []

    async def show_next(self, cause: float, is_awaited: Callable[[Event], bool] = is_decision, *, quiet: bool = False) -> None:
        """Wait for the next event that is awaited (a decision, unless said otherwise), at most five seconds, and print it.

        `quiet`: it is measured only. Raises TimeoutError.
        """
        with anyio.fail_after(5):
            while True:
                note = await anext(self._subscription)
                if isinstance(note, EventNotification) and is_awaited(note.event):
                    delay = time.monotonic() - cause
                    if not quiet:
                        show(note.event, delay)
                    self.delays.append(delay)
                    return

    async def show_all(self) -> None:
        """Print everything that comes, until cancelled."""
        async for note in self._subscription:
            if isinstance(note, EventNotification):
                show(note.event, None)
            elif isinstance(note, GapNotification):
                say(f"  (nothing is known between {note.from_} and {note.to})")


def show(event: Event, delay: float | None) -> None:
    """One event in one or two lines."""
    after = "" if delay is None else f"  {DIM}{delay * 1000:.1f} ms after the change{PLAIN}"
    match event:
        case ResumeDecision(payload=decision):
            say(f"  {BOLD}{decision.status}{PLAIN} ({decision.reason}){after}")
            say(f"    {decision.message} {decision.detail}")
        case Warned(message=message):
            say(f"  warning: {message}{after}")
        case ConfigResolved():
            say(f"  the configuration document changed{after}")
        case QueueSnapshot():
            say(f"  the queue changed{after}")
        case _:
            say(f"  {event.kind}{after}")


def has_no_preview(event: Event) -> bool:
    """Whether this is the document of a repository without an interrupted session."""
    return isinstance(event, ConfigResolved) and event.payload.config.resume_preview is None


async def timed_preview(client: Client) -> tuple[dict[str, Any], float]:
    """The document, and the milliseconds it took to ask for it. Raises RpcError for files that cannot be used."""
    began = time.perf_counter()
    result: dict[str, Any] = await client.call("config.resolve")
    return result["document"], (time.perf_counter() - began) * 1000


async def show_preview(client: Client) -> None:
    """What the next run would do, and how long it took to ask: at first, and when the daemon has it at hand."""
    document, first = await timed_preview(client)
    warm = statistics.median([(await timed_preview(client))[1] for _ in range(WARM_CALLS)])
    safety = document["safety"]
    say(f"preview (asked first {first:.1f} ms, then {warm:.2f} ms): {document['paths']['repo_root']}")
    say(f"  trusted {safety['repo_trusted']}, dirty {safety['dirty_repo']}, runner {document['config']['agent']['runner']}")
    decision = document.get("resume_preview")
    if decision is None:
        say("  no interrupted session: the next run starts fresh")
    else:
        say(f"  {BOLD}{decision['status']}{PLAIN} ({decision['reason']})")
        say(f"    {decision['message']} {decision['detail']}")


async def tell_the_story(sample: Sample, client: Client, times_out_at: float) -> None:
    """The life of an interrupted session, told by what the daemon pushes."""
    await show_preview(client)
    async with client.subscribe() as subscription:
        view = View(subscription)
        now = datetime.now(UTC)
        say("\nno file is touched; the session passes its limit of 24 hours:")
        await view.show_next(times_out_at)
        say("\nthe task is finished by somebody else:")
        await view.show_next(sample.put(sample.queue, sample.queue_text("done")))
        say("\nthe task is taken up again, and its session is fresh:")
        sample.put(sample.session, sample.session_text(now, phase=2))
        await view.show_next(sample.put(sample.queue, sample.queue_text("doing")))
        say("\nthe session file is damaged (believed when it has stood for 0.3 s: it could be half-written):")
        await view.show_next(sample.put(sample.session, '{"version": 1, "task_id": "RQ-00'))
        say("\nit is repaired:")
        await view.show_next(sample.put(sample.session, sample.session_text(now, phase=2)))
        say(f"\nan agent works on, {ROUNDS} updates in a row:")
        for number in range(ROUNDS):
            moment = sample.put(sample.session, sample.session_text(now, phase=(1, 3)[number % 2]))
            await view.show_next(moment, quiet=number >= SHOWN_ROUNDS)
        say(f"  … and {ROUNDS - SHOWN_ROUNDS} more")
        say("\nthe session is gone; with nothing to decide there is only a new document:")
        moment = time.monotonic()
        sample.session.unlink()
        await view.show_next(moment, has_no_preview)
        middle = statistics.median(view.delays) * 1000
        say(f"\n{len(view.delays)} decisions and documents pushed, median {middle:.1f} ms from the change to this screen")


def sample_in(folder: str) -> Sample:
    """The sample in this folder, by its path without links, as the daemon names it."""
    return Sample(Path(os.path.realpath(folder)))


async def sample_story() -> None:
    """Lay the sample out, tell its story, and leave nothing behind."""
    with tempfile.TemporaryDirectory(prefix="cueloop-sample-", ignore_cleanup_errors=True) as folder:
        sample = sample_in(folder)
        root = sample.root
        wait = timedelta(seconds=3)
        last_sign_of_life = datetime.now(UTC) - LIMIT + wait
        sample.lay_out(last_sign_of_life)
        say(f"a sample repository is in {root}; starting its daemon")
        async with connect(str(root)) as client:
            left = (last_sign_of_life + LIMIT - datetime.now(UTC)).total_seconds()
            try:
                await tell_the_story(sample, client, time.monotonic() + left)
            finally:
                with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                    await client.call("daemon.shutdown")
                    await anyio.to_thread.run_sync(await_daemon_end, str(root))
        say("the daemon is stopped and the sample removed")


def await_daemon_end(root: str) -> None:
    """Return when the repository's daemon has withdrawn its locator and let its lock go."""
    import fcntl

    with open(Path(root, ".cueloop/cache/cueloopd/lock"), "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)


async def real_view(repository: str) -> None:
    """The preview and all that is pushed, of a real repository, until Ctrl-C. A daemon that was started for this is stopped."""
    root = find_root(repository)
    was_running = read_locator(root, os.getuid()) is not None
    async with connect(root) as client:
        try:
            try:
                await show_preview(client)
            except RpcError as exc:
                say(f"no preview: {plain(exc)}")
            say(f"\nwatching; change something in {root.path}/.cueloop, or press Ctrl-C")
            async with client.subscribe() as subscription:
                await View(subscription).show_all()
        finally:
            if not was_running:
                with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                    await stop_if_alone(client)


async def stop_if_alone(client: Client) -> None:
    """Stop the daemon, unless somebody else has come to use it or a run is under way."""
    for _ in range(10):  # our own subscription counts until the daemon has seen its end
        if (await client.call("daemon.status"))["connections"] == 1:
            with contextlib.suppress(RpcError):
                await client.call("daemon.shutdown")
            return
        await anyio.sleep(0.05)
    say("the daemon goes on: somebody else uses it")


def plain(error: RpcError) -> str:
    """What is wrong and what to do, in one or two lines."""
    detail = error.document.get("detail")
    return f"{error.message}\n  {detail}" if detail else error.message


def main() -> int:
    """Exit code 0 after the story or Ctrl-C, 1 where the daemon cannot be used."""
    parser = argparse.ArgumentParser(description="The daemon at work, on a sample repository or on a real one.")
    parser.add_argument("--repo", metavar="PATH", help="a real repository; nothing in it is changed")
    asked = parser.parse_args()
    try:
        if asked.repo is None:
            anyio.run(sample_story)
        else:
            anyio.run(real_view, os.path.expanduser(asked.repo))
    except KeyboardInterrupt:
        say()
    except TimeoutError:
        print("demo: nothing was pushed within 5 s; the daemon's log is in .cueloop/cache/cueloopd/daemon.log", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as exc:
        print(f"demo: {exc.cmd[0]} failed: {exc.stderr.decode(errors='replace').strip()}", file=sys.stderr)
        return 1
    except RpcError as exc:
        print(f"demo: {plain(exc)}", file=sys.stderr)
        return 1
    except Failure as exc:
        print(f"demo: {exc.message}" + (f"\n  {exc.detail}" if exc.detail else ""), file=sys.stderr)
        return 1
    except (RootError, OSError) as exc:
        print(f"demo: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
