"""The daemon as it is, but it can be told where in a run to die, and which boot of the machine it is to believe in.

Run as `python runs_daemon.py cueloop_daemon HOME --root …`; the first word is what other tests know daemons by. In the folder TRIAL:
`arm` holds the number of the place at which the next run kills its daemon (it is taken away when that run begins), and `places`
gets the name of each place that a run passes. Places are those of the journal's probe, so that a new step is one without being listed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.at_home import as_if_at


class Places:
    """The journal's probe of all runs of this daemon."""

    def __init__(self, folder: Path, root: str) -> None:
        self._folder = folder
        self._root = root
        self._left: int | None = None
        self._log = os.open(folder / "places", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def __call__(self, key: str, point: str) -> None:
        os.write(self._log, f"{key} {point}\n".encode())
        try:
            arm = (self._folder / "arm").read_text()
            (self._folder / "arm").unlink()
            self._left = int(arm)
        except FileNotFoundError:
            pass
        if self._left == 0:
            self._die()
        if self._left is not None:
            self._left -= 1

    def _die(self) -> None:
        """At once. A daemon that was stopped on purpose is not brought back by a shim: the next one is to be the test's own."""
        from cueloop_daemon.shim.wire import STOPPED

        Path(self._root, STOPPED).touch()
        os.kill(os.getpid(), signal.SIGKILL)


def believe_in(boot: str) -> None:
    """This daemon, and the shims that it starts, live in a boot of the machine that is called so."""
    from cueloop_protocol import identity

    identity.boot_id = lambda: boot
    from cueloop_daemon.shim import command

    wanted = "from cueloop_daemon.shim.boot import main"
    assert wanted in command.BOOT
    before = f"from cueloop_protocol import identity; identity.boot_id = lambda: {boot!r}"
    command.BOOT = command.BOOT.replace(wanted, f"{before}; {wanted}")


def watch_runs(folder: Path, root: str) -> None:
    """Let each run of this daemon pass its places."""
    from cueloop_daemon.runs.journal import RunJournal

    defaults = RunJournal.__init__.__kwdefaults__
    assert defaults is not None
    assert "probe" in defaults
    defaults["probe"] = Places(folder, root)


if __name__ == "__main__":
    home, argv = sys.argv[2], sys.argv[3:]
    as_if_at(home)
    if os.environ.get("TRIAL_BOOT"):
        believe_in(os.environ["TRIAL_BOOT"])
    if os.environ.get("TRIAL"):
        watch_runs(Path(os.environ["TRIAL"]), argv[argv.index("--root") + 1])
    from cueloop_daemon.__main__ import main

    sys.exit(main(argv))
