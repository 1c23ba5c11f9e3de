"""systemd's user manager. Standard library only."""

from __future__ import annotations

import glob
import os

from cueloop_client.service.manager import Installed, State
from cueloop_client.service.sealed import read, standing
from cueloop_client.service.tools import MISSING, Tools
from cueloop_client.service.unitfiles import DROP_IN, UNITS, drop_in_folder, own_files, program_of, repository_of, shared_files
from cueloop_protocol.digest import hex_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cueloop_client.service.manager import Commands
    from cueloop_client.service.sealed import Sealed
    from cueloop_client.service.wanted import Wanted
    from cueloop_client.world import World

CONTROL = ("systemctl", "--user")
QUICK = 10.0
SHOWN = "Id,LoadState,ActiveState,SubState,Result,UnitFileState,MainPID,NRestarts,StatusText"


class Systemd:
    """The manager of the user who calls. Without `XDG_RUNTIME_DIR` (ssh, cron) it is looked for where logind puts it."""

    name = "systemd"

    def __init__(self, world: World) -> None:
        runtime = f"/run/user/{world.uid}"
        added = {} if world.environ.get("XDG_RUNTIME_DIR") or not os.path.isdir(runtime) else {"XDG_RUNTIME_DIR": runtime}
        self.tools = Tools({**world.environ, **added, "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0", "LC_ALL": "C"})
        self._user = world.passwd_name() or str(world.uid)
        config = world.environ.get("XDG_CONFIG_HOME", "")
        self._config = config if os.path.isabs(config) else f"{world.passwd_home()}/.config"
        self._folder: str | None = None

    @property
    def folder(self) -> str:
        """Where the user's units are: of the folders that the manager reads, that of the caller's configuration, if it is one."""
        if self._folder is None:
            own = f"{self._config}/systemd/user"
            told = self.tools.run((*CONTROL, "show", "--property=UnitPath", "--value"), QUICK).out.split()
            others = [path for path in told if path.endswith("/.config/systemd/user")]
            self._folder = others[0] if others and own not in told else own
        return self._folder

    def unit(self, key: str, instance: str) -> str:
        """The service unit."""
        return f"cueloopd@{instance}.service"

    def files(self, wanted: Wanted) -> tuple[Sealed, ...]:
        """Two templates, two drop-ins."""
        return (*shared_files(self.folder), *own_files(self.folder, wanted))

    def shared_paths(self) -> tuple[str, ...]:
        """The templates."""
        return tuple(f"{self.folder}/{name}" for name in UNITS)

    def links(self, key: str, instance: str) -> tuple[str, ...]:
        """Made by `enable`."""
        return (f"{self.folder}/sockets.target.wants/cueloopd@{instance}.socket",)

    def folders(self, wanted: Wanted) -> tuple[str, ...]:
        """systemd makes its own."""
        return ()

    def installed(self) -> tuple[Installed, ...]:
        """By the drop-ins of ours."""
        found = []
        for path in sorted(glob.glob(f"{glob.escape(self.folder)}/cueloopd@*.service.d/{DROP_IN}")):
            content = read(path)
            repository = repository_of(content) if content is not None and standing(content) != "foreign" else None
            if content is None or repository is None:
                continue
            instance = os.path.basename(os.path.dirname(path)).removeprefix("cueloopd@").removesuffix(".service.d")
            paths = tuple(f"{drop_in_folder(self.folder, instance, kind)}/{DROP_IN}" for kind in ("socket", "service"))
            found.append(Installed(repository, hex_digest(os.fsencode(repository))[:16], instance, program_of(content), paths))
        return tuple(found)

    def why_out_of_reach(self) -> str | None:
        """The bus may be missing: a container, `su`, cron without a session."""
        done = self.tools.run((*CONTROL, "show", "--property=Version", "--value"), QUICK)
        if done.code == MISSING:
            return "This system has no systemctl."
        return None if done.code == 0 and done.out.strip() else f"The user's systemd cannot be reached: {done.last.rstrip('.')}."

    def switch_on(self, key: str, instance: str, *, anew: bool) -> Commands:
        """Never starts the service: the first caller does."""
        socket, service = f"cueloopd@{instance}.socket", self.unit(key, instance)
        again = ((*CONTROL, "try-restart", service),) if anew else ()
        return ((*CONTROL, "daemon-reload"), (*CONTROL, "enable", "--now", socket), *again)

    def switch_off(self, key: str, instance: str) -> Commands:
        """The socket first, or a caller starts the service anew."""
        return ((*CONTROL, "disable", "--now", f"cueloopd@{instance}.socket"), (*CONTROL, "stop", self.unit(key, instance)))

    def after_removal(self, key: str, instance: str) -> Commands:
        """Nothing is left, not even the memory of a failure."""
        units = (f"cueloopd@{instance}.socket", self.unit(key, instance))
        return ((*CONTROL, "daemon-reload"), (*CONTROL, "reset-failed", *units))

    def by_hand(self, key: str, instance: str) -> str:
        """In a session that has a user manager."""
        from shlex import quote

        return f"systemctl --user daemon-reload && systemctl --user enable --now {quote(f'cueloopd@{instance}.socket')}"

    def state(self, key: str, instance: str) -> State:
        """Both units."""
        names = (f"cueloopd@{instance}.socket", self.unit(key, instance))
        done = self.tools.run((*CONTROL, "show", *names, f"--property={SHOWN}"), QUICK)
        shown = {block.get("Id", ""): block for block in _blocks(done.out)}
        socket, service = (shown.get(name, {}) for name in names)
        pid = service.get("MainPID", "0")
        return State(
            is_enabled=socket.get("UnitFileState") == "enabled",
            is_listening=socket.get("ActiveState") == "active",
            is_running=service.get("ActiveState") in ("active", "activating", "reloading"),
            pid=int(pid) if pid.isdigit() and pid != "0" else None,
            details=(("socket", _words(socket)), ("service", _words(service)), ("it says", service.get("StatusText", ""))),
            problem=_problem(names, socket, service),
        )

    def log_command(self, key: str, instance: str, lines: int, *, follow: bool, json: bool) -> tuple[str, ...]:
        """The journal of this user."""
        options = (*(("--follow",) if follow else ()), *(("--output=json",) if json else ("--output=short-iso",)))
        return ("journalctl", "--user", "--no-pager", f"--unit={self.unit(key, instance)}", f"--lines={lines}", *options)

    def advice(self) -> tuple[str, ...]:
        """Linger."""
        lingers = self.lingers()
        if lingers is None or lingers:
            return ()
        return (
            "Linger is off: when your last session ends, systemd ends the daemon, and with it every run and its agents.",
            "To keep both, and to have the socket from boot on: loginctl enable-linger",
        )

    def lingers(self) -> bool | None:
        """Whether the user's manager lives without a session; None if nobody knows."""
        done = self.tools.run(("loginctl", "show-user", self._user, "--property=Linger", "--value"), QUICK)
        if done.code == 0:
            return done.out.strip() == "yes"
        return os.path.exists(f"/var/lib/systemd/linger/{self._user}") if os.path.isdir("/var/lib/systemd") else None


