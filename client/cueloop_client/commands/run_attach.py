"""`cueloop run attach`."""

from __future__ import annotations

from cueloop_client.run_active import meant_run
from cueloop_client.run_attached import show
from cueloop_client.run_feed import Feed
from cueloop_client.run_signals import Signals
from cueloop_client.run_status_text import attached_lines
from cueloop_client.shapes import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Show what the run does from now to its end; gives the exit code of the command that started it."""
    record = meant_run(context, or_last=False)
    run_id = text(record.get("run_id"))
    with Signals(always=False) as signals:
        feed = Feed(context, run_id, None)
        feed.open(start=True)  # before the look at how it stands, so that an end in between is seen
        if not context.json and text(record.get("state")) != "finished":
            context.print("\n".join(attached_lines(record)))
        return show(context, run_id, text(record.get("mode")), feed, signals, look_first=True)
