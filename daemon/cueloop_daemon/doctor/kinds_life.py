"""The kinds of findings about what lives here: daemon, runs, agents, service, machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cueloop_daemon.doctor.kind import Kind, error, info, warning

DAEMON: Final[Mapping[str, Kind]] = {
    "daemon-stopped": error(
        "daemon", "The daemon's process was stopped by a signal (Ctrl-Z, SIGSTOP, a debugger).", "kill -CONT its pid."
    ),
    "daemon-silent": error(
        "daemon", "The daemon is very busy, or hangs.", "Look into its log (`cueloop daemon logs`); `cueloop daemon restart`."
    ),
    "daemon-misfit": error(
        "daemon", "The daemon and this command are of versions that have no protocol in common.", "`cueloop daemon restart`."
    ),
    "daemon-unusable": error(
        "daemon", "What listens at the daemon's place gives no answer that helps.", "`cueloop daemon restart`."
    ),
    "daemon-older": warning("daemon", "This program was updated while the daemon ran.", "`cueloop daemon restart`."),
    "daemon-newer": warning(
        "daemon", "A newer installation started the daemon; another `cueloop` was called here.", "Update this one."
    ),
    "daemon-without-socket": warning(
        "daemon",
        "The daemon's socket was removed, or is in a folder that this command does not use; the daemon makes it again within seconds.",
        "Look again in a moment; if it stays so: `cueloop daemon restart`.",
    ),
    "daemon-draining": info("daemon", "The daemon is leaving.", "Nothing: the next command starts another one."),
    "daemon-start-failed": warning(
        "daemon",
        "The last start of the daemon failed for the reason that is named.",
        "Remove the reason, then `cueloop daemon start`.",
    ),
    "daemon-kept-away": info(
        "daemon",
        "The daemon was stopped on purpose while a run went on, so that reading commands do not bring one back.",
        "`cueloop daemon start` when it is wanted again.",
    ),
    "socket-stale": info(
        "daemon", "A daemon was killed and could not remove its socket.", "Nothing: the next daemon replaces it."
    ),
    "locator-stale": info(
        "daemon", "A daemon was killed and could not remove its locator.", "Nothing: the next daemon replaces it."
    ),
    "locator-foreign": warning(
        "daemon",
        "The locator is of another machine or repository, or no locator at all (a copied or shared folder); it is not believed.",
        "Remove it: rm .cueloop/cache/cueloopd/locator.json",
    ),
    "watcher-degraded": warning(
        "daemon",
        "The system gives the daemon no events, so that changes are found more slowly.",
        "Raise the limit that is named.",
    ),
    "event-log-degraded": warning(
        "daemon",
        "The event log cannot be written, so that events are kept in memory only.",
        "Free space, or make the folder writable.",
    ),
}
RUNS: Final[Mapping[str, Kind]] = {
    "run-active": info("runs", "A run is at work here.", "`cueloop run status` shows it."),
    "run-without-daemon": warning(
        "runs",
        "A run goes on while no daemon looks after it: its shim does the work that was ordered.",
        "`cueloop daemon start`.",
    ),
    "run-interrupted": warning(
        "runs",
        "The process that carried the run is gone (killed, or the machine was booted), and no daemon has settled it yet.",
        "`cueloop daemon start` settles it; then `cueloop run resume` goes on with the task.",
    ),
    "run-folder-left": warning(
        "runs",
        "A run's folder is not in the record of runs: the record was removed, or the folder copied here.",
        "If you do not want its output: remove the folder.",
    ),
    "owed-steps": warning(
        "runs",
        "A crash came between a task's acceptance and the end of its completion (done file, commit, session).",
        "Nothing: the next run does it first and says so.",
    ),
    "runs-record-damaged": warning(
        "runs",
        "The record of runs was damaged; the next daemon moves it aside and begins a new one.",
        "Keep a copy of the file if you want the history.",
    ),
    "runs-record-newer": error(
        "runs",
        "A newer version wrote the record of runs; this one does not touch it and starts no run.",
        "Use the newer version.",
    ),
    "event-log-damaged": warning(
        "runs", "The event log was damaged; the next daemon moves it aside and begins a new one.", "Nothing."
    ),
    "damaged-files-kept": info(
        "runs",
        "A database was damaged once; what was there is kept for you to look at.",
        "Remove the files when you do not need them.",
    ),
    "stop-marker": info(
        "runs",
        "A stop was requested while no loop ran here.",
        "Nothing: the next loop removes it. By hand: rm .cueloop/cache/stop_requested",
    ),
    "left-over-files": info(
        "runs",
        "A process was killed while it wrote a file; what was written before is whole.",
        "Nothing: the next daemon removes them.",
    ),
    "sessions-quarantined": info(
        "runs", "Damaged session files were left behind by a fresh start.", "Remove them when you do not need them."
    ),
}
AGENTS: Final[Mapping[str, Kind]] = {
    "agent-missing": error("agents", "The program of an agent that the configuration uses is not on PATH.", "Install it."),
    "agent-sdk-missing": error(
        "agents", "Cursor is driven through its SDK, a package for Node.js, which was not found.", "npm install @cursor/sdk"
    ),
    "agent-not-executable": error("agents", "The file is there and may not be executed.", "chmod +x it."),
    "agent-broken": error(
        "agents",
        "The program ends with an error when it is only asked for its version: its interpreter or a part of it is missing.",
        "Install it anew.",
    ),
    "agent-silent": warning(
        "agents", "The program did not say its version within five seconds.", "Call it by hand and look what it waits for."
    ),
    "agent-retired": error("agents", "No run can succeed with this version.", "Install another one."),
    "agent-unknown": error(
        "agents", "The configuration names a runner that there is not.", "Choose one of those that are listed."
    ),
    "agent-refused": error(
        "agents", "The configuration asks for something that the runner cannot do.", "Change the setting that is named."
    ),
    "agent-needs-git": error(
        "agents", "The agent refuses to work outside a git work tree.", "`git init` here, or choose another agent."
    ),
    "agent-refuses-root": error(
        "agents", "Claude Code refuses to bypass permissions as root.", "Run as another user, or set IS_SANDBOX=1 in a container."
    ),
    "node-too-old": error("agents", "The agent runs on Node.js, and the one on PATH is too old.", "Install a newer Node.js."),
    "agent-version-untried": info(
        "agents",
        "Another version than the one that was tried; they drift.",
        "Nothing; if it misbehaves, docs/runners.md says what was tried.",
    ),
}
SERVICE: Final[Mapping[str, Kind]] = {
    "service-failed": warning(
        "service",
        "The service manager could not start or keep the daemon.",
        "`cueloop service status` and `cueloop service logs`.",
    ),
}
MACHINE: Final[Mapping[str, Kind]] = {
    "git-missing": warning(
        "machine", "Without git nothing can be reverted, committed or called clean.", "Install git, or put it on PATH."
    ),
    "not-a-work-tree": info("machine", "This folder is not in a git work tree.", "`git init`, if you want reverts and commits."),
    "tree-dirty": warning(
        "machine",
        "A run that begins a task wants a clean tree, so that its changes can be told from yours.",
        "Commit or stash them, or start with --force.",
    ),
    "home-ignored": warning("machine", "HOME is unset or no absolute path; the home of the passwd entry is used.", "Set HOME."),
    "home-missing": warning("machine", "The home folder does not exist or may not be entered.", "Set HOME to a folder of yours."),
    "clock-behind": warning(
        "machine",
        "Files here are newer than this machine's clock: it was set back, or a file server's clock differs.",
        "Set the clock (timedatectl set-ntp true).",
    ),
    "few-open-files": warning(
        "machine", "A process may open so few files that a daemon cannot serve its clients.", "Raise the limit: ulimit -n 4096"
    ),
    "no-compiled-files": info(
        "machine",
        "Python's compiled files are missing and may not be written (PYTHONDONTWRITEBYTECODE, or a read-only installation), "
        "so that each command starts more slowly.",
        "python -m compileall on the installation, or unset PYTHONDONTWRITEBYTECODE.",
    ),
    "cueloop-shadowed": warning(
        "machine", "The first `cueloop` on PATH is not this one, so that others call another tool.", "Change the order of PATH."
    ),
    "several-cueloops": info("machine", "More than one `cueloop` is on PATH.", "Nothing, if that is meant."),
    "rust-tool-missing": info(
        "machine",
        "Commands that are not ours (`cueloop task …`, `cueloop queue …`) are passed on to the Rust tool, which is not here.",
        "Install it on PATH, or set CUELOOP_RUST_BIN.",
    ),
    "check-failed": warning(
        "machine", "This is a mistake in the doctor itself, or in what the system answered.", "Please report it with the message."
    ),
}
KINDS: Final[Mapping[str, Kind]] = {**DAEMON, **RUNS, **AGENTS, **SERVICE, **MACHINE}
