"""`cueloop service install`."""

from __future__ import annotations

from cueloop_client.failures import FAILED, Failure
from cueloop_client.reach import why_no_daemon
from cueloop_client.service.calling import words
from cueloop_client.service.installing import install, planned
from cueloop_client.service.platform import manager_of
from cueloop_client.service.text import installed, installed_json
from cueloop_protocol.roots import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context
    from cueloop_client.service.manager import Manager
    from cueloop_protocol.roots import Root


def run(context: Context) -> int:
    """Make the daemon a service of this user; 1 where it is written and does not work yet."""
    root, world = context.root(), context.world
    if (found := why_no_daemon(root)) is not None:
        raise Failure(*found, word="permission_denied")
    manager = manager_of(world)
    if context.values.has("dry-run"):
        return _tell_plan(context, root, manager)
    report = install(root, world, manager, force=context.values.has("force"))
    if context.json:
        context.print_json(installed_json(report))
    else:
        context.print(installed(report))
    return FAILED if report.failure is not None else 0


def _tell_plan(context: Context, root: Root, manager: Manager) -> int:
    """What would be written, and what would be called."""
    service, files = planned(root, context.world, manager)
    commands = manager.switch_on(service.key, service.instance, anew=False)
    if context.json:
        texts = [{"path": file.path, "content": file.content.decode("utf-8", "replace")} for file in files]
        context.print_json({"files": texts, "commands": [list(argv) for argv in commands]})
        return 0
    for file in files:
        context.print_title(f"{shown(file.path)}")
        context.print(file.content.decode("utf-8", "replace"))
    context.print_title("Then is called")
    context.print("\n".join(words(argv) for argv in commands))
    return 0
