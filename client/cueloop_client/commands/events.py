"""`cueloop events`."""

from __future__ import annotations

import anyio
import anyio.to_thread

from cueloop_client.api.link import Opener
from cueloop_client.api.stream import Stream
from cueloop_client.calling import with_caller
from cueloop_client.failures import Failure, Usage
from cueloop_client.fast import read
from cueloop_client.note_text import KINDS, is_wanted, note_line
from cueloop_client.reach import why_no_daemon
from cueloop_client.shapes import count, member, text
from cueloop_protocol.cursor import Cursor, CursorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.api.stream import RawNote
    from cueloop_client.context import Context

QUIET_SECONDS = 1.0
"""Without --follow the end of the log is where the printing ends. The last events in it may be announcements about another user's
configuration, which we are not sent; then nothing comes for this long, and all that is ours was printed."""

INTERRUPTIONS = {
    "lost": "The connection to the daemon was lost; connecting again.",
    "stopped": "The daemon was stopped; waiting until it is started again.",
}


def run(context: Context) -> int:
    """Print notes from the cursor to the end of the log, or with --follow for ever."""
    since = _since(context)
    strange = [kind for kind in context.values.texts("kind") if kind not in KINDS]
    if strange:
        raise Usage(f"There is no kind {strange[0]!r}: the kinds are {', '.join(KINDS)}.")
    root = context.root()
    if (found := why_no_daemon(root)) is not None:
        raise Failure(*found, word="permission_denied")
    context.world.caller()  # another machine is asked now, where Ctrl-C still interrupts a login
    anyio.run(_follow if context.values.has("follow") else _print_log, context, since)
    return 0


def _since(context: Context) -> str | None:
    given = context.values.text("since")
    if not given:  # an empty variable of a script that has seen nothing yet
        return None
    try:
        return str(Cursor.parse(given))
    except CursorError as exc:
        raise Usage(f"--since: {exc}, not {given!r}.") from exc


async def _follow(context: Context, since: str | None) -> None:
    def interrupted(reason: str) -> None:
        context.say(f"cueloop: {INTERRUPTIONS.get(reason, f'The daemon left ({reason}); connecting again.')}")

    stream = _stream(context, since, list(context.values.texts("kind")), interrupted)
    try:
        while True:
            _print(context, await stream.next_note())
    finally:
        await stream.aclose()


async def _print_log(context: Context, since: str | None) -> None:
    log = member(await anyio.to_thread.run_sync(lambda: read(context, "daemon.status", {})), "events")
    epoch, last = text(log.get("epoch")), count(log.get("last_seq"))
    start = since or f"{epoch}:{max(count(log.get('first_seq')) - 1, 0)}"
    if start == f"{epoch}:{last}":
        return
    # The daemon's filter would hide the log's last event from us, so all of it is read and the filter is applied here.
    stream = _stream(context, start, [], None)
    try:
        await stream.open()
        await _print_until(context, stream, epoch, last)
    finally:
        await stream.aclose()


async def _print_until(context: Context, stream: Stream, epoch: str, last: int) -> None:
    wanted = frozenset(context.values.texts("kind"))
    while True:
        note: RawNote | None = None
        with anyio.move_on_after(QUIET_SECONDS):
            note = await stream.next_note()
        if note is None:
            return
        if is_wanted(note.method, note.params, wanted):
            _print(context, note)
        if _is_end(note.cursor, epoch, last):
            return


def _is_end(cursor: str, epoch: str, last: int) -> bool:
    """Whether a note with this cursor is the last one that the log had when we asked."""
    try:
        at = Cursor.parse(cursor)
    except CursorError:
        return False
    return at.epoch != epoch or at.seq >= last


def _stream(context: Context, since: str | None, kinds: list[str], interrupted: Any) -> Stream:
    opener = Opener(context.root(), context.world, may_start=True, seconds=context.seconds)
    params = with_caller(context.world.caller(), "events.subscribe", {"kinds": kinds} if kinds else {})
    return Stream(opener, params, since, context.seconds, interrupted)


def _print(context: Context, note: RawNote) -> None:
    if context.json:
        told = {key: value for key, value in note.params.items() if key != "subscription"}
        context.print_json({"method": note.method, **told}, indent=None)
    else:
        context.print(note_line(note.method, note.params, None))
