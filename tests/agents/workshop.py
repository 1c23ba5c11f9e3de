"""A place for one CLI to work in: folders, programs, environment, one run."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping

from agents.cli import Call, Cli, Place, path_of
from agents.clis import CLIS, OLDER
from agents.standin import StandIn

LIMIT = 240.0
"""Seconds that one run of a CLI may take. The slowest, opencode after a refused rate, repeats its request for 75."""


def lay_programs(place: Place) -> None:
    """Makes the folders and a `bin` beside the home with every CLI under its own name; the project is a repository of git."""
    programs = place.home.parent / "bin"
    for folder in (place.home, place.project, programs, place.home.parent / "tmp"):
        folder.mkdir(parents=True)
    for cli in (*CLIS.values(), *OLDER.values()):
        (programs / cli.name).symlink_to(cli.program)
    git = {"HOME": str(place.home), "PATH": os.defpath, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "--quiet", str(place.project)], env=git, check=True, timeout=30)


def environment(cli: Cli, place: Place, stand_in: StandIn) -> dict[str, str]:
    """Everything the CLI sees of the outside; its home is laid out. What it tries to reach beyond the stand-in is refused there."""
    base = place.home.parent
    plain = {"HOME": str(place.home), "PATH": path_of(base / "bin"), "LANG": "C.UTF-8", "TMPDIR": str(base / "tmp")}
    return plain | stand_in.proxy_environment() | dict(cli.lay(place))


def run(cli: Cli, call: Call, place: Place, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs the CLI to its end, in a session of its own. Raises subprocess.TimeoutExpired past the limit; the group is dead by then."""
    child = subprocess.Popen(
        [str(place.home.parent / "bin" / cli.name), *call.argv],
        cwd=place.project,
        env=dict(variables),
        stdin=subprocess.DEVNULL if call.stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = child.communicate(call.stdin, timeout=LIMIT)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
    return subprocess.CompletedProcess([cli.name, *call.argv], child.returncode, out, err)
