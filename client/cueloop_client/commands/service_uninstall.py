"""`cueloop service uninstall`."""

from __future__ import annotations

import os

from cueloop_client.service.calling import words
from cueloop_client.service.platform import manager_of
from cueloop_client.service.removing import find, uninstall
from cueloop_client.service.text import removed, removed_json
from cueloop_protocol.roots import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Take the service away; none there is no failure. Works for a repository that is not there any more."""
    repository = named_repository(context)
    manager = manager_of(context.world)
    if context.values.has("dry-run"):
        found = find(manager, repository)
        commands = manager.switch_off(found.key, found.instance) if found is not None else ()
        paths = found.paths if found is not None else ()
        if context.json:
            context.print_json({"files": list(paths), "commands": [list(argv) for argv in commands]})
        else:
            lines = [*(words(argv) for argv in commands), *(f"remove {shown(path)}" for path in paths)]
            context.print("\n".join(lines) or f"There is no service for {shown(repository)}.")
        return 0
    done = uninstall(manager, repository, force=context.values.has("force"))
    if context.json:
        context.print_json(removed_json(done))
    else:
        context.print(removed(done, repository))
    return 0


def named_repository(context: Context) -> str:
    """The path of the repository that is meant, also of one that was removed: it is named by --repo then. Raises Usage."""
    try:
        return context.root().path
    except Exception:
        named = context.values.text("repo")
        if not named or os.path.exists(named):
            raise
        return os.path.realpath(named)
