"""What `installing`, `removing` and `looking` have to know of a service manager. Standard library only."""

from __future__ import annotations

import os

from cueloop_client.service.sealed import Sealed
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from cueloop_client.service.tools import Tools
    from cueloop_client.service.wanted import Wanted

    Commands = tuple[tuple[str, ...], ...]

    class Manager(Protocol):
        """One user's service manager. Its commands are given as words, so that they can be shown as well as called."""

        @property
        def name(self) -> str:
            """`systemd` or `launchd`."""
            ...

        @property
        def tools(self) -> Tools:
            """The programs, in the environment that the manager's own need."""
            ...

        def unit(self, key: str, instance: str) -> str:
            """What the manager calls the service."""
            ...

        def files(self, wanted: Wanted) -> tuple[Sealed, ...]:
            """All files of the service, those first that other repositories share. Raises Failure."""
            ...

        def installed(self) -> tuple[Installed, ...]:
            """The services of all repositories that have files, by repository."""
            ...

        def shared_paths(self) -> tuple[str, ...]:
            """The files that the services of all repositories share."""
            ...

        def links(self, key: str, instance: str) -> tuple[str, ...]:
            """What the manager itself makes when it is told to start the service with the session."""
            ...

        def folders(self, wanted: Wanted) -> tuple[str, ...]:
            """Folders that the manager needs and does not make: 0700, ours."""
            ...

        def why_out_of_reach(self) -> str | None:
            """Why the manager cannot be asked from here: a plain sentence. None if it can."""
            ...

        def switch_on(self, key: str, instance: str, *, anew: bool) -> Commands:
            """What makes it listen. `anew`: it listened before, for files that have changed since."""
            ...

        def switch_off(self, key: str, instance: str) -> Commands:
            """What makes it listen no more, and ends the daemon; runs go on."""
            ...

        def after_removal(self, key: str, instance: str) -> Commands:
            """What makes it forget the files."""
            ...

        def by_hand(self, key: str, instance: str) -> str:
            """What a person calls once the manager can be reached."""
            ...

        def state(self, key: str, instance: str) -> State:
            """How the service is."""
            ...

        def log_command(self, key: str, instance: str, lines: int, *, follow: bool, json: bool) -> tuple[str, ...]:
            """What shows what the daemon wrote to its outputs."""
            ...

        def advice(self) -> tuple[str, ...]:
            """What to know about when the daemon lives: plain sentences, the first one the most important. May be empty."""
            ...


class Installed(Frozen):
    """The service of one repository, as its files tell. `program`: the interpreter; `paths`: its own files."""

    repository: str
    key: str
    instance: str
    program: str | None
    paths: tuple[str, ...]

    def is_gone(self, home: str) -> bool:
        """Whether the repository was moved or removed. A disk that is not there just now looks alike, so only where `home` is."""
        if os.path.isdir(f"{self.repository}/.cueloop"):
            return False
        above = os.path.dirname(self.repository)
        try:
            return os.stat(above).st_dev == os.stat(home).st_dev
        except OSError:
            return False


class State(Frozen):
    """How a service is, in the manager's words. `pid`: the daemon's; `details`: name and text, for people."""

    is_enabled: bool
    is_listening: bool
    is_running: bool
    pid: int | None
    details: tuple[tuple[str, str], ...]
    problem: tuple[str, str] | None = None
    """What is wrong, and what to do: two plain sentences."""
