"""Following a run to its end: its events told, signals obeyed, questions asked, a lost daemon started again.

Standard library only; everything happens in one thread that waits for several descriptors.
"""

from __future__ import annotations

import select

from cueloop_client.failures import BadAnswer, Lost, NoDaemon, Silent, StartFailed, Unreachable, Unreached
from cueloop_client.far import pause_before
from cueloop_client.fast import change
from cueloop_client.run_feed import Feed, Pending
from cueloop_client.run_tell import interruption
from cueloop_client.shapes import member, objects, text
from cueloop_protocol.codes import NO_SUCH_RUN, SHUTTING_DOWN, RpcError
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from cueloop_client.context import Context
    from cueloop_client.run_feed import Note
    from cueloop_client.run_signals import Signals
    from cueloop_client.run_tell import Teller

    class Desk(Protocol):
        """Where the questions of a run are put to a person."""

        def ask(self, question: Mapping[str, Any]) -> None:
            """A question is open."""

        def settle(self, question_id: str, choice: str, by: str) -> None:
            """A question is settled, here or elsewhere."""

        def fileno(self) -> int | None:
            """The descriptor that a person types at; None while there is nothing to ask."""

        def typed(self) -> Mapping[str, Any] | None:
            """Take what was typed; the params of `run.answer` if that is an answer."""

    class Manners(Protocol):
        """What signals mean."""

        def on_signal(self, number: int) -> str | None:
            """`stop`, `cancel` or `leave`; None: nothing more than was done. Says what it does."""


PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)
"""Seconds before the first, second, … attempt to connect again; the last one repeats."""
STARTS = 6
"""After so many attempts a daemon that cannot be started, or not be reached a first time, ends the following; the run goes on."""
TRIES = 3
"""How often a request is sent whose connection was lost. Stop, cancel and answer do nothing the second time."""


class Ended(Frozen):
    """The run is over."""

    summary: Mapping[str, Any]
    error: Mapping[str, Any] | None


class Left(Frozen):
    """The run goes on without us, because this signal said so."""

    signal: int


