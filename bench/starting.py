"""Commands: with a daemon that has yet to be started, and with one that runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench.figure import Figure, in_turns
from bench.floor_process import process_ms
from bench.world import World, cueloop, daemon, end_daemon

IMPORTS = "import asyncio, anyio, pydantic, sqlite3, json, socket"


def cold(world: World) -> Iterator[Figure]:
    """`cueloop machine config resolve` in a repository without a daemon: it starts one, asks it, prints."""

    def measure() -> float:
        end_daemon(world)
        return process_ms(world, cueloop(world, "machine", "config", "resolve"))

    try:
        runs, floors = in_turns(world.scale.runs, measure, lambda: process_ms(world, (sys.executable, "-c", IMPORTS)))
    finally:
        end_daemon(world)
    yield Figure("cold_command", "ms", runs, 350.0, floors, f"`python -c '{IMPORTS}'`")


def warm(world: World) -> Iterator[Figure]:
    """`cueloop session show` with a daemon that runs."""
    with daemon(world):
        runs, floors = in_turns(
            max(world.scale.runs, world.scale.changes // 3),
            lambda: process_ms(world, cueloop(world, "session", "show")),
            lambda: process_ms(world, (sys.executable, "-c", "import socket, json")),
        )
    yield Figure("warm_command", "ms", runs, None, floors, "`python -c 'import socket, json'`", 2.0)
