"""What a journal has to write with its next commit."""

from __future__ import annotations

from cueloop_daemon.runs.records import Batch, Checkpoint, Conversation, Out, Over, Record


class Pending:
    """Collected from the loop's thread; `take` empties it."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._records: dict[int, Record] = {}
        self._results: list[tuple[int, bytes]] = []
        self._out: list[Out] = []
        self.conversations: list[Conversation] = []
        self.view: bytes | None = None
        self.restart: int | None = None
        self.checkpoint: Checkpoint | None = None
        self.over: Over | None = None

    def add(self, record: Record) -> None:
        """A new entry."""
        self._records[record.idx] = record

    def result(self, idx: int, made: bytes) -> None:
        """What became of a step, whose intent is on record."""
        self._results.append((idx, made))

    def say(self, out: Out) -> None:
        """An event, after those that wait already."""
        self._out.append(out)

    def end_scope(self, checkpoint: Checkpoint) -> None:
        """What the scope has on record is forgotten with this; what it would have had need not be written any more."""
        self._records.clear()
        self._results.clear()
        self.checkpoint = checkpoint

    def take(self) -> Batch:
        """Everything, as one batch."""
        batch = Batch(
            self.checkpoint,
            tuple(self._records.values()),
            tuple(self._results),
            tuple(self._out),
            tuple(self.conversations),
            self.view,
            self.restart,
            self.over,
        )
        self._clear()
        return batch
