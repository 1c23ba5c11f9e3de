"""What is tried again, how often and after how long (runners.md, "Retries"). Pure."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Literal

from cueloop_protocol.documents.config import RunnerRetry
from cueloop_protocol.values import dataclass

MOST_SIGNALS = 5
"""Deaths by a signal that was not ours are continued at most so often."""

MOST_IDLE = 1
"""An agent that said nothing for too long is continued once."""

MOST_GATES = 10
SAME_GATES = 3
"""The CI gate is run at most ten times, and three identical failures in a row stop it."""

LIMIT_HOLD = 60.0
"""Seconds between attempts while a usage limit holds and nothing says how long."""

Verdict = Literal["succeeded", "gone", "failed", "login", "missing", "unprompted", "idle", "killed", "overrun", "stopped"]
"""What became of an invocation. `idle` and `overrun`: a limit of ours ended it; `killed`: somebody's signal; `stopped`: the run's end.

`login` and `missing`: it could not work at all; `unprompted`: there was nothing to tell it, since a prompt is bad.
"""

Move = Literal["done", "begin_anew", "go_on", "try_again", "give_up"]
"""`begin_anew`: in a fresh conversation. `go_on`: in the same one, told of the interruption. `try_again`: the same thing, later."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What has gone wrong so far with one thing that is said to an agent."""

    failures: int = 0
    signals: int = 0
    idle: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """An invocation that has ended. `was_continued`: in a conversation that was there before."""

    verdict: Verdict
    was_continued: bool = False
    is_retryable: bool = False
    is_limit: bool = False


def next_move(seen: Seen, tally: Tally, attempts: int) -> tuple[Move, Tally]:
    """What follows, with the tally from now on. `attempts`: how often an invocation is made in all (`most_attempts`)."""
    match seen.verdict:
        case "succeeded":
            return "done", tally
        case "gone" if seen.was_continued:
            return "begin_anew", tally
        case "idle" if tally.idle < MOST_IDLE:
            return "go_on", replace(tally, idle=tally.idle + 1)
        case "killed" if tally.signals < MOST_SIGNALS:
            return "go_on", replace(tally, signals=tally.signals + 1)
        case "failed" if seen.is_retryable and tally.failures + 1 < attempts:
            return "try_again", replace(tally, failures=tally.failures + 1)
        case _:
            return "give_up", tally


def is_hard(seen: Seen) -> bool:
    """Whether the agent itself failed, so that its work is in question; not so for interruptions, limits, and what never began."""
    return seen.verdict in ("failed", "gone") and not (seen.is_retryable or seen.is_limit)


def most_attempts(configured: int | None) -> int:
    """How often an invocation is made in all."""
    return 3 if configured is None else max(1, configured)


def hold_seconds(retry: RunnerRetry, failures: int, share: float, *, is_limit: bool) -> float:
    """How long to wait after the n-th failure (from 1). `share` is a random number from 0 to 1."""
    base = (1000 if retry.base_backoff_ms is None else retry.base_backoff_ms) / 1000
    factor = 2.0 if retry.multiplier is None else retry.multiplier
    most = (30000 if retry.max_backoff_ms is None else retry.max_backoff_ms) / 1000
    jitter = 0.2 if retry.jitter_ratio is None else retry.jitter_ratio
    plain = most
    with suppress(OverflowError):  # far beyond any limit
        plain = min(base * factor ** (failures - 1), most)
    if is_limit:
        plain = max(plain, LIMIT_HOLD)
    return max(0.0, plain * (1 + jitter * (2 * share - 1)))


def fingerprint(exit_code: int | None, output: str) -> str:
    """Equal for failures of a gate that say the same."""
    return sha256(f"{exit_code}\0{output}".encode("utf-8", "replace")).hexdigest()[:16]


def is_stuck(fingerprints: tuple[str, ...]) -> bool:
    """Whether the gate's last failures were all the same."""
    last = fingerprints[-SAME_GATES:]
    return len(last) == SAME_GATES and len(set(last)) == 1
