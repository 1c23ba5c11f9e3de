"""launchd, for one user's agents. Standard library only."""

from __future__ import annotations

import glob
import os
import plistlib

from cueloop_client.failures import Failure
from cueloop_client.service.manager import Installed, State
from cueloop_client.service.sealed import SEAL, read, seal, standing
from cueloop_client.service.templates import template
from cueloop_client.service.tools import MISSING, Tools
from cueloop_protocol.place import SOCKET, fits
from cueloop_protocol.service import LABEL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from cueloop_client.service.manager import Commands
    from cueloop_client.service.sealed import Sealed
    from cueloop_client.service.wanted import Wanted
    from cueloop_client.world import World

TEMPLATE = "io.cueloop.cueloopd.plist"
QUICK = 10.0


class Launchd:
    """The jobs of the user who calls: in the session of the screen if there is one, else in that of the user alone (ssh)."""

    name = "launchd"

    def __init__(self, world: World) -> None:
        self.tools = Tools(world.environ)
        self._uid = world.uid
        self._home = world.passwd_home()
        self._found_domain: str | None = None

    @property
    def domain(self) -> str:
        """`gui/UID`, else `user/UID`: nobody is logged in at the screen."""
        if self._found_domain is None:
            gui = f"gui/{self._uid}"
            has_screen = self.tools.run(("launchctl", "print", gui), QUICK).code == 0
            self._found_domain = gui if has_screen else f"user/{self._uid}"
        return self._found_domain

    def unit(self, key: str, instance: str) -> str:
        """The job's label."""
        return LABEL + key

    def files(self, wanted: Wanted) -> tuple[Sealed, ...]:
        """The property list. Raises Failure for a home whose path leaves no room for a socket's."""
        folder = self._socket_folder(wanted.key)
        if not fits(folder):
            raise Failure(
                f"The socket would have too long a path: {folder}/{SOCKET}.",
                "macOS takes 103 bytes. Without a service everything works: commands start the daemon by themselves.",
            )
        for text in (*wanted.argv, *(value for _, value in wanted.environ)):
            if any("\udc80" <= char <= "\udcff" for char in text):
                raise Failure("A property list takes UTF-8 alone, and a path has other bytes.", text)
        values: dict[str, Any] = {
            "@LABEL@": LABEL + wanted.key,
            "@ARGV@": list(wanted.argv),
            "@PATH@": dict(wanted.environ),
            "@SOCKET@": f"{folder}/{SOCKET}",
            "@LOG@": self._log(wanted.key),
        }
        job = filled(plistlib.loads(template("launchd", TEMPLATE)), values)
        return (seal(self._path(wanted.key), plistlib.dumps(job, sort_keys=False), opening=b"<!-- ", closing=b" -->"),)

    def shared_paths(self) -> tuple[str, ...]:
        """Each job has all of its own."""
        return ()

    def links(self, key: str, instance: str) -> tuple[str, ...]:
        """None: what lies in the folder is loaded."""
        return ()

    def folders(self, wanted: Wanted) -> tuple[str, ...]:
        """launchd makes none for a socket, and none for a log."""
        folder = self._socket_folder(wanted.key)
        return (os.path.dirname(folder), folder, os.path.dirname(self._log(wanted.key)))

    def installed(self) -> tuple[Installed, ...]:
        """By the property lists of ours."""
        found = []
        for path in sorted(glob.glob(f"{glob.escape(self._agents)}/{LABEL}*.plist")):
            content = read(path)
            if content is None or SEAL not in content or standing(content) == "foreign":
                continue
            try:
                argv = plistlib.loads(content)["ProgramArguments"]
                repository = argv[argv.index("--root") + 1]
            except (plistlib.InvalidFileException, ValueError, LookupError, TypeError, AttributeError):
                continue
            key = os.path.basename(path).removeprefix(LABEL).removesuffix(".plist")
            found.append(Installed(repository, key, key, argv[0], (path,)))
        return tuple(found)

    def why_out_of_reach(self) -> str | None:
        """Only where there is no launchctl."""
        done = self.tools.run(("launchctl", "print", self.domain), QUICK)
        if done.code == MISSING:
            return "This system has no launchctl."
        return None if done.code == 0 else f"launchd cannot be reached: {done.last.rstrip('.')}."

    def switch_on(self, key: str, instance: str, *, anew: bool) -> Commands:
        """A job that was there is booted out first: launchd reads a property list once."""
        out = (("launchctl", "bootout", f"{self.domain}/{LABEL}{key}"),) if anew else ()
        enable = ("launchctl", "enable", f"{self.domain}/{LABEL}{key}")
        return (*out, enable, ("launchctl", "bootstrap", self.domain, self._path(key)))

    def switch_off(self, key: str, instance: str) -> Commands:
        """Ends the daemon, too."""
        return (("launchctl", "bootout", f"{self.domain}/{LABEL}{key}"),)

    def after_removal(self, key: str, instance: str) -> Commands:
        """Nothing is remembered."""
        return ()

    def by_hand(self, key: str, instance: str) -> str:
        """In Terminal, logged in at the screen."""
        from shlex import quote

        return f"launchctl bootstrap gui/{self._uid} {quote(self._path(key))}"

    def state(self, key: str, instance: str) -> State:
        """From `launchctl print`, whose text is for people: what is not understood counts as not there."""
        done = self.tools.run(("launchctl", "print", f"{self.domain}/{LABEL}{key}"), QUICK)
        told = _told(done.out)
        pid = told.get("pid", "")
        is_known = done.code == 0
        return State(
            is_enabled=os.path.exists(self._path(key)),
            is_listening=is_known,
            is_running=pid.isdigit(),
            pid=int(pid) if pid.isdigit() else None,
            details=(
                ("job", f"{told.get('state', 'known')} in {self.domain}" if is_known else f"not known in {self.domain}"),
                ("last exit", told.get("last exit code", "")),
            ),
            problem=None if is_known else ("launchd does not know the job.", f"Load it: {self.by_hand(key, instance)}"),
        )

    def log_command(self, key: str, instance: str, lines: int, *, follow: bool, json: bool) -> tuple[str, ...]:
        """The file that launchd writes both outputs to."""
        return ("tail", "-n", str(lines), *(("-F",) if follow else ()), self._log(key))

    def advice(self) -> tuple[str, ...]:
        """What ends with a session."""
        if self.domain.startswith("gui/"):
            return ("launchd ends the daemon at logout; a run goes on, and the next command takes it over.",)
        return ("Nobody is logged in at the screen: the job lives in user/ until the last login of yours ends.",)

    @property
    def _agents(self) -> str:
        return f"{self._home}/Library/LaunchAgents"

    def _path(self, key: str) -> str:
        return f"{self._agents}/{LABEL}{key}.plist"

    def _socket_folder(self, key: str) -> str:
        return f"{self._home}/Library/Caches/cueloopd/{key}"

    def _log(self, key: str) -> str:
        return f"{self._home}/Library/Logs/cueloopd/{key}.log"


def filled(value: Any, values: Mapping[str, Any]) -> Any:
    """The property list with the words between @ replaced by values. An array or dictionary of one such word becomes the value."""
    if isinstance(value, dict):
        filled_in = {key: filled(item, values) for key, item in value.items()}
        inner = next(iter(value.values()), None) if len(value) == 1 else None
        return values[inner] if isinstance(inner, str) and isinstance(values.get(inner), dict) else filled_in
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], str) and isinstance(values.get(value[0]), list):
            return values[value[0]]
        return [filled(item, values) for item in value]
    return values.get(value, value) if isinstance(value, str) else value


def _told(text: str) -> dict[str, str]:
    """The first value of each name: what follows further below belongs to parts of the job."""
    told: dict[str, str] = {}
    for line in text.splitlines():
        name, found, value = line.strip().partition(" = ")
        if found:
            told.setdefault(name, value.strip())
    return told
