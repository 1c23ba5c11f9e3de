"""`cueloop run output`."""

from __future__ import annotations

from cueloop_client.context import encoded
from cueloop_client.fast import change
from cueloop_client.run_active import meant_run
from cueloop_client.run_feed import Feed
from cueloop_client.run_follow import poll
from cueloop_client.shapes import answer, count, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.context import Context

PIECE = 1024 * 1024
LOOK_SECONDS = 1.0
"""How long --follow waits for the run to say something before it looks at the output anyway."""


def run(context: Context) -> int:
    """Print what was written from the offset on; with --follow until the run is over."""
    run_id = text(meant_run(context, or_last=True).get("run_id"))
    offset = context.values.number("offset", 0)
    if context.json:
        context.print_json(_piece(context, run_id, offset))
        return 0
    offset, is_complete = _print(context, run_id, offset)
    if context.values.has("follow") and not is_complete:
        _follow(context, run_id, offset)
    return 0


def _piece(context: Context, run_id: str, offset: int) -> dict[str, Any]:
    return answer(change(context, "run.output", {"run_id": run_id, "offset": offset, "limit": PIECE}))


def _print(context: Context, run_id: str, offset: int) -> tuple[int, bool]:
    """Print to the end of what is there; where that is, and whether more cannot come."""
    while True:
        piece = _piece(context, run_id, offset)
        written = text(piece.get("text"))
        if written:
            context.world.write(1, encoded(written))
        after = count(piece.get("next_offset"), offset)
        if piece.get("complete") is True or after <= offset:
            return after, piece.get("complete") is True
        offset = after


def _follow(context: Context, run_id: str, offset: int) -> None:
    """The run's notifications say when to look again."""
    feed = Feed(context, run_id, None)
    is_complete = False
    try:
        while not is_complete:
            if not feed.is_open:
                feed.open(start=True)
            if poll([feed.fileno()], LOOK_SECONDS):
                for _ in feed.notes():
                    pass
            offset, is_complete = _print(context, run_id, offset)
    finally:
        feed.close()
