"""`python -m bench [--quick] [NAME…]`: one line of JSON for each figure. 0: all were measured (`ok` says which bars are met)."""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Callable, Iterator, Mapping

from bench.answering import cpu, ping, resolve
from bench.big_queue import big_queue
from bench.fanout import fan_out
from bench.figure import Figure
from bench.processes import NotMeasurable
from bench.runs import run_cost, run_output, shim_start
from bench.starting import cold, warm
from bench.watching import change_to_event, idle
from bench.world import QUICK, Scale, World, new_world

BENCHMARKS: Mapping[str, Callable[[World], Iterator[Figure]]] = {
    "resolve": resolve,
    "cpu": cpu,
    "ping": ping,
    "change": change_to_event,
    "fan_out": fan_out,
    "cold": cold,
    "warm": warm,
    "idle": idle,
    "big_queue": big_queue,
    "run": run_cost,
    "shim": shim_start,
    "run_output": run_output,
}


def main(argv: list[str] | None = None) -> int:
    """Measure what is named, or everything, each in a new repository."""
    parser = argparse.ArgumentParser(prog="bench", description="Figures of the daemon, each beside its floor.")
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"what to measure: {' '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="only see that the benchmarks work; the figures mean nothing")
    asked = parser.parse_args(argv)
    unknown = [name for name in asked.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    _allow_descriptors()
    is_all_measured = True
    for name in asked.names or BENCHMARKS:
        try:
            with new_world(QUICK if asked.quick else Scale()) as world:
                for figure in BENCHMARKS[name](world):
                    print(figure.to_line(), flush=True)
        except NotMeasurable as exc:
            is_all_measured = False
            print(json.dumps({"name": name, "ok": False, "error": str(exc)}), flush=True)
    return 0 if is_all_measured else 1


def _allow_descriptors() -> None:
    """As many open files as the system lets us have: two thousand connections are more than the usual limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    sys.exit(main())
