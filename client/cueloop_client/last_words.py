"""What a daemon that is not there any more left behind of its end. Standard library only."""

from __future__ import annotations

from cueloop_client.backoff import Backoff
from cueloop_client.spawn import last_words as end_of_stderr
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.owners import read_owner
from cueloop_protocol.place import PlaceError, check_private_folder, local_folder, root_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


class LastWords(Frozen):
    """`reason`: why the last start failed; `stderr`: the end of what a daemon said outside its log. Either may be empty."""

    reason: str
    stderr: str


def last_words(context: Context) -> LastWords | None:
    """Of the last daemon of the repository, if it died; None while one lives, and after one that left as it should."""
    world, key = context.world, root_hash(context.root())
    folder = local_folder(world.uid)
    try:
        check_private_folder(folder, world.uid)
    except PlaceError:
        return None
    if read_owner(folder, key, world.uid) is not None:
        return None
    failure = Backoff(f"{folder}/{key}.failed", world.wall).last()
    reason = "" if failure is None else f"{failure.message}\n{failure.detail}" if failure.detail else failure.message
    found = LastWords(reason, end_of_stderr(f"{folder}/{key}.stderr"))
    return found if found.reason or found.stderr else None
