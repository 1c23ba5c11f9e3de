"""The commands of the service: options and help. Standard library only."""

from __future__ import annotations

from cueloop_client.command import Command
from cueloop_client.flags import Flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_DRY = Flag("dry-run", None, "print what would be written and called, and do nothing")

SERVICE: Mapping[tuple[str, ...], Command] = {
    ("service", "install"): Command(
        module="service_install",
        there=True,
        summary="Make the daemon of this repository a service of systemd or launchd, started by the first caller",
        usage="cueloop service install [--dry-run] [--force] [--json]",
        example="cueloop service install --dry-run",
        flags=(_DRY, Flag("force", None, "also write files that somebody changed")),
        notes=(
            "Nothing needs it: commands start the daemon by themselves. A service has its journal, its watchdog, and a socket from\n"
            "login on. May be called again at any time, and is to be when cueloop has moved. docs/service.md explains it.\n"
            "Exit code 1: the files are written, and the service does not work yet; 0, and a word about it, where no manager answers."
        ),
    ),
    ("service", "uninstall"): Command(
        module="service_uninstall",
        there=True,
        summary="Take the service of this repository away again",
        usage="cueloop service uninstall [--repo PATH] [--dry-run] [--force] [--json]",
        example="cueloop service uninstall --repo ~/code/gone",
        flags=(_DRY, Flag("force", None, "also remove files that somebody changed")),
        notes="A run goes on. Works with --repo for a repository that is not there any more. None there: exit code 0.",
    ),
    ("service", "status"): Command(
        module="service_status",
        there=True,
        summary="Say how the service is, and what to do where something is wrong",
        usage="cueloop service status [--json]",
        example="cueloop service status --json | jq -r '.problems[].remedy'",
        notes="Starts nothing. Exit code 0: all is well, 1: something is wrong, 3: there is no service.",
    ),
    ("service", "logs"): Command(
        module="service_logs",
        there=True,
        summary="Print what the service manager kept of the daemon: starts, failures, the watchdog",
        usage="cueloop service logs [-n N] [--follow] [--json]",
        example="cueloop service logs -n 100 --follow",
        flags=(
            Flag("lines", "N", "how many of the last lines (default 50)", short="n"),
            Flag("follow", None, "go on with what is written from now, until Ctrl-C", short="f"),
        ),
        notes="What the daemon itself writes down is in `cueloop daemon logs`.",
    ),
}
