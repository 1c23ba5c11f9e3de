"""Loops that are configured to be parallel: the Rust tool's work (contract section 10). Standard library only."""

from __future__ import annotations

import os

from cueloop_client.argv import NOT_PASSED_ON
from cueloop_client.failures import Usage
from cueloop_client.fast import read
from cueloop_client.passing import may_pass_on, pass_on
from cueloop_client.shapes import member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def pass_on_if_parallel(context: Context, mode: str) -> None:
    """Become the Rust tool for a loop that is not resumed where `parallel.workers` is configured and that tool is there.

    Without the tool it returns: the run is one task after the other, and the daemon says so. Raises RpcError for a configuration
    that cannot be used, and Usage for an option that cannot be passed on.
    """
    if mode != "loop" or context.values.has("resume"):
        return
    world = context.world
    document = member(read(context, "config.resolve", {"resume": False}), "document")
    if member(document, "safety").get("parallel_configured") is not True:
        return
    if context.far is not None:
        raise Usage(
            "parallel.workers is configured there: such a loop is the Rust tool's, which knows no other machine. Start it there."
        )
    if not may_pass_on("run loop", world.environ, world.program, os.getpid()):
        return
    surplus = next((option for option in NOT_PASSED_ON if context.values.has(option)), None)
    if surplus is not None:
        raise Usage(
            f"--{surplus} is not possible here: parallel.workers is configured, so the loop is passed on to the Rust tool, "
            "which has no such option."
        )
    pass_on("run loop", context.argv, world.environ, world.program, os.getpid())
