"""`cueloop machine run stop`: the marker that a loop looks at between tasks (contract sections 7 and 8)."""

from __future__ import annotations

import errno
import os

from cueloop_client.failures import Failure
from cueloop_client.fast import read
from cueloop_client.shapes import member
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.roots import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.context import Context
    from cueloop_protocol.roots import Root

MARKER = ".cueloop/cache/stop_requested"


class Marked(Frozen):
    """What was found and done."""

    action: str
    existed: bool
    exists: bool


def run(context: Context) -> int:
    """Create the marker, or with --dry-run say what would be done, and print the stop document.

    The paths in it come from the configuration, so one that cannot be used is the error that every document gives; nothing is
    created then. No daemon is started.
    """
    root = context.root()
    document = member(read(context, "config.resolve", {}, may_start=False), "document")
    dry_run = context.values.has("dry-run")
    marked = look(root) if dry_run else create(root)
    context.print_json(stop_document(marked, dry_run, member(document, "paths"), shown(os.path.join(root.path, MARKER))))
    return 0


def look(root: Root) -> Marked:
    """What `create` would do. Raises Failure where it would."""
    if os.path.lexists(root.join(MARKER)):
        return Marked("already_present", True, True)
    _check_root(root)
    cache = root.join(os.path.dirname(MARKER))
    if os.path.lexists(cache) and not os.path.isdir(cache):
        raise _in_the_way(root)
    closed = next((name for name in (".cueloop/cache", ".cueloop") if os.path.lexists(root.join(name))), ".cueloop")
    if not os.access(root.join(closed), os.W_OK | os.X_OK):
        raise _not_created(root, "Permission denied", "permission_denied")
    return Marked("would_create", False, False)


def create(root: Root) -> Marked:
    """Create the marker unless any file has its name. Raises Failure."""
    _check_root(root)
    try:
        os.makedirs(root.join(os.path.dirname(MARKER)), exist_ok=True)
        fd = os.open(root.join(MARKER), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        if os.path.lexists(root.join(MARKER)):
            return Marked("already_present", True, True)
        raise _in_the_way(root) from None
    except OSError as exc:
        word = "permission_denied" if isinstance(exc, PermissionError) or exc.errno == errno.EROFS else "unknown"
        raise _not_created(root, exc.strerror or str(exc), word) from exc
    os.close(fd)
    return Marked("created", False, True)


def _check_root(root: Root) -> None:
    if not os.path.isdir(root.join(".cueloop")):
        raise Failure(
            f"{shown(root.path)} has no .cueloop folder, so nothing can be running there to be stopped.",
            "Name the repository with --repo.",
        )


def _in_the_way(root: Root) -> Failure:
    return Failure(
        f"{shown(root.path)}/.cueloop/cache is not a folder, so the stop marker cannot be created.",
        "Move away what stands there.",
    )


def _not_created(root: Root, why: str, word: str) -> Failure:
    there = next((name for name in (".cueloop/cache", ".cueloop") if os.path.lexists(root.join(name))), ".cueloop")
    return Failure(
        f"The stop marker {shown(os.path.join(root.path, MARKER))} cannot be created: {why}.",
        f"Make {shown(root.path)}/{there} writable, or free space there.",
        word=word,
    )


def stop_document(marked: Marked, dry_run: bool, paths: dict[str, Any], marker: str) -> dict[str, Any]:
    """The stop document, version 1."""
    return {
        "version": 1,
        "dry_run": dry_run,
        "action": marked.action,
        "paths": paths,
        "marker": {"path": marker, "existed_before": marked.existed, "exists_after": marked.exists},
        "continuation": _continuation(marked),
    }


def _continuation(marked: Marked) -> dict[str, Any]:
    headline, detail = {
        "would_create": (
            "A stop would be requested.",
            "Nothing was changed. A loop that runs here would end after its current task.",
        ),
        "created": ("A stop is requested.", "A loop that runs here ends after its current task; the marker is removed then."),
        "already_present": ("A stop was requested before.", "A loop that runs here ends after its current task."),
    }[marked.action]
    steps = [("Look at the session", "cueloop session show", "What is interrupted, and what the next run would do.")]
    if marked.action == "would_create":
        steps.insert(0, ("Request the stop", "cueloop machine run stop", "The same without --dry-run."))
    return {
        "headline": headline,
        "detail": detail,
        "next_steps": [{"title": title, "command": command, "detail": why} for title, command, why in steps],
    }
