"""What agents write, told to subscribers: at most once in all lives, and no faster than people and sockets can take.

The whole output is in the run's folder. A mark in the event log says how far each child's stream was told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pydantic_core import to_json

from cueloop_daemon.events.hub import Hub, HubClosed, Overloaded
from cueloop_daemon.events.model import Mark, NewEvent
from cueloop_daemon.runs.types import Stream
from cueloop_protocol.documents.envelope import RunnerOutput, TextPayload, event_bytes

PER_SECOND = 256 * 1024
BURST = 1024 * 1024
"""Characters of text that are told of a run; what is more is left out, and said to be."""

_OFFSET_BITS, _PIECE_BITS = 35, 6
_MOST_OFFSET = (1 << _OFFSET_BITS) - 1
_MOST_PIECES = (1 << _PIECE_BITS) - 1


def position(number: int, offset: int, piece: int) -> int:
    """The place of a told piece of output as one number that rises: child, offset behind it, piece within that."""
    return ((number << _OFFSET_BITS | min(offset, _MOST_OFFSET)) << _PIECE_BITS) | min(piece, _MOST_PIECES)


def told_upto(mark: int, number: int) -> int:
    """How much of child `number` a mark says was told; all of it, if a later child was heard by then."""
    if mark < 0:
        return 0
    child, offset = divmod(mark >> _PIECE_BITS, 1 << _OFFSET_BITS)
    return offset if child == number else 0 if child < number else _MOST_OFFSET


class OutputTeller:
    """The output of one run. `monotonic` gives seconds, `revision` that of the run's view."""

    def __init__(self, run_id: str, hub: Hub, monotonic: Callable[[], float], revision: Callable[[], int]) -> None:
        self._run_id = run_id
        self._hub = hub
        self._monotonic = monotonic
        self._revision = revision
        self._allowed = float(BURST)
        self._counted_at = monotonic()
        self._last: dict[Stream, tuple[int, int, int]] = {}

    def told(self, number: int, stream: Stream) -> int:
        """How much of this stream was told, in bytes of it."""
        return told_upto(self._hub.mark(self._run_id, stream), number)

    def tell(self, number: int, stream: Stream, offset: int, event: RunnerOutput) -> None:
        """Say a piece that ends at `offset`. Of a stream, pieces come in order; several may end at the same place."""
        child, at, piece = self._last.get(stream, (number, -1, 0))
        piece = piece + 1 if (child, at) == (number, offset) else 0
        self._last[stream] = (number, offset, piece)
        mark = Mark(self._run_id, stream, position(number, offset, piece))
        if mark.position > self._hub.mark(self._run_id, stream):
            self._publish(self._measured(event), mark)

    def _measured(self, event: RunnerOutput) -> RunnerOutput:
        now = self._monotonic()
        self._allowed = min(BURST, self._allowed + (now - self._counted_at) * PER_SECOND)
        self._counted_at = now
        size = len(event.payload.text)
        if size <= self._allowed:
            self._allowed -= size
            return event
        return _shortened(event, size)

    def _publish(self, event: RunnerOutput, mark: Mark) -> None:
        for one in (event, _shortened(event, len(event.payload.text))):
            params = b'{"revision":%d,"run_id":%b,"origin":"run","event":%b}' % (
                self._revision(),
                to_json(self._run_id),
                event_bytes(one),
            )
            try:
                self._hub.publish(NewEvent("event", "runner_output", self._run_id, None, params, mark))
                return
            except Overloaded:
                continue  # a disk that takes nothing: less is said
            except HubClosed:
                return  # the next life tells it


def _shortened(event: RunnerOutput, size: int) -> RunnerOutput:
    text = f"[{size} characters left out here; `run.output` has them]\n"
    return event.model_copy(update={"payload": TextPayload(text=text)})


class ReadsOutput(Protocol):
    """What is needed of a run's folder."""

    def read(self, number: int, stream: Stream, offset: int, limit: int) -> tuple[int, bytes]: ...


def read_in_step(folder: ReadsOutput, told: int, number: int, stream: Stream, offset: int, limit: int) -> tuple[int, bytes]:
    """Read so that no piece crosses the place up to which it was told: a later life tells what follows, and no more."""
    if offset < told:
        limit = min(limit, told - offset)
    return folder.read(number, stream, offset, limit)
