"""A service manager in little: holds a listening socket, and starts a daemon with it whenever somebody connects and none runs."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from cueloop_protocol.place import SOCKET, ensure_socket_folder
from cueloop_protocol.roots import open_root
from support.wire import SECONDS
from support.world import AT_HOME, World

EXEC = 'LISTEN_PID=$$ exec "$@"'
"""For a shell: the process that is executed is the one that the socket is for."""


class Activator:
    """Use as a context. `notes` are the datagrams that the daemons sent, in order."""

    def __init__(self, world: World, *, name: str = "cueloopd", watchdog: float | None = None, listen: str | None = None) -> None:
        """`name`: of the socket as it is passed. `listen`: elsewhere than at the computed place."""
        root = open_root(str(world.repository.path))
        self.world = world
        self.path = listen or f"{ensure_socket_folder(root, world.environ, os.getuid())}/{SOCKET}"
        self.notes: list[str] = []
        self.started: list[subprocess.Popen[bytes]] = []
        self.log = world.folder / "activated.stderr"
        self._name, self._watchdog = name, watchdog
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(self.path)
        os.chmod(self.path, 0o600)
        self._door.listen(4096)
        self._said = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._said.bind(str(world.folder / "notify"))
        self._arrived = threading.Condition()
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._watch), threading.Thread(target=self._listen)]

    def __enter__(self) -> Activator:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(SECONDS)
        for process in self.started:
            process.kill()
            process.wait(SECONDS)
        self._door.close()
        self._said.close()
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def await_note(self, wanted: Callable[[str], bool], seconds: float = SECONDS) -> str:
        """The first datagram that fits, however long ago it came."""
        with self._arrived:
            found = self._arrived.wait_for(lambda: next((note for note in self.notes if wanted(note)), None), seconds)
        assert found is not None, (self.notes, self.log.read_text())
        return found

    def stopped(self) -> int:
        """As `systemctl stop` ends the daemon; its exit code. The next caller starts another."""
        self.started[-1].terminate()
        return self.started[-1].wait(SECONDS)

    def environ(self) -> Mapping[str, str]:
        """What the daemon is started with; much of it is none of its business, as in a real manager's block."""
        more = {"LISTEN_FDS": "1", "LISTEN_FDNAMES": self._name, "NOTIFY_SOCKET": str(self.world.folder / "notify"),
                "INVOCATION_ID": "1" * 32, "JOURNAL_STREAM": "8:1", "SECRET_OF_THE_SESSION": "s3cret"}  # fmt: skip
        if self._watchdog is not None:
            more["WATCHDOG_USEC"] = str(int(self._watchdog * 1_000_000))
        return {**self.world.environ, **more}

    def _watch(self) -> None:
        while not self._is_over.is_set():
            if self.started and self.started[-1].poll() is None:
                self._is_over.wait(0.02)
            elif select.select([self._door], [], [], 0.02)[0]:
                self._start()

    def _start(self) -> None:
        program = [sys.executable, "-P", str(AT_HOME), str(self.world.home), "--root", str(self.world.repository.path)]
        with self.log.open("ab") as errors:
            process = subprocess.Popen(
                ["/bin/sh", "-c", EXEC, "sh", *program], preexec_fn=self._pass_on, close_fds=False,
                env=self.environ(), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True, cwd="/",
            )  # fmt: skip
        self.started.append(process)

    def _pass_on(self) -> None:
        """In the new process, before the program: the socket is its third descriptor."""
        os.dup2(self._door.fileno(), 3)
        os.set_inheritable(3, True)

    def _listen(self) -> None:
        self._said.settimeout(0.05)
        while not self._is_over.is_set():
            with suppress(TimeoutError):
                note = self._said.recv(4096).decode()
                with self._arrived:
                    self.notes.append(note)
                    self._arrived.notify_all()


def environment_of(pid: int) -> dict[str, str]:
    """As the process was executed."""
    words = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)
