"""Counting requests, errors and the time that answers took: a dictionary and a list, nothing that a request would feel."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from cueloop_protocol.codes import RpcError
from cueloop_protocol.metrics import Bucket, Histogram

EDGES = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Upper edges of the buckets, in seconds: around the tenth of a millisecond of a preview, the promise of 20 ms, and waits."""

UNKNOWN = "unknown"


class Traffic:
    """What one server was asked. Touched from the loop alone; a method that is not in `methods` counts as `unknown`."""

    def __init__(self, methods: Iterable[str] = ()) -> None:
        self.requests = dict.fromkeys((*methods, UNKNOWN), 0)
        self.errors: dict[str, int] = {}
        self._counts = [0] * (len(EDGES) + 1)
        self._seconds = 0.0

    def done(self, method: str, seconds: float) -> None:
        """A request came, and was answered at once: `asked` and `answered` in one, for the many."""
        if method in self.requests:
            self.requests[method] += 1
        else:
            self.requests[UNKNOWN] += 1
        self._counts[bisect_left(EDGES, seconds)] += 1
        self._seconds += seconds

    def asked(self, method: str) -> None:
        """A request came."""
        requests = self.requests
        requests[method if method in requests else UNKNOWN] += 1

    def answered(self, seconds: float) -> None:
        """The answer to one is there, after so long."""
        self._counts[bisect_left(EDGES, seconds)] += 1
        self._seconds += seconds

    def failed(self, error: RpcError) -> None:
        """An answer, or the end of a connection, is this error."""
        self.errors[error.name] = self.errors.get(error.name, 0) + 1

    def latency(self) -> Histogram:
        """How long the answers took."""
        buckets, total = [], 0
        for edge, count in zip(EDGES, self._counts, strict=False):
            total += count
            buckets.append(Bucket(le_seconds=edge, count=total))
        return Histogram(buckets=tuple(buckets), count=total + self._counts[-1], sum_seconds=round(max(0.0, self._seconds), 6))
