"""The program of a run: scopes over a state, everything through a journal and a world."""

from cueloop_daemon.runs.program.loop import run_program as run_program

__all__ = ["run_program"]
