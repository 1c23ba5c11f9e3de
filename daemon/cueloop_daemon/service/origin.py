"""Who started this daemon: read once, from an environment that is then replaced by one of our own. Standard library only."""

from __future__ import annotations

import os

from cueloop_protocol.frozen import Frozen
from cueloop_protocol.service import LABEL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    OriginName = Literal["demand", "hand", "systemd", "launchd"]

FIRST_DESCRIPTOR = 3
"""Where the sockets begin that systemd passes (sd_listen_fds(3))."""
MOST_DESCRIPTORS = 64
WOKEN = "CUELOOPD_ORIGIN"
"""What a run's shim says to a daemon that it brings back: `demand`."""
KEPT = ("PATH", "XDG_RUNTIME_DIR", "TMPDIR")


class Origin(Frozen):
    """Who started us. `descriptors`: name and number of each socket that systemd passed; `watchdog`: seconds between two signs of life.

    `notify` is where systemd listens for `READY=1` and the like, as it was given.
    """

    name: OriginName = "hand"
    descriptors: tuple[tuple[str, int], ...] = ()
    notify: str | None = None
    watchdog: float | None = None

    @property
    def is_managed(self) -> bool:
        """Whether a service manager watches over this process."""
        return self.name in ("systemd", "launchd")


def read_origin(environ: Mapping[str, str], pid: int, *, has_starter: bool) -> Origin:
    """Who started the process `pid`. `has_starter`: a client waits at the other end of a ready pipe.

    Sockets that were meant for another process (`LISTEN_PID`) are none of ours, and their descriptors are not touched. What a
    parent inherited from its own manager and passed on (a terminal that is a service itself) makes us nobody's service either:
    systemd names the process it executed in `SYSTEMD_EXEC_PID` (since version 248).
    """
    descriptors = _descriptors(environ) if environ.get("LISTEN_PID") == str(pid) else ()
    notify = environ.get("NOTIFY_SOCKET") if environ.get("SYSTEMD_EXEC_PID", str(pid)) == str(pid) else None
    if descriptors or (notify and not has_starter):
        return Origin("systemd", descriptors, notify or None, _watchdog(environ, pid))
    if has_starter or environ.get(WOKEN) == "demand":
        return Origin("demand")
    return Origin("launchd" if environ.get("XPC_SERVICE_NAME", "").startswith(LABEL) else "hand")


def own_environment(environ: Mapping[str, str], home: str, user: str | None, packages: str) -> dict[str, str]:
    """The environment that the daemon and all it starts have, whoever started it: the same as clients give to one on demand.

    A manager's block holds whatever a session imported into it, and what is meant for this process alone (`LISTEN_*`,
    `NOTIFY_SOCKET`, `WATCHDOG_*`, `INVOCATION_ID`). `packages`: the folder we were loaded from; a PYTHONPATH without it goes.
    """
    own = {"HOME": home, "LANG": "C.UTF-8"}
    if user is not None:
        own |= {"USER": user, "LOGNAME": user}
    own |= {name: environ[name] for name in KEPT if environ.get(name)}
    path = [os.path.realpath(folder) for folder in environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    if os.path.realpath(packages) in path:
        own["PYTHONPATH"] = os.pathsep.join(path)
    base = environ.get("PYTHONUSERBASE", "")
    if base and os.path.realpath(packages).startswith(os.path.realpath(base) + os.sep):
        own["PYTHONUSERBASE"] = base
    return own


def _descriptors(environ: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    count = min(_number(environ.get("LISTEN_FDS", "")) or 0, MOST_DESCRIPTORS)
    names = environ["LISTEN_FDNAMES"].split(":") if "LISTEN_FDNAMES" in environ else []
    if len(names) != count:
        names = ["unknown"] * count
    return tuple(zip(names, range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + count), strict=True))


def _watchdog(environ: Mapping[str, str], pid: int) -> float | None:
    """Seconds; None where none is kept, or it is kept on another process (sd_watchdog_enabled(3))."""
    if environ.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    micros = _number(environ.get("WATCHDOG_USEC", ""))
    return micros / 1_000_000 if micros else None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
