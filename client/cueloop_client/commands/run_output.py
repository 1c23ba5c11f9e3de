"""`cueloop run output`."""

from __future__ import annotations

from cueloop_client.context import encoded
from cueloop_client.failures import Lost, Silent, Unreached
from cueloop_client.far import pause_before
from cueloop_client.fast import change
from cueloop_client.run_active import meant_run
from cueloop_client.run_feed import Feed
from cueloop_client.run_follow import PAUSES, STARTS, poll
from cueloop_client.shapes import answer, count, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.context import Context

PIECE = 1024 * 1024
LOOK_SECONDS = 1.0
"""How long --follow waits for the run to say something before it looks at the output anyway."""


def run(context: Context) -> int:
    """Print what was written from the offset on; with --follow until the run is over, over whatever connections that takes."""
    run_id = text(meant_run(context, or_last=True).get("run_id"))
    output = Output(context, run_id, context.values.number("offset", 0))
    if context.json:
        context.print_json(output.piece())
        return 0
    if context.values.has("follow"):
        _follow(context, output)
    else:
        output.catch_up()
    return 0


class Output:
    """What a run has written, printed up to `offset`."""

    def __init__(self, context: Context, run_id: str, offset: int) -> None:
        self._context = context
        self.run_id = run_id
        self.offset = offset
        self.is_complete = False
        """Whether more cannot come."""

    def piece(self) -> dict[str, Any]:
        """The answer for what is at the offset. Raises what a call raises."""
        return answer(change(self._context, "run.output", {"run_id": self.run_id, "offset": self.offset, "limit": PIECE}))

    def catch_up(self) -> None:
        """Print to the end of what is there. Raises what a call raises; what was printed by then is not printed again."""
        while not self.is_complete:
            piece = self.piece()
            written = text(piece.get("text"))
            if written:
                self._context.world.write(1, encoded(written))
            before, self.offset = self.offset, max(self.offset, count(piece.get("next_offset"), self.offset))
            self.is_complete = piece.get("complete") is True
            if self.offset == before:
                return


def _follow(context: Context, output: Output) -> None:
    """The run's notifications say when to look again."""
    feed = Feed(context, output.run_id, None)
    attempt = 0
    try:
        while not output.is_complete:
            try:
                if feed.is_open and poll([feed.fileno()], LOOK_SECONDS):
                    for _ in feed.notes():
                        pass
                if not feed.is_open:
                    feed.open(start=True)
                output.catch_up()
                attempt = 0
            except (Lost, Silent, Unreached):
                feed.close()
                if attempt >= STARTS:
                    raise
                poll([], pause_before(attempt, context.root(), PAUSES))
                attempt += 1
    finally:
        feed.close()
