"""Runs one change of a session in a child of its own, which may end itself by SIGKILL at a chosen call.

A job is a JSON line on stdin, the answer one on stdout: how the child ended, what it had acknowledged, how many calls it made.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from cueloop_daemon.store.etag import etag_of_bytes
from faults.systems import Hooked, deadly, without_exchange
from faults.world import World, this_process


def change(world: World, job: dict[str, Any]) -> str:
    """Do what the job says; the result's type."""
    expected = None if job["expected"] is None else etag_of_bytes(job["expected"].encode())
    if job["do"] == "save":
        return type(world.store.save(job["data"].encode(), expected, during_run=job["run"], keep_as=job["keep_as"])).__name__
    if job["do"] == "remove":
        return type(world.store.remove(expected or "", why="finished", during_run=job["run"])).__name__
    return type(world.store.quarantine(expected or "")).__name__


def child(job: dict[str, Any], pipe: int) -> None:
    hook = deadly(job["kill_at"])
    system = without_exchange(hook) if job["without_exchange"] else Hooked(hook)
    result = change(World(Path(job["path"]), system, this_process()), job)
    os.write(pipe, f"{result} {len(system.calls)}".encode())


def main() -> None:
    for line in sys.stdin:
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                child(json.loads(line), theirs)
            except BaseException as exc:
                os.write(theirs, f"{type(exc).__name__} -1".encode())
            finally:
                os._exit(0)
        os.close(theirs)
        _, status = os.waitpid(pid, 0)
        said = os.read(ours, 1000).decode()
        os.close(ours)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status), "said": said}), flush=True)


if __name__ == "__main__":
    main()
