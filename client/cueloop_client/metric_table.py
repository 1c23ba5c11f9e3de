"""The metrics that `daemon status --prometheus` prints; `docs/metrics.md` has one line for each. Standard library only."""

from __future__ import annotations

from cueloop_protocol.frozen import Frozen


class Metric(Frozen):
    """One metric. `kind` as Prometheus has it; `path` leads to the value in the result of `daemon.status` (seconds, bytes, counts).

    With a `label`, the value is a map from that label's values to numbers. With `texts`, the sample is 1, and its labels are these
    texts of the status.
    """

    name: str
    kind: str
    help: str
    path: tuple[str, ...]
    label: str | None = None
    texts: tuple[str, ...] = ()


METRICS: tuple[Metric, ...] = (
    Metric("cueloopd_up", "gauge", "Whether the daemon of the repository runs and answers.", ("up",)),
    Metric("cueloopd_info", "gauge", "Which daemon it is; always 1.", (), texts=("daemon_version", "protocol", "state")),
    Metric("cueloopd_uptime_seconds", "gauge", "Seconds since the daemon started, without sleep.", ("uptime_seconds",)),
    Metric("cueloopd_resident_memory_bytes", "gauge", "Bytes of the daemon in memory.", ("memory_bytes",)),
    Metric("cueloopd_open_descriptors", "gauge", "Files, sockets and pipes that are open.", ("metrics", "open_descriptors")),
    Metric(
        "cueloopd_loop_lag_max_seconds",
        "gauge",
        "The longest that the event loop was late since the start, looked at every five seconds.",
        ("metrics", "loop_lag_max_seconds"),
    ),
    Metric("cueloopd_connections", "gauge", "Connections now.", ("connections",)),
    Metric("cueloopd_connections_accepted_total", "counter", "Connections that were let in.", ("counters", "connections_total")),
    Metric(
        "cueloopd_connections_refused_total",
        "counter",
        "Connections that were turned away or ended for a limit.",
        ("counters", "connections_refused"),
    ),
    Metric("cueloopd_requests_total", "counter", "Requests, by method.", ("metrics", "requests"), "method"),
    Metric("cueloopd_errors_total", "counter", "Answers that were errors, by name.", ("metrics", "errors"), "name"),
    Metric("cueloopd_subscribers", "gauge", "Subscriptions to events now.", ("subscribers",)),
    Metric(
        "cueloopd_subscribers_lagging", "gauge", "Subscriptions that read behind the end of the log.", ("counters", "lagging")
    ),
    Metric("cueloopd_gaps_total", "counter", "Gaps that subscribers were told of.", ("counters", "gaps_sent")),
    Metric("cueloopd_events_published_total", "counter", "Events that were published.", ("metrics", "events_published")),
    Metric("cueloopd_commits_total", "counter", "Groups of events that were committed.", ("metrics", "commits")),
    Metric("cueloopd_event_log_bytes", "gauge", "Bytes of the event log.", ("events", "bytes")),
    Metric("cueloopd_event_log_degraded", "gauge", "Whether events are kept in memory only.", ("events", "degraded")),
    Metric("cueloopd_watcher_hints_total", "counter", "Hints that files may have changed.", ("metrics", "watcher_hints")),
    Metric("cueloopd_watcher_degraded", "gauge", "Whether changes are noticed by polling only.", ("watcher", "degraded")),
    Metric("cueloopd_snapshots", "gauge", "Callers for whom a snapshot is kept.", ("snapshots",)),
    Metric("cueloopd_snapshot_refreshes_total", "counter", "Times that files were read anew.", ("metrics", "snapshot_refreshes")),
    Metric("cueloopd_runs_total", "counter", "Runs that ended under this daemon, by outcome.", ("metrics", "runs"), "outcome"),
    Metric("cueloopd_runs_adopted_total", "counter", "Runs taken over from another daemon.", ("metrics", "runs_adopted")),
)
LATENCY = Metric(
    "cueloopd_request_duration_seconds", "histogram", "Seconds from a request to its answer.", ("metrics", "latency")
)
