"""Signals that are waited for beside descriptors."""

from __future__ import annotations

import select
import signal
import threading
from collections.abc import Iterator

import pytest

from cueloop_client.run_signals import Signals

LONG = 10_000
"""Milliseconds that no wait takes."""


@pytest.fixture
def elsewhere() -> Iterator[None]:
    """The system gives INT to another thread than this one, so that no call of this one is interrupted by it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _hit_once(ready: threading.Event) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    ready.wait()
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)


def test_a_signal_ends_a_wait_that_nothing_interrupts(elsewhere: None) -> None:
    with Signals(always=True) as signals:
        poller = select.poll()
        poller.register(signals.fileno(), select.POLLIN)
        for _ in range(20):
            ready = threading.Event()
            thread = threading.Thread(target=_hit_once, args=(ready,))
            thread.start()
            ready.set()
            assert poller.poll(LONG), "the wait ended without the signal"
            thread.join()
            assert signals.take() == [signal.SIGINT]
            assert signals.take() == []


def test_signals_are_given_in_order_and_wake_no_more_once_taken() -> None:
    with Signals(always=True) as signals:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            signal.raise_signal(number)
        assert signals.take() == [signal.SIGTERM, signal.SIGINT, signal.SIGTERM]
        poller = select.poll()
        poller.register(signals.fileno(), select.POLLIN)
        assert poller.poll(0) == []


def test_what_was_before_is_there_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Signals(always=True) as signals:
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) != before
        signals.interrupt(True)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert signal.set_wakeup_fd(-1) == -1