class Follower:
    """One run, from the feed's cursor to its end."""

    def __init__(
        self,
        context: Context,
        run_id: str,
        feed: Feed,
        teller: Teller,
        signals: Signals,
        manners: Manners,
        desk: Desk | None = None,
    ) -> None:
        self._context = context
        self._run_id = run_id
        self._feed = feed
        self._teller = teller
        self._signals = signals
        self._manners = manners
        self._desk = desk
        self._pending: list[tuple[Pending, Mapping[str, Any], int]] = []
        self._over: Ended | Left | None = None
        self._attempt = 0
        self._was_open = False

    def follow(self, *, look_first: bool = False) -> Ended | Left:
        """Return when the run is over or left; `look_first`: it may be over already, or ask something.

        Raises BrokenPipeError, and what `Feed` does when the daemon cannot be had again.
        """
        try:
            if look_first:
                self.look()
            if self._feed.is_open and self._over is None:
                self._was_open = True
                self._read()  # what came with the answer is in no descriptor any more
            while self._over is None:
                self._obey()
                if self._over is None:
                    self._turn() if self._feed.is_open else self._connect()
            return self._over
        finally:
            self._feed.close()
            for pending, _, _ in self._pending:
                pending.close()

    def end(self, summary: Mapping[str, Any], error: Mapping[str, Any] | None) -> None:
        """The run is known to be over."""
        if self._over is None:
            self._over = Ended(summary, error)
            self._teller.end(summary, error)

    def request(self, method: str, params: Mapping[str, Any], tries: int = TRIES) -> None:
        """Ask the daemon, which is started if need be, and go on; the answer is looked at when it comes."""
        try:
            self._pending.append((Pending(self._context, method, params), params, tries))
        except (Lost, NoDaemon, Silent, StartFailed, Unreachable) as exc:
            self._teller.aside(f"{exc.message} {exc.detail or ''}".rstrip())

    def _turn(self) -> None:
        """Wait until something comes, and do what it asks for."""
        desk = self._desk.fileno() if self._desk is not None else None
        waiting: dict[int, object] = {self._feed.fileno(): self._feed, self._signals.fileno(): self._signals}
        waiting |= {entry[0].fileno(): entry for entry in self._pending}
        if desk is not None:
            waiting[desk] = self._desk
        ready = [waiting[fd] for fd in poll(waiting, None)]
        for entry in [entry for entry in self._pending if entry in ready]:
            self._answered(*entry)
        if self._feed in ready:
            self._read()
        if self._desk is not None and self._desk in ready and self._over is None:
            typed = self._desk.typed()
            if typed is not None:
                self.request("run.answer", typed)

    def _read(self) -> None:
        for note in self._feed.notes():
            self._hear(note)
            if self._over is not None:
                return
        if not self._feed.is_open:
            self._teller.aside(interruption(self._feed.reason))

    def _hear(self, note: Note) -> None:
        params = note.params
        if note.method == "gap":
            self._gap(params)
        elif text(params.get("run_id")) != self._run_id:
            return
        elif note.method == "event":
            self._teller.event(member(params, "event"))
        elif note.method == "run.finished":
            error = params.get("error")
            self.end(member(params, "summary"), error if isinstance(error, dict) else None)
        elif self._desk is not None and note.method == "question":
            self._desk.ask(member(params, "question"))
        elif self._desk is not None and note.method == "question.resolved":
            self._desk.settle(*(text(params.get(name)) for name in ("question_id", "choice", "by")))

    def _gap(self, params: Mapping[str, Any]) -> None:
        """Say it, and look whether the run ended in what was lost."""
        self._teller.gap(text(params.get("from")), text(params.get("to")))
        self.look()

    def look(self) -> None:
        """Ask how the run stands; ends if it is over. Raises RpcError, and what a call raises."""
        record = member(change(self._context, "run.get", {"run_id": self._run_id}), "run")
        summary, error, questions = record.get("summary"), record.get("error"), record.get("questions")
        if isinstance(summary, dict):
            self.end(summary, error if isinstance(error, dict) else None)
        elif self._desk is not None:
            for question in objects(questions):
                self._desk.ask(question)

    def _connect(self) -> None:
        """The first connection, or one in place of a lost one, whose daemon is started unless it was stopped on purpose."""
        if self._attempt or self._was_open:
            pause = pause_before(self._attempt, self._context.root(), PAUSES)
            if poll([self._signals.fileno()], pause):
                return
        self._attempt += 1
        try:
            self._feed.open(start=self._feed.reason != "stopped" or not self._was_open)
        except (Lost, NoDaemon, Silent, StartFailed, Unreached) as exc:
            is_patient = self._was_open and not isinstance(exc, StartFailed)
            if not is_patient and self._attempt >= STARTS:
                raise
            return
        except RpcError as exc:
            if exc.code != SHUTTING_DOWN:
                raise
            self._was_open = True
            return
        self._was_open, self._attempt = True, 0
        self._read()

    def _obey(self) -> None:
        for number in self._signals.take():
            wish = self._manners.on_signal(number)
            if wish == "leave":
                self._over = Left(number)
            elif wish is not None:
                self.request(f"run.{wish}", {"run_id": self._run_id})

    def _answered(self, pending: Pending, params: Mapping[str, Any], tries: int) -> None:
        entry = (pending, params, tries)
        try:
            result = pending.result()
            if result is None:
                return
            if result.get("first") is False:
                self._teller.aside(f"It was answered elsewhere before: {text(result.get('choice'))}.")
        except Lost:
            if tries > 1:
                self._drop(entry)
                self.request(pending.method, params, tries - 1)
                return
            self._teller.aside(f"The daemon did not answer {pending.method}.")
        except BadAnswer as exc:
            self._teller.aside(exc.message)
        except RpcError as exc:
            if exc.code != NO_SUCH_RUN:  # over meanwhile: the feed tells how
                self._teller.aside(f"{exc.document['message']} {exc.document.get('detail') or ''}".rstrip())
        self._drop(entry)

    def _drop(self, entry: tuple[Pending, Mapping[str, Any], int]) -> None:
        entry[0].close()
        if entry in self._pending:
            self._pending.remove(entry)


def poll(descriptors: Any, seconds: float | None) -> list[int]:
    """The descriptors of which something can be read, or whose other side is gone; empty after that many seconds."""
    poller = select.poll()
    for fd in descriptors:
        poller.register(fd, select.POLLIN)
    return [fd for fd, _ in poller.poll(None if seconds is None else seconds * 1000)]
