"""What a daemon has counted and measured since it started. Part of `daemon.status`; `docs/metrics.md` says what each is good for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cueloop_protocol.base import Items, Wire
from cueloop_protocol.shapes import Count

Seconds = Annotated[float, Field(ge=0)]


class Bucket(Wire):
    """How many took at most `le_seconds`; those of the buckets before are among them."""

    le_seconds: Seconds
    count: Count


class Histogram(Wire):
    """How long something took. `count` is of all, also of those slower than the last bucket."""

    buckets: Items[Bucket]
    count: Count
    sum_seconds: Seconds


class Metrics(Wire):
    """Counted since the daemon started, but for `open_descriptors`, which is of now.

    `requests`: by method, those of methods that do not exist as `unknown`; each item of a batch is one. `errors`: answers that were
    errors, by name. `latency`: from reading a request to having its answer. `runs`: runs that ended, by outcome. `runs_adopted`:
    taken over from another daemon. `loop_lag_max_seconds`: the longest that the event loop was late, looked at every five seconds.
    """

    requests: dict[str, Count]
    errors: dict[str, Count]
    latency: Histogram
    events_published: Count
    commits: Count
    watcher_hints: Count
    snapshot_refreshes: Count
    runs: dict[str, Count]
    runs_adopted: Count
    open_descriptors: Count
    loop_lag_max_seconds: Seconds
