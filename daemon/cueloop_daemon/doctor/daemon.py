"""The daemon as it answered the command, or why it did not; and what daemons have left behind."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from shlex import quote

from cueloop_daemon.doctor.kinds import found
from cueloop_daemon.doctor.reading import beginning
from cueloop_daemon.doctor.sight import Sight
from cueloop_daemon.runners.calling import version_of
from cueloop_daemon.shim.wire import STOPPED
from cueloop_protocol.base import JsonObject
from cueloop_protocol.documents.doctor import DaemonReport, Finding
from cueloop_protocol.identity import is_same_process
from cueloop_protocol.place import FOLDER, LOCATOR, LOCATOR_LIMIT, SOCKET, parse_locator, root_hash, runtime_folders
from cueloop_protocol.roots import shown

_RECORD_LIMIT = 64 * 1024


def report(sight: Sight) -> DaemonReport:
    """How the daemon was met."""
    asked, status = sight.asked, sight.asked.status or {}
    pid, version = status.get("pid"), status.get("daemon_version")
    return DaemonReport(
        state="unusable" if asked.state == "misfit" else asked.state,
        pid=pid if isinstance(pid, int) else sight.owner,
        version=version if isinstance(version, str) else None,
        detail=asked.message or None,
    )


def daemon(sight: Sight) -> Iterator[Finding]:
    """What the live daemon says of itself, or how it failed to."""
    match sight.asked.state:
        case "running":
            yield from _running(sight, sight.asked.status or {})
        case "silent":
            yield from _silent(sight)
        case "misfit":
            yield found("daemon-misfit", sight.asked.message)
        case "unusable":
            yield found("daemon-unusable", f"{sight.asked.message} {sight.asked.detail}".strip())
        case "none":
            yield from _none(sight)
        case "not_asked":
            return


def _running(sight: Sight, status: JsonObject) -> Iterator[Finding]:
    theirs, ours = str(status.get("daemon_version", "")), sight.asked.version
    if (order := _compared(theirs, ours)) != 0:
        code, word = ("daemon-older", "older") if order < 0 else ("daemon-newer", "newer")
        yield found(code, f"The daemon has version {theirs}, which is {word} than this command's {ours}.")
    if status.get("state") == "draining":
        yield found("daemon-draining", f"The daemon (process {status.get('pid')}) is leaving.")
    for part, code, what in (
        ("watcher", "watcher-degraded", "Changes are found slowly"),
        ("events", "event-log-degraded", "Events are not kept"),
    ):
        health = status.get(part)
        if isinstance(health, dict) and health.get("degraded") is True:
            reason = str(health.get("reason") or "no reason given")
            yield found(code, f"{what}: {reason}", cause=reason)


def _compared(theirs: str, ours: str) -> int:
    """Below 0: theirs is older; 0: the same, or not to be told."""
    left, right = version_of(theirs), version_of(ours)
    if left is None or right is None or theirs == ours:
        return 0
    return (left > right) - (left < right)


def _silent(sight: Sight) -> Iterator[Finding]:
    pid = _located_pid(sight) or sight.owner
    who = f"The daemon (process {pid})" if pid is not None else "The daemon"
    waited = f"did not answer within {sight.asked.seconds:g} s"
    if pid is not None and _condition(pid) in ("T", "t"):
        yield found("daemon-stopped", f"{who} {waited}: it is stopped by a signal.", fix=f"kill -CONT {pid}")
    else:
        yield found("daemon-silent", f"{who} {waited}.")


def _none(sight: Sight) -> Iterator[Finding]:
    if (owner := sight.owner) is not None:
        yield found("daemon-without-socket", f"Process {owner} owns the repository, and nobody listens at a socket of it.")
        return
    for folder in dict.fromkeys((*runtime_folders(sight.environ, sight.uid), sight.local)):
        path = f"{folder}/{root_hash(sight.root)}/{SOCKET}"
        if os.path.lexists(path) and _is_deserted(path):
            yield found("socket-stale", f"{shown(path)} is there and nobody listens.", path=shown(path))
    yield from _start_failed(sight)
    if os.path.lexists(sight.root.join(STOPPED)):
        yield found("daemon-kept-away", f"{sight.seen(STOPPED)} says that the daemon was stopped on purpose.")


def _start_failed(sight: Sight) -> Iterator[Finding]:
    """What the last start said, as its starter wrote it down; a start that succeeds removes it."""
    path = f"{sight.local}/{root_hash(sight.root)}.failed"
    try:
        raw: object = json.loads(beginning(path, _RECORD_LIMIT, follow=False))
    except (ValueError, RecursionError):
        return
    if isinstance(raw, dict) and isinstance(message := raw.get("message"), str):
        detail = raw.get("detail")
        cause = detail if isinstance(detail, str) and detail else None
        yield found("daemon-start-failed", f"The last start failed: {message}", cause=cause)


def locator(sight: Sight) -> Iterator[Finding]:
    """A locator that leads nowhere. Where a daemon answers, it is that daemon's, or about to be made again."""
    if sight.asked.state in ("running", "silent", "misfit"):
        return
    path, text = f"{sight.ours}/{LOCATOR}", sight.seen(FOLDER, LOCATOR)
    try:
        status = os.lstat(path)
    except OSError:
        return
    if problem := _foreign(sight, path, status):
        yield found("locator-foreign", f"{text} {problem}.", fix=f"rm -r {quote(text)}", path=text)
    elif _located_pid(sight) is None:
        yield found("locator-stale", f"{text} names a process that is gone.", path=text)


def _foreign(sight: Sight, path: str, status: os.stat_result) -> str | None:
    """Why the locator is not to be believed at all; None for one that a daemon of this repository wrote."""
    if not stat.S_ISREG(status.st_mode) or status.st_uid != sight.uid or status.st_size > LOCATOR_LIMIT:
        return "is no file of yours"
    named = parse_locator(beginning(path, LOCATOR_LIMIT, follow=False))
    if named is None:
        return "is no locator"
    if named.host != os.uname().nodename:
        return f"is of another machine ({named.host})"
    if os.path.basename(os.path.dirname(named.socket)) != root_hash(sight.root):
        return "is of another repository"
    return None


def _located_pid(sight: Sight) -> int | None:
    """The live process that the locator names."""
    named = parse_locator(beginning(f"{sight.ours}/{LOCATOR}", LOCATOR_LIMIT, follow=False))
    if named is None or not is_same_process(named.pid, named.start_time, named.boot_id):
        return None
    return named.pid


def _is_deserted(path: str) -> bool:
    """Whether nobody has a socket in that folder, as the system's table says; to try would start a daemon where a manager listens.

    A daemon's socket is in the table under the name that it had before it was moved into its place.
    """
    folder = b" " + os.fsencode(os.path.dirname(path)) + b"/"
    try:
        with open("/proc/net/unix", "rb") as file:
            return not any(folder in line for line in file)
    except OSError:
        return False


def _condition(pid: int) -> str:
    """The letter for a process's state; empty where the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
    except OSError:
        return ""
    return data[data.rfind(b")") + 1 :].split()[0].decode("ascii", "replace")
