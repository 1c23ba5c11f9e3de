"""The bounds of the server, each with what happens at it. All of them end in an answer, a pause or a close, never in growth."""

from __future__ import annotations

from cueloop_protocol.framing import MAX_FRAME
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Times are seconds, sizes bytes."""

    connections: int = 2048
    """One more is answered with `limit_exceeded` and closed."""
    unspoken: int = 64
    """Connections without a first whole frame. A newcomer makes the oldest one leave, once that has had its `patience`."""
    speak_within: float = 5.0
    """A connection without a first whole frame by then is closed with a reason."""
    patience: float = 0.1
    """What every new connection has for its first frame, however many others wait. A burst of callers that speak loses nobody."""
    frame: int = MAX_FRAME
    """A larger one is answered and ends the connection."""
    big_frame: int = 256 * 1024
    """A larger one is read in a worker thread, so that the loop goes on."""
    in_flight: int = 64
    """Requests of one connection that wait for something. At it the connection is not read from."""
    queued: int = 1024 * 1024
    """Unsent bytes of one connection. Above it no further answer is made and the connection is not read from."""
    batch_items: int = 10_000
    """A longer batch is refused whole."""
    batch_bytes: int = 64 * 1024 * 1024
    """Bytes of a batch's joint answer. Calls after that are not made; each is answered with `limit_exceeded`."""
    turn: int = 32
    """Requests of one connection answered in a row before others have their turn: 32 × 0.1 ms is far below a noticeable stall."""
    linger: float = 1.0
    """After a reason was told, what the peer still sends is read and dropped for so long, so that it gets to read the reason."""
    accept_retry: float = 0.1
    """Pause after the system had no descriptor for a new connection. Ends early when a connection closes."""
    grace: float = 5.0
    """After `Server.close`, time for the calls that are under way. Then they are cancelled."""
    farewell: float = 1.0
    """After that: time for what is queued to be sent. A peer that does not read delays the end no longer."""
    handover_grace: float = 1.0
    handover_farewell: float = 0.2
    """Both, when a successor takes the socket over: who waits in its queue waits no longer than this."""
    overdue: float = 2.0
    """After the grace, farewell included: time until the server reports that it cannot end by itself."""
