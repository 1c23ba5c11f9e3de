"""What is tried again, how often and after how long (runners.md, "Retries"). Pure."""

from __future__ import annotations

from hashlib import sha256

from cueloop_protocol.documents.config import RunnerRetry

MOST_SIGNALS = 5
"""Deaths by a signal that was not ours are continued at most so often."""

MOST_GATES = 10
SAME_GATES = 3
"""The CI gate is run at most ten times, and three identical failures in a row stop it."""

LIMIT_HOLD = 60.0
"""Seconds between attempts while a usage limit holds and nothing says how long."""


def most_attempts(configured: int | None) -> int:
    """How often an invocation is made in all."""
    return 3 if configured is None else max(1, configured)


def hold_seconds(retry: RunnerRetry, failures: int, share: float, *, is_limit: bool) -> float:
    """How long to wait after the n-th failure (from 1). `share` is a random number from 0 to 1."""
    base = (1000 if retry.base_backoff_ms is None else retry.base_backoff_ms) / 1000
    factor = 2.0 if retry.multiplier is None else retry.multiplier
    most = (30000 if retry.max_backoff_ms is None else retry.max_backoff_ms) / 1000
    jitter = 0.2 if retry.jitter_ratio is None else retry.jitter_ratio
    plain = min(base * factor ** (failures - 1), most)
    if is_limit:
        plain = max(plain, LIMIT_HOLD)
    return max(0.0, plain * (1 + jitter * (2 * share - 1)))


def fingerprint(exit_code: int | None, output: str) -> str:
    """Equal for failures of a gate that say the same."""
    return sha256(f"{exit_code}\0{output}".encode()).hexdigest()[:16]
