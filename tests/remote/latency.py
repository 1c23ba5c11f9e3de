"""What a warm command costs over ssh: `python tests/remote/latency.py [N]` prints milliseconds, each with and without a control master."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.sshd import serving
from support.world import World

ARGV = ("session", "show")


def _timed(call: Callable[[], int], count: int) -> dict[str, float]:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        assert call() == 0
        times.append((time.perf_counter() - began) * 1000)
    return {"p50_ms": round(statistics.median(times), 1), "max_ms": round(max(times), 1)}


def main(count: int) -> None:
    """Here, over a connection of its own, and over one that is there."""
    world = World.make()
    try:
        with serving(world) as box:
            told = {"here": _timed(lambda: world.run(*ARGV).returncode, count)}
            told["ssh"] = _timed(lambda: box.run(*ARGV, "--host", box.url).returncode, count)
            with box.master():
                told["ssh, control master"] = _timed(lambda: box.run(*ARGV, "--host", box.url).returncode, count)
    finally:
        world.close()
    print(json.dumps({"bench": "ssh_warm_command", "n": count, **told}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
