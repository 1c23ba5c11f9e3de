"""Another machine: a real sshd on a loopback port with keys of its own, into which only the test can log in.

Who logs in has the home, the runtime folder and the programs of the test's world, so that the "other machine" shares nothing with
the command that calls it but the file system.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.programs import python_program
from support.wire import SECONDS, wait_for
from support.world import World

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
NAME = "box"
CUELOOP = "import sys\nfrom cueloop_client.main import main\nsys.exit(main())\n"
SERVER = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
UsePAM no
StrictModes no
PrintMotd no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
MaxSessions 100
SetEnv {environ}
"""
CLIENT = """\
Host {name}
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/user
  UserKnownHostsFile {folder}/known
  IdentitiesOnly yes
  StrictHostKeyChecking yes
  ControlPath {folder}/master
Host *
  LogLevel ERROR
"""


@dataclass
class Sshd:
    """A running sshd, the configuration of an ssh that may log in, and what the remote side is: the world's repository and home."""

    world: World
    folder: Path
    port: int
    process: subprocess.Popen[bytes]
    environ: dict[str, str] = field(default_factory=dict)
    """The environment of a command on this side: an empty home, and CUELOOP_SSH."""

    @property
    def url(self) -> str:
        """The repository there."""
        return f"ssh://{NAME}{self.world.repository.path}"

    @property
    def config(self) -> Path:
        return self.folder / "config"

    def run(self, *argv: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
        """Call `cueloop` on this side."""
        return self.world.run(*argv, environ={**self.environ, **(environ or {})}, cwd="/")

    def sessions(self) -> list[int]:
        """The processes of sshd that serve a connection."""
        return _children(self.process.pid)

    def bridges(self) -> list[int]:
        """The live processes there that a `--host` here made: bridges and commands."""
        marks = (b"dial-stdio", b"at-host")
        return [pid for pid in _pids() if any(mark in _argv(pid) for mark in marks) and self._is_ours(pid)]

    @contextmanager
    def master(self) -> Iterator[None]:
        """Within the block a connection is there that all others share, as a user's own `ssh -M` is."""
        argv = ["ssh", "-F", self.config, "-M", "-N", NAME]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            wait_for((self.folder / "master").exists, "the control master")
            yield
        finally:
            process.terminate()
            process.wait(SECONDS)

    def close(self) -> None:
        """End sshd and whoever it serves."""
        for pid in [*self.sessions(), self.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, 15)
        self.process.wait(SECONDS)
        wait_for(lambda: not self.bridges(), "the end of all that was called over ssh")

    def _is_ours(self, pid: int) -> bool:
        """By the home that sshd gives; the ssh on this side has another one."""
        return b"HOME=" + os.fsencode(self.world.home) + b"\0" in _read(f"/proc/{pid}/environ") + b"\0"


@contextmanager
def serving(world: World) -> Iterator[Sshd]:
    """An sshd for the block."""
    assert SSHD is not None, "these tests need sshd: install openssh-server"
    folder = world.folder / "ssh"
    folder.mkdir(mode=0o700)
    (world.folder / "here").mkdir()
    for name in ("host", "user", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd, as root, locks its children in
    _install(world)
    sshd = _started(world, folder)
    sshd.environ = {"HOME": str(world.folder / "here"), "CUELOOP_SSH": f"ssh -F {sshd.config}", "XDG_RUNTIME_DIR": "/nonexistent"}
    try:
        yield sshd
    finally:
        sshd.close()


def _install(world: World) -> None:
    """As `pip install --user` does: in a folder that is on no login's PATH."""
    programs = world.home / ".local" / "bin"
    programs.mkdir(parents=True)
    python_program(programs / "cueloop", CUELOOP, "-P")


def _started(world: World, folder: Path) -> Sshd:
    for _ in range(5):  # somebody else may take the port that was free a moment ago
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        _configure(world, folder, port)
        with (folder / "sshd.log").open("wb") as log:
            process = subprocess.Popen(
                [SSHD or "", "-D", "-e", "-f", folder / "sshd_config"], stderr=log, stdin=subprocess.DEVNULL
            )
        wait_for(lambda p=process, n=port: p.poll() is not None or _listens(n), "sshd")  # type: ignore[misc]
        if process.poll() is None:
            return Sshd(world, folder, port, process)
    raise AssertionError(f"sshd does not start: {(folder / 'sshd.log').read_text()}")


def _configure(world: World, folder: Path, port: int) -> None:
    environ = {
        "HOME": world.home,
        "XDG_RUNTIME_DIR": world.environ["XDG_RUNTIME_DIR"],
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
    }
    told = " ".join(f"{name}={value}" for name, value in environ.items())
    (folder / "sshd_config").write_text(SERVER.format(port=port, folder=folder, environ=told))
    user = pwd.getpwuid(os.getuid()).pw_name
    (folder / "config").write_text(CLIENT.format(name=NAME, port=port, user=user, folder=folder))
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _children(pid: int) -> list[int]:
    return [int(word) for word in _read(f"/proc/{pid}/task/{pid}/children").split()]


def _argv(pid: int) -> list[bytes]:
    return _read(f"/proc/{pid}/cmdline").split(b"\0")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
