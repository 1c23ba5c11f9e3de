"""`cueloop debug dump`."""

from __future__ import annotations

import os

from cueloop_client.again import ask_running
from cueloop_client.failures import Failure, Lost, Silent
from cueloop_client.fast import answer_here
from cueloop_client.hung import ask_for_stacks, living_process
from cueloop_client.outside import seen_from_outside
from cueloop_client.redacting import without_private
from cueloop_protocol.roots import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.context import Context

ANSWER_SECONDS = 5.0
"""How long the daemon is given for its part, unless --timeout says otherwise; an honest dump takes a tenth of a second."""
STACKS_SECONDS = 2.0


def run(context: Context) -> int:
    """Write the dump; exit code 0 whatever state the daemon is in."""
    target = context.values.text("output")
    if target == "":
        raise Failure("--output needs the name of a file, or -.")
    document = without_private(collected(context), context.world)
    data = _printed(document)
    if target == "-":
        context.world.write(1, data)
        return 0
    path = target or f"cueloop-dump-{_stamp(context)}.json"
    _write_new(path, data)
    if context.json:
        context.print_json({"path": shown(os.path.abspath(path)), "bytes": len(data), "daemon": document["daemon"]["state"]})
    else:
        context.print(f"Written to {shown(path)} ({len(data) / 1000:.0f} KB). Look through it before you send it to anybody.")
    return 0


def collected(context: Context) -> dict[str, Any]:
    """Everything that can be known: by the daemon where it answers, else from outside."""
    daemon, dump = _from_daemon(context)
    if dump is None:
        try:
            dump = answer_here(context, context.root(), "daemon.dump", {})
        except Exception as exc:  # a broken installation is what the rest of the file may explain
            daemon["here"] = f"What is on disk cannot be told: {type(exc).__name__}: {exc}"
    return {"version": 1, "client": _client(context), "daemon": daemon, "dump": dump}


def _from_daemon(context: Context) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """How the daemon is, and its own dump if it gave one. Never raises for what the daemon is."""
    world, root = context.world, context.root()
    deadline = world.deadline(context.seconds if context.values.has("timeout") else ANSWER_SECONDS)
    said = "--no-daemon was given."
    try:
        dump = None if context.without_daemon else ask_running(root, world, deadline, "daemon.dump", any_version=True)
        if dump is not None:
            return {"state": "answered"}, dump
        said = said if context.without_daemon else "Nobody listens."
        is_silent = False
    except (Silent, Lost) as exc:
        said, is_silent = exc.message, True
    except Exception as exc:  # of another version, or broken: that is what is to be told
        said, is_silent = f"{type(exc).__name__}: {exc}", False
    process = living_process(root, world)
    if process is None:
        return {"state": "not running", "said": said}, None
    outside = {name: value for name, value in vars(seen_from_outside(process.pid)).items() if value is not None}
    found = {"state": "not answering" if is_silent else "running", "said": said, "pid": process.pid, "seen_from_outside": outside}
    if is_silent:
        is_stopped = str(outside.get("condition", "")).startswith("stopped")
        asked = "It is stopped, and says nothing until it is continued." if is_stopped else None
        found["stacks"] = asked or ask_for_stacks(root, process, world.deadline(STACKS_SECONDS))
    return found, None


def _client(context: Context) -> dict[str, Any]:
    import platform
    import sys

    from cueloop_protocol.version import __version__

    return {
        "version": __version__,
        "python": sys.version,
        "executable": sys.executable,
        "platform": platform.platform(),
        "repository": shown(context.root().path),
        "environment": sorted(shown(name) for name in context.world.environ),
    }


def _printed(document: dict[str, Any]) -> bytes:
    import json

    return json.dumps(document, indent=1, ensure_ascii=True).encode("ascii") + b"\n"


def _stamp(context: Context) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(context.world.wall(), UTC):%Y%m%dT%H%M%SZ}"


def _write_new(path: str, data: bytes) -> None:
    """A new file for its owner alone, whole or not at all. Raises Failure where something is there already; an OSError names it."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError as exc:
        raise Failure(f"{shown(path)} is there already, and is not overwritten.", "Give another name with --output.") from exc
    try:
        with open(fd, "wb") as file:
            file.write(data)
    except OSError as exc:
        os.unlink(path)
        raise OSError(exc.errno, exc.strerror, path) from exc
