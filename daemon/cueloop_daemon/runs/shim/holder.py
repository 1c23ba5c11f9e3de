"""Who holds a queue lock that is not ours, and whether it is a dead process's."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable

from cueloop_daemon.runs.types import LockHeld
from cueloop_daemon.store.queue_lock import Kill, Owner, is_live, parse_owner

Judge = Callable[[bytes | None, tuple[str, ...]], LockHeld]
"""From an owner file (None: there is none) and the names in the lock's folder to who has it. May block."""

_RUN = re.compile(r"cueloopd run (?P<run_id>[A-Za-z0-9-]{1,64})", re.ASCII)
_SIDE_FILE = re.compile(r"owner_task_(?P<pid>[0-9]{1,10})_[0-9]+", re.ASCII)


def judge_with(
    own_pids: Callable[[], tuple[int, ...]], is_run_alive: Callable[[str], bool | None], kill: Kill = os.kill
) -> Judge:
    """A judge. `own_pids`: this daemon and its shim, which took no such lock, so that their number in a foreign owner file was
    somebody else's before. `is_run_alive`: whether a run's shim lives; None for a run that is not of this repository.
    """

    def judge(owner_file: bytes | None, names: tuple[str, ...]) -> LockHeld:
        if owner_file is None:
            pids = [int(found["pid"]) for found in map(_SIDE_FILE.fullmatch, names) if found]
            live = [pid for pid in pids if is_live(pid, 0, kill)]
            return LockHeld(next(iter(live + pids), None), None, None, bool(live))
        owner = parse_owner(owner_file)
        return LockHeld(owner.pid, owner.label, owner.started_at, _is_alive(owner))

    def _is_alive(owner: Owner) -> bool:
        found = _RUN.fullmatch(owner.command or "")
        alive = None
        if found:
            with contextlib.suppress(OSError):  # then its number decides, as for anybody else
                alive = is_run_alive(found["run_id"])
        if alive is not None:
            return alive  # whatever the number in the file has become since
        return owner.pid not in own_pids() and is_live(owner.pid, 0, kill)

    return judge
