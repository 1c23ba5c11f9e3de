"""One subscriber: a position in the log, what it wants, and the connection it is told through."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, get_args

from anyio import CancelScope

from cueloop_daemon.events import wire
from cueloop_daemon.events.model import Filter, Method, Row
from cueloop_daemon.events.sink import Sink
from cueloop_protocol.cursor import Cursor


class State(Enum):
    """Where a subscriber stands. SILENT → LIVE or LAGGING; LIVE ↔ LAGGING; any → GONE, which is final."""

    SILENT = "registered, and told nothing before its reply is out"
    LIVE = "at the end of the log; its `cursor` is not kept up to date"
    LAGGING = "behind the end, at `cursor`, with a pump of its own"
    GONE = "unsubscribed, or its connection is closed"


class Kin(NamedTuple):
    """Subscribers of equal kin get frames that differ in nothing but the subscription's name.

    They have the same filter, the same framing (`empty` is how it frames `{}`), and names of the same length.
    """

    wanted: Filter
    empty: bytes
    length: int


@dataclass(slots=True, eq=False)
class Subscriber:
    """Mutable, owned by the fan-out alone. `pump` ends the task that serves it while it lags."""

    id: str
    sink: Sink
    wanted: Filter
    cursor: Cursor
    state: State = State.SILENT
    pump: CancelScope | None = None
    heads: dict[Method, bytes] = field(init=False)
    kin: Kin = field(init=False)

    def __post_init__(self) -> None:
        self.kin = Kin(self.wanted, self.sink.frame(b"{}"), len(self.id))
        self.heads = {method: wire.head(self.id, method) for method in get_args(Method)}

    def offer(self, method: Method, tail: bytes) -> bool:
        """Hand one notification to the sink; False if it was not taken."""
        return self.sink.offer(self.sink.frame(self.heads[method] + tail))

    def framed(self, method: Method, tail: bytes) -> tuple[bytes, bytes]:
        """What stands before and after the head in the frame of this notification, for this subscriber and all of its kin."""
        body = self.heads[method] + tail
        frame = self.sink.frame(body)
        start = frame.index(body)
        return frame[:start], tail + frame[start + len(body) :]

    def offer_rows(self, rows: tuple[Row, ...], reached: int) -> bool:
        """Hand over the rows up to `reached`, moving the cursor with what was taken; False at the first that was not."""
        for row in rows:
            if not self.offer(row.method, wire.tail(self.cursor.epoch, row)):
                return False
            self.cursor = Cursor(self.cursor.epoch, row.seq)
        self.cursor = Cursor(self.cursor.epoch, reached)
        return True
