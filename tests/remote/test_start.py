"""The start of an ssh, and Ctrl-C in the middle of it."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest

from cueloop_client.remote import ssh

STARTED: list[subprocess.Popen[bytes]] = []


class Interrupted(subprocess.Popen[bytes]):
    """A start at whose end Ctrl-C is pressed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        STARTED.append(self)
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_while_it_starts_leaves_no_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would stay at the terminal and read what is typed there, as it minds no Ctrl-C."""
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    monkeypatch.setattr(ssh, "END_SECONDS", 0.05)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        ssh.start(["/bin/sleep", "600"], dict(os.environ), None)
    assert STARTED.pop().returncode == -signal.SIGTERM
    assert signal.getsignal(signal.SIGINT) is before
