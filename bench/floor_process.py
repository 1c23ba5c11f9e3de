"""Starting a floor in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.world import World


@contextmanager
def floor_process(world: World, name: str, path: str) -> Iterator[int]:
    """The pid of a floor (`bench.floors`) that is ready; it is ended at the end."""
    argv = (sys.executable, "-m", "bench.floors", name, path)
    top = Path(__file__).resolve().parent.parent
    child = subprocess.Popen(argv, cwd=top, env=world.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        if child.stdout.readline() != b"ready\n":
            raise RuntimeError(f"the floor {name} did not start")
        yield child.pid
    finally:
        child.kill()
        child.wait(10)
        child.stdout.close()


def process_ms(world: World, argv: Sequence[str]) -> float:
    """Milliseconds from the start of a process to its end. RuntimeError with what it said if it fails."""
    began = time.perf_counter()
    done = subprocess.run(argv, cwd=world.root, env=world.env, stdin=subprocess.DEVNULL, capture_output=True)
    took = (time.perf_counter() - began) * 1000
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)} failed: {done.stderr.decode(errors='replace')[-500:]}")
    return took
