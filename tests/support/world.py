"""Real daemons and real commands in a world of the test's own: folders, environment, and no process left behind."""

from __future__ import annotations

import ctypes
import glob
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cueloop_protocol.place import local_folder, root_hash
from cueloop_protocol.roots import Root, open_root
from support.repository import Repository
from support.wire import SECONDS, Wire

AT_HOME = Path(__file__).with_name("at_home.py")
PROBED = Path(__file__).parents[1] / "upgrade" / "probed.py"
PROGRAMS = (b"cueloop_daemon", os.fsencode(AT_HOME), os.fsencode(PROBED))
"""One of these is in the command line of each daemon."""


class DidNotStart(Exception):
    """The daemon said why on its ready pipe, or nothing; `said` is that line, `stderr` its standard error."""

    def __init__(self, said: dict[str, Any], stderr: str, code: int) -> None:
        super().__init__(f"exit {code}, said {said}, {stderr}")
        self.said = said
        self.stderr = stderr
        self.code = code


@dataclass
class Daemon:
    """A daemon that a test started by itself."""

    process: subprocess.Popen[bytes]
    socket: str
    stderr: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def connect(self) -> Wire:
        """A new connection."""
        return Wire(self.socket)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """As a crash ends it."""
        self.process.kill()
        self.process.wait(SECONDS)

    def stop(self) -> int:
        """As a person ends it; the exit code."""
        self.process.terminate()
        return self.process.wait(SECONDS)

    def resident(self) -> int:
        """Bytes of it in memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")


@dataclass
class World:
    """A folder with a short path (a socket's path has to fit), an environment, and the processes that a test started."""

    folder: Path
    environ: dict[str, str]
    repository: Repository
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @classmethod
    def make(cls) -> World:
        folder = Path(tempfile.mkdtemp(prefix="cle")).resolve()
        (folder / "run").mkdir(mode=0o700)
        (folder / "home").mkdir()
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "LANG": "C.UTF-8", "NO_COLOR": "1"}
        environ["XDG_RUNTIME_DIR"] = str(folder / "run")
        return cls(folder, environ, Repository(folder / "repo").lay())

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def caller(self) -> dict[str, str]:
        """Whose configuration is meant: nobody's but the test's."""
        return {"home": str(self.home)}

    def start(
        self,
        root: Path | str | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        at_home: bool = False,
        before: Callable[[], None] | None = None,
        cwd: Path | str = "/",
        more: Sequence[str] = (),
        program: Path = AT_HOME,
    ) -> Daemon:
        """Start a daemon and return when it serves. `at_home`: with the test's home instead of the user's own.

        `before` is called in the new process, before the program. `more` are further arguments, `program` what to run instead of
        `at_home`, in the same way. Raises DidNotStart.
        """
        reading, writing = os.pipe()
        stderr = self.folder / f"stderr{len(self._processes)}"
        began = [str(program), str(self.home)] if at_home else ["-m", "cueloop_daemon"]
        argv = [sys.executable, "-P", *began, "--root", str(root or self.repository.path), "--ready-fd", str(writing), *more]
        with stderr.open("wb") as errors:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, cwd=cwd, env={**self.environ, **(environ or {})},
                pass_fds=(writing,), start_new_session=True, preexec_fn=before,
            )  # fmt: skip
        os.close(writing)
        self._processes.append(process)
        try:
            line = _first_line(reading)
        finally:
            os.close(reading)
        said: dict[str, Any] = json.loads(line) if line else {}
        if "ready" not in said:
            raise DidNotStart(said, stderr.read_text(), process.wait(SECONDS))
        return Daemon(process, said["ready"]["socket"], stderr)

    def run(self, *argv: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        """Call `cueloop` in the repository; `environ` and `cwd` may be given."""
        process = self.spawn(*argv, **options)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def spawn(
        self,
        *argv: str,
        environ: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        before: Callable[[], None] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Begin to call `cueloop`."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cueloop_client", *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd=cwd or self.repository.path, env={**self.environ, **(environ or {})}, preexec_fn=before,
        )  # fmt: skip
        self._processes.append(process)
        return process

    def daemons(self) -> list[int]:
        """The daemons that run for repositories below this world's folder, whoever started them."""
        found = [pid for pid in _pids() if _is_daemon_below(pid, self.folder)]
        return [pid for pid in found if _parent(pid) not in found]  # not what is about to become a git process

    def close(self) -> list[int]:
        """End what still runs, remove what is left; the daemons that were still there."""
        left = self.daemons()
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.kill()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
            process.wait(SECONDS)
        for pid in self.daemons():
            _end(pid)
        for repository in self.folder.glob("*/.cueloop"):
            self._forget(open_root(str(repository.parent)))
        shutil.rmtree(self.folder, ignore_errors=True)
        return left

    def _forget(self, root: Root) -> None:
        for name in glob.glob(f"{local_folder(os.getuid())}/{root_hash(root)}*"):
            if os.path.isfile(name):
                os.unlink(name)


def without_privileges() -> None:
    """To be called in a new process: root loses what lets it read and write files whatever their mode is."""
    if os.getuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            if libc.prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP
                raise OSError(ctypes.get_errno(), "the test cannot give up root's access to all files")


def without_inotify() -> None:
    """To be called in a new process: neither it nor what it starts gets an inotify instance, whatever others have of them.

    In a user namespace of its own, which counts them by itself. Raises OSError where the system allows none.
    """
    uid, gid = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare(0x10000000):  # CLONE_NEWUSER
        raise OSError(ctypes.get_errno(), "the test cannot have a user namespace")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        Path("/proc/self", name).write_text(text)
    Path("/proc/sys/user/max_inotify_instances").write_text("0")


def _first_line(fd: int) -> bytes:
    data = b""
    while b"\n" not in data:
        if not select.select([fd], [], [], 30)[0]:
            raise TimeoutError("the daemon said nothing within 30 s")
        piece = os.read(fd, 65536)
        if not piece:
            break
        data += piece
    return data


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _is_daemon_below(pid: int, folder: Path) -> bool:
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    if b"--root" not in argv or not any(word in argv for word in PROGRAMS):
        return False
    root = argv[argv.index(b"--root") + 1]
    return root == os.fsencode(folder) or root.startswith(os.fsencode(folder) + b"/")


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _end(pid: int) -> None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        if not select.select([fd], [], [], SECONDS)[0]:
            raise AssertionError(f"daemon {pid} cannot be ended")
    finally:
        os.close(fd)
