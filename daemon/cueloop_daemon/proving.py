"""What must hold before a daemon starts, and what can be done of a start while another one serves."""

from __future__ import annotations

import os
import resource

from cueloop_daemon.store.git import Git
from cueloop_daemon.store.living_settings import LivingSettings, SettingsUnusable
from cueloop_daemon.store.settings import load_settings
from cueloop_daemon.takeover.databases import newer_databases
from cueloop_daemon.watch.clock import SystemClock
from cueloop_daemon.workspace.files import read_regular
from cueloop_daemon.workspace.workspace import Caches, warm
from cueloop_protocol.place import ensure_private_folder, local_folder
from cueloop_protocol.roots import Caller, Root, settings_path, shown

SPARE_DESCRIPTORS = 128
"""Files that are open beside the connections: logs, databases, watches, what is being read."""


class StartFailed(Exception):
    """The daemon cannot start; `str()` is a plain sentence, `remedy` another, `code` the error document's word."""

    def __init__(self, message: str, remedy: str, code: str) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.code = code


def prove(root: Root, environ: dict[str, str], home: str, uid: int) -> Caches:
    """Do what can be done of a start while another daemon serves: see what would keep it from succeeding, read all files, ask git.

    Raises StartFailed and PlaceError, so that nobody leaves for a successor that cannot be.
    """
    caller = Caller(home, None)
    load_own_settings(caller)
    ensure_private_folder(local_folder(uid), uid)
    return warm(root, caller, SystemClock(), Git(environ))


def refuse_newer_databases(root: Root, home: str) -> None:
    """Raise StartFailed if a newer version was here before: nothing of it is touched."""
    for path, reason in newer_databases(root, home):
        folder = shown(os.path.dirname(path))
        raise StartFailed(
            f"{shown(path)} cannot be used by this version: {reason}.",
            "Update cueloop again; or, to stay with this version and begin without the events and runs that there are, move "
            f"events.db* and runs.db* out of {folder}.",
            "version_mismatch",
        )


def load_own_settings(caller: Caller) -> LivingSettings:
    """The daemon's own settings. Raises StartFailed."""
    try:
        return LivingSettings(settings_path(caller), lambda: load_settings(caller, lambda path: read_regular(path)[0]))
    except SettingsUnusable as exc:
        raise StartFailed(exc.why.message, exc.why.detail or "Correct the file.", exc.why.code) from None


def allow_descriptors(wanted: int) -> int:
    """Raise the soft limit of open files so that `wanted` connections fit, as far as the hard limit lets us; how many do.

    Callers must never take what runs, databases and a handover need: where files are few, connections are fewer.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted + SPARE_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(wanted + SPARE_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return min(wanted, max(most - SPARE_DESCRIPTORS, most // 4))
