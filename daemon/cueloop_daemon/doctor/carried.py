"""Whether a run of this repository still has its shim, and with it whether a queue lock of ours is really held."""

from __future__ import annotations

import json
import os
from dataclasses import replace

from cueloop_daemon.core.model import QueueLock
from cueloop_daemon.doctor.reading import beginning
from cueloop_daemon.runs.shim.holder import judge_with
from cueloop_daemon.shim.spec import SHIM_FILE
from cueloop_daemon.shim.wire import RUNS
from cueloop_protocol.identity import is_same_process
from cueloop_protocol.roots import Root

_LIMIT = 64 * 1024


def is_carried(root: Root, run_id: str) -> bool:
    """Whether the shim that wrote itself down in the run's folder lives. Its lock is not tried: that could turn a new one away."""
    try:
        raw: object = json.loads(beginning(root.join(RUNS, run_id, SHIM_FILE), _LIMIT, follow=False))
    except (ValueError, RecursionError):
        return False
    if not isinstance(raw, dict):
        return False
    pid, start, boot = (raw.get(key) for key in ("pid", "start", "boot"))
    return isinstance(pid, int) and isinstance(start, str) and isinstance(boot, str) and is_same_process(pid, start, boot)


def really_held(root: Root, lock: QueueLock | None) -> QueueLock | None:
    """The lock as a run judges it: one of a run of ours whose shim is gone is nobody's, whatever has its pid now."""
    if lock is None or not lock.live:
        return lock
    owner = beginning(root.join(".cueloop", "lock", "owner"), _LIMIT, follow=False)

    def is_alive(run_id: str) -> bool | None:
        return is_carried(root, run_id) if os.path.isdir(root.join(RUNS, run_id)) else None

    return lock if not owner or judge_with(lambda: (), is_alive)(owner, ()).live else replace(lock, live=False)
