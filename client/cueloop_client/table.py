"""The commands of ours: their names, options and help. Standard library only; a command's module is loaded when called."""

from __future__ import annotations

from cueloop_client.command import Command as Command
from cueloop_client.completions_table import COMPLETIONS
from cueloop_client.flags import Flag
from cueloop_client.run_table import RUNS
from cueloop_client.service_table import SERVICE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

COMMANDS: Mapping[tuple[str, ...], Command] = {
    **RUNS,
    ("machine", "config", "resolve"): Command(
        module="config_resolve",
        summary="Print the config-resolve document: the merged configuration and what the next run would do",
        usage="cueloop machine config resolve",
        example="cueloop machine config resolve | jq .resume_preview",
        without_daemon=True,
        machine=True,
        notes="Changes nothing. Git is asked anew for this answer.",
    ),
    ("machine", "workspace", "overview"): Command(
        module="workspace_overview",
        summary="Print queue, done list, what can run, and the config-resolve document, all of one moment",
        usage="cueloop machine workspace overview",
        example="cueloop machine workspace overview | jq .queue.next_runnable_task_id",
        without_daemon=True,
        machine=True,
    ),
    ("machine", "run", "stop"): Command(
        module="machine_run_stop",
        there=True,
        summary="Ask the loop that runs here to stop after its current task",
        usage="cueloop machine run stop [--dry-run]",
        example="cueloop machine run stop --dry-run",
        flags=(Flag("dry-run", None, "say what would be done"),),
        without_daemon=True,
        machine=True,
        notes="Creates the marker .cueloop/cache/stop_requested; needs no daemon.",
    ),
    ("session", "show"): Command(
        module="session_show",
        summary="Show the interrupted session and what the next run would do with it",
        usage="cueloop session show [--json]",
        example="cueloop session show",
        without_daemon=True,
    ),
    ("session", "clear"): Command(
        module="session_clear",
        summary="Abandon the interrupted session; its file goes to the history",
        usage="cueloop session clear [--yes | --etag ETAG]",
        example="cueloop session clear --yes",
        flags=(
            Flag("etag", "ETAG", "only if the file is still the one that `session show --json` gave this etag for"),
            Flag("yes", None, "do not ask", short="y"),
        ),
        notes="Without --yes or --etag it shows the session and asks; with nobody to ask it does nothing and exits with 2.",
    ),
    ("events",): Command(
        module="events",
        summary="Print what happened here: decisions, changes of the queue, runs",
        usage="cueloop events [--follow] [--since CURSOR] [--kind KIND]… [--json]",
        example="cueloop events --follow --kind resume_decision --json",
        flags=(
            Flag("follow", None, "go on with what happens from now, until Ctrl-C", short="f"),
            Flag("since", "CURSOR", "start after this cursor; without one: from the log's beginning, or with --follow from now"),
            Flag("kind", "KIND", "only events of this kind; may be repeated", repeats=True),
        ),
        notes="With --json each line is one JSON object with `cursor`; the last one is where to go on with --since.",
    ),
    ("daemon", "start"): Command(
        module="daemon_start",
        there=True,
        summary="Start the daemon of this repository, if none runs",
        usage="cueloop daemon start",
        example="cueloop daemon start",
        notes="Other commands start it by themselves when they need it.",
    ),
    ("daemon", "stop"): Command(
        module="daemon_stop",
        there=True,
        summary="Stop the daemon of this repository and wait until its process is gone",
        usage="cueloop daemon stop [--leave-runs | --cancel-runs]",
        example="cueloop daemon stop",
        flags=(
            Flag("leave-runs", None, "let an active run go on without the daemon"),
            Flag("cancel-runs", None, "cancel an active run"),
        ),
        notes="Works for a daemon of any version. With a run active it refuses unless told what to do. Not running: exit code 0.",
    ),
    ("daemon", "restart"): Command(
        module="daemon_restart",
        there=True,
        summary="Put this version's daemon in the place of the one that runs, without turning a caller away",
        usage="cueloop daemon restart [--when-idle | --leave-runs | --cancel-runs]",
        example="cueloop daemon restart --when-idle",
        flags=(
            Flag("when-idle", None, "wait until no run is active and no question is open (--timeout: at most so long)"),
            Flag("leave-runs", None, "let an active run go on under the new daemon"),
            Flag("cancel-runs", None, "cancel an active run"),
        ),
        notes=(
            "With a run active it refuses unless told what to do. If the new daemon cannot start, the old one goes on. One that does\n"
            "not answer is ended."
        ),
    ),
    ("daemon", "status"): Command(
        module="daemon_status",
        there=True,
        summary="Say whether the daemon runs, and how it is",
        usage="cueloop daemon status [--json | --prometheus]",
        example="cueloop daemon status --json | jq .running",
        flags=(Flag("prometheus", None, "print metrics in the text form of Prometheus"),),
        notes="Starts nothing. Exit code 3: it does not run.",
    ),
    ("daemon", "list"): Command(
        module="daemon_list",
        there=True,
        summary="List all daemons of yours on this machine: repository, state, age, memory, run",
        usage="cueloop daemon list [--json]",
        example="cueloop daemon list --json | jq -r '.daemons[].repository'",
        notes="Starts nothing, needs no repository, and takes two seconds at most: a daemon that says nothing is listed as such.",
    ),
    ("daemon", "logs"): Command(
        module="daemon_logs",
        there=True,
        summary="Print the end of the daemon's log, and what a daemon said that died at its start",
        usage="cueloop daemon logs [-n N] [--follow] [--json]",
        example="cueloop daemon logs -n 100 --follow",
        flags=(
            Flag("lines", "N", "how many of the last lines (default 50)", short="n"),
            Flag("follow", None, "go on with what is written from now, until Ctrl-C", short="f"),
        ),
        notes="Needs no daemon. With --json the lines are the log's own; with --follow a log that is not there yet is waited for.",
    ),
    ("debug", "dump"): Command(
        module="debug_dump",
        there=True,
        summary="Write a file for a bug report: stacks, counters, the recent log, and nothing of yours",
        usage="cueloop debug dump [--output FILE]",
        example="cueloop debug dump --output report.json",
        flags=(Flag("output", "FILE", "where to (default cueloop-dump-<time>.json here; - is standard output)", short="o"),),
        without_daemon=True,
        notes=(
            "Works with a daemon that is dead or hangs, too. Contents of files, prompts, task texts, secrets and values of the\n"
            "environment are left out. An existing file is never overwritten. Look through it before you send it."
        ),
    ),
    ("doctor",): Command(
        module="doctor",
        there=True,
        summary="Say what is wrong here, what to do, what the next run would do and why, and which agents there are",
        usage="cueloop doctor [--json] [--no-versions]",
        example="cueloop doctor --json | jq -r '.findings[].fix'",
        flags=(Flag("no-versions", None, "do not start the agents' programs to ask them for their versions"),),
        without_daemon=True,
        notes=(
            "Changes nothing and starts no daemon; one that runs is asked, and one that does not answer is a finding.\n"
            "Exit code 0: nothing is wrong (warnings may be there), 1: at least one error. docs/doctor.md has all findings."
        ),
    ),
    **COMPLETIONS,
    **SERVICE,
    ("dial-stdio",): Command(
        module="dial_stdio",
        summary="Connect standard input and output to the daemon here: what --host calls on the other machine",
        usage="cueloop dial-stdio",
        example="cueloop dial-stdio --repo code/app",
        here=True,
        words=1,
        notes="JSON-RPC goes both ways, as over the socket. It leaves within two seconds of either end.",
    ),
}

LATER: Mapping[tuple[str, ...], str] = {
    **{(word,): word for word in ("live", "history", "dashboard", "fleet")},
}
"""Commands of ours that this version does not have yet → how people call them. They are never passed on by themselves."""

GROUPS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("session",): ("show", "clear"),
    ("daemon",): ("start", "stop", "restart", "status", "list", "logs"),
    ("completions",): ("bash", "zsh", "fish"),
    ("debug",): ("dump",),
    ("service",): ("install", "uninstall", "status", "logs"),
    ("run",): ("one", "loop", "resume", "stop", "cancel", "status", "attach", "output"),
}
"""First words that need a second one."""

PARTLY_OURS: Mapping[str, tuple[int, ...]] = {"machine": (3,), "run": (2,)}
"""First words of which some commands are ours and all others the Rust tool's → how many words make a command of ours."""
