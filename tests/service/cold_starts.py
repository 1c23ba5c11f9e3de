"""Cold starts by a service manager: nobody runs, somebody connects, and is answered.

    python tests/service/cold_starts.py [N]

N times (200): a stand-in of a manager holds the socket; a request is sent, the daemon is started by it, answers, and is stopped again.
Prints one JSON line: milliseconds from the connection to the answer (p50, p95, max), the processor time that a daemon had used by then,
and the floor, what this interpreter takes to start and do nothing (`python -P -c pass`), measured in turn. Fails if one is not answered.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.activator import Activator
from support.wire import Wire
from support.world import World


def measured(count: int) -> dict[str, object]:
    """`count` cold starts."""
    starts: list[float] = []
    floors: list[float] = []
    busy: list[float] = []
    world = World.make()
    try:
        with Activator(world) as manager:
            for number in range(count):
                floors.append(_floor(world))
                began = time.perf_counter()
                with Wire(manager.path) as wire:
                    origin = wire.call("daemon.status")["origin"]
                    starts.append(time.perf_counter() - began)
                    busy.append(_cpu(manager.started[-1].pid))
                assert (origin, len(manager.started)) == ("systemd", number + 1)
                assert manager.stopped() == 0
    finally:
        world.close()
    return {
        "name": "cold_starts", "unit": "ms", "answered": len(starts), **_figures("", starts), **_figures("floor_", floors),
        "cpu_p50": round(statistics.median(busy) * 1000),
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def _floor(world: World) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", "pass"], env=world.environ, check=True)
    return time.perf_counter() - began


def _cpu(pid: int) -> float:
    """Seconds of processor that the process has used."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _figures(name: str, seconds: list[float]) -> dict[str, float]:
    ordered = sorted(value * 1000 for value in seconds)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return {f"{name}p50": round(statistics.median(ordered), 1), f"{name}p95": round(p95, 1), f"{name}max": round(ordered[-1], 1)}


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]) if len(sys.argv) > 1 else 200)))
