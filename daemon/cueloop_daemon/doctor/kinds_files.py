"""The kinds of findings about files that people and other tools write: places, session, queue, configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cueloop_daemon.doctor.kind import Kind, error, info, warning

PLACE: Final[Mapping[str, Kind]] = {
    "no-cueloop-folder": error(
        "place",
        "Nobody has made this a CueLoop repository, or the command was called in another folder.",
        "`cueloop init` here, or name the repository with --repo.",
    ),
    "folder-in-the-way": error(
        "place",
        "A file, or a link that leads out of the repository, stands where a folder must be; nothing is written through it.",
        "Move away what stands there.",
    ),
    "folder-foreign": error(
        "place", "A command was once run as another user, for example with sudo.", "Give it back to its owner with chown."
    ),
    "folder-not-writable": error(
        "place",
        "The mode of the folder, or a file system that is mounted read-only, keeps you out: no daemon and no run can work there.",
        "Make it writable for yourself (chmod u+rwx).",
    ),
    "disk-full": error("place", "The file system has no room left, or no inodes.", "Free space there."),
    "disk-nearly-full": warning(
        "place",
        "The file system has little room left; a run needs some for its record and its agents' output.",
        "Free space there.",
    ),
    "locks-unsupported": warning(
        "place",
        "This file system cannot lock files (some network file systems); the lock in /tmp alone decides who owns the repository.",
        "Keep the repository on a local disk, or use it from one machine only.",
    ),
    "local-folder-in-the-way": error(
        "place", "Something that is no folder stands where this user's locks and sockets must be.", "Remove it."
    ),
    "local-folder-foreign": error(
        "place", "Another user made the folder of your locks and sockets.", "Ask that user or an administrator to remove it."
    ),
    "local-folder-open": error("place", "Others could enter the folder of your locks and sockets.", "Close it: chmod 700."),
    "runtime-folder-unsafe": warning(
        "place",
        "The runtime folder must be yours and closed to others (0700); as it is, it is not used, and the socket is in /tmp.",
        "Correct XDG_RUNTIME_DIR, or the folder's owner and mode.",
    ),
    "socket-path-long": info(
        "place",
        "The path of a socket may have 107 bytes (macOS: 103), and with the runtime folder it would have more.",
        "Nothing: the socket is in /tmp.",
    ),
}
SESSION: Final[Mapping[str, Kind]] = {
    "session-waiting": info("session", "A run was interrupted.", "`cueloop run resume` goes on with it."),
    "session-settling": info("session", "Somebody was writing the session file at this moment.", "Look again in a moment."),
    "session-corrupt": error(
        "session",
        "It was damaged, or edited by hand: a run refuses rather than guess what it was.",
        "Repair the file, or `cueloop session clear` (it goes to the history, byte for byte).",
    ),
    "session-too-large": error(
        "session", "No session file is over 1 MiB; this one is not read.", "`cueloop session clear` moves it to the history."
    ),
    "session-too-new": error(
        "session",
        "A newer version wrote it; this one leaves it alone.",
        "Update this program, or `cueloop session clear` to abandon the session.",
    ),
    "session-unreadable": error("session", "You may not read the file.", "Give yourself access: chmod u+rw."),
    "session-not-a-file": error(
        "session",
        "A folder, a link or something else stands where the session file must be; it is never touched.",
        "Move it away; put the file itself in a link's place.",
    ),
    "session-timed-out": warning(
        "session",
        "The session is older than agent.session_timeout_hours: a run goes on with it only when somebody confirms.",
        "`cueloop run one` at a terminal asks; `cueloop session clear` abandons it.",
    ),
    "session-age-unknown": warning(
        "session",
        "The time stamp lies in the future or is none: a clock was wrong, or the file was edited.",
        "`cueloop run one` at a terminal asks; `cueloop session clear` abandons it.",
    ),
    "session-task-missing": warning(
        "session",
        "Its task is not in the queue any more, so the session is stale and the next run starts fresh.",
        "Put the task back to go on with it, or `cueloop session clear`.",
    ),
    "session-task-finished": warning(
        "session",
        "Its task was done or rejected meanwhile, so the session is stale and the next run starts fresh.",
        "`cueloop session clear`, or set the task to `doing` to go on with it.",
    ),
    "session-task-not-doing": warning(
        "session",
        "Its task is not `doing` (or is a group), so the session is stale and the next run starts fresh.",
        "Set the task to `doing` to go on with it, or `cueloop session clear`.",
    ),
}
QUEUE: Final[Mapping[str, Kind]] = {
    "queue-missing": error("queue", "No queue was made here, or queue.file names another place.", "`cueloop init` makes one."),
    "queue-unreadable": error(
        "queue", "The file cannot be opened or read.", "Give yourself access, or move away what stands there."
    ),
    "queue-not-json": error(
        "queue", "The text stops being JSON at the place that is named.", "Correct it there, or restore it from git."
    ),
    "queue-not-a-queue": error(
        "queue",
        "A key is unknown or missing, or a value is not what is allowed.",
        "Correct what is named, or restore it from git.",
    ),
    "queue-invalid": error(
        "queue",
        "Tasks contradict each other or the configuration: an id twice or of another form, a missing time, a dependency that "
        "does not exist, a circle.",
        "Correct the tasks that are named; `cueloop machine queue repair --dry-run` shows what could be repaired.",
    ),
    "done-unusable": error(
        "queue", "The done file cannot be read, or is no list of tasks.", "Correct it, or restore it from git."
    ),
    "queue-large": info(
        "queue",
        "The queue is over the size or the number of tasks at which the configuration wants to be told.",
        "Archive what is finished (`cueloop queue archive`), or raise the thresholds in the configuration.",
    ),
    "queue-lock-held": info(
        "queue", "Another tool is at work with the queue.", "Wait until it is done; a run that starts meanwhile says so and ends."
    ),
    "queue-lock-dead": warning(
        "queue",
        "A tool died while it held the queue lock.",
        "Nothing: the next run clears it. By hand: rm -r .cueloop/lock",
    ),
    "queue-lock-without-owner": error(
        "queue",
        "The lock's folder has no readable owner, so that nobody can know whether it is held; runs stall on it.",
        "If no CueLoop tool is running: rm -r .cueloop/lock",
    ),
}
CONFIG: Final[Mapping[str, Kind]] = {
    "config-unreadable": error(
        "config", "The file cannot be opened or read.", "Give yourself access, or move away what stands there."
    ),
    "config-not-json": error("config", "The text stops being JSON at the place that is named.", "Correct it there."),
    "config-invalid": error("config", "A key is unknown, or a value is not what is allowed.", "Correct the key that is named."),
    "global-config-unusable": error(
        "config", "Your own configuration has a mistake; it counts for every repository.", "Correct what is named."
    ),
    "trust-unusable": error(
        "config", "The trust file has a mistake.", 'Write {"allow_project_commands": true} or false into it.'
    ),
    "project-not-trusted": error(
        "config",
        "A project's configuration may name programs and loosen what agents may do only once you trust the repository.",
        'Look at what it says, then write {"allow_project_commands": true} into .cueloop/trust.jsonc.',
    ),
    "instruction-file-unusable": error(
        "config",
        "A file of agent.instruction_files does not exist, is blank, too large, no text, or cannot be read.",
        "Correct the file, or take it off the list.",
    ),
    "plugin-broken": warning(
        "config", "A plugin's manifest has a mistake; until it is corrected no plugin is offered.", "Correct its plugin.json."
    ),
    "plugin-conflict": warning(
        "config", "Two runners have the same id, compared without case.", "Give the plugin another id in its plugin.json."
    ),
    "plugin-missing": warning(
        "config",
        "The configuration enables a plugin that is not installed, or whose repository is not trusted.",
        "Install the plugin, or take it out of plugins.plugins.",
    ),
    "settings-unusable": error(
        "config",
        "The daemon's own settings have a mistake: one that runs goes on with what it read before, and none can start.",
        "Correct what is named.",
    ),
}
KINDS: Final[Mapping[str, Kind]] = {**PLACE, **SESSION, **QUEUE, **CONFIG}