def _blocks(text: str) -> list[Mapping[str, str]]:
    lines = (block.splitlines() for block in text.split("\n\n"))
    return [dict(line.split("=", 1) for line in block if "=" in line) for block in lines if block]


def _words(unit: Mapping[str, str]) -> str:
    if unit.get("LoadState") in (None, "not-found"):
        return "not known to systemd"
    words = [f"{unit.get('ActiveState', '?')} ({unit.get('SubState', '?')})"]
    if unit.get("UnitFileState") in ("enabled", "disabled"):
        words.append(unit["UnitFileState"])
    if unit.get("Result", "success") != "success":
        words.append(f"last result: {unit['Result']}")
    if unit.get("NRestarts", "0") not in ("0", ""):
        words.append(f"restarted {unit['NRestarts']} times")
    return ", ".join(words)


def _problem(names: tuple[str, str], socket: Mapping[str, str], service: Mapping[str, str]) -> tuple[str, str] | None:
    from shlex import quote

    socket_name, service_name = (quote(name) for name in names)
    again = f"systemctl --user reset-failed {socket_name} {service_name} && systemctl --user start {socket_name}"
    if socket.get("LoadState") in (None, "not-found"):
        return "systemd does not know the units.", "Make it read them: systemctl --user daemon-reload"
    if socket.get("ActiveState") == "failed":
        return f"The socket has failed ({socket.get('Result')}).", f"See `cueloop service logs`, then: {again}"
    if socket.get("ActiveState") != "active":
        return "The socket does not listen.", f"Switch it on: systemctl --user enable --now {socket_name}"
    if service.get("ActiveState") == "failed":
        return (
            f"The daemon's last start failed ({service.get('Result')}).",
            "See `cueloop service logs`; the next command tries anew.",
        )
    return None
