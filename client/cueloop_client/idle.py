"""Waiting until no run is active and no question is open. Standard library only."""

from __future__ import annotations

import select

from cueloop_client.failures import NoDaemon, Silent
from cueloop_client.run_feed import Feed
from cueloop_client.shapes import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context

LOOK = 5.0
"""Seconds without news after which the daemon is looked at again: its subscription may have died unheard."""


class Waiting:
    """Waits as often as it is asked to, with one deadline for all: --timeout, if that was given, else none."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._deadline = context.world.deadline(context.seconds) if context.values.has("timeout") else None
        self._told = ""

    def until_idle(self) -> None:
        """Return when no run is active, or no daemon runs. Raises Silent at the deadline; nothing was changed then.

        The subscription is closed before this returns, so that whoever hands over has one caller less to tell.
        """
        while True:
            feed = Feed(self._context, None, None)
            try:
                feed.open(start=False)
                if self._is_idle(feed):
                    return
                self._await_end(feed)
            except NoDaemon:
                return
            finally:
                feed.close()

    def _is_idle(self, feed: Feed) -> bool:
        """Looks at the state where the subscription began; says what is waited for."""
        run = feed.snapshot.get("active_run")
        if not isinstance(run, dict):
            return True
        run_id, task = text(run.get("run_id")), text(run.get("task_id"))
        asking = ", which asks a question (cueloop run attach)" if feed.snapshot.get("questions") else ""
        self._tell(f"Waiting for run {run_id}{f' (task {task})' if task else ''} to end{asking}. Ctrl-C leaves all as it is.")
        return False

    def _await_end(self, feed: Feed) -> None:
        """Return at the end of a run, a question, or the connection: then it is looked at again."""
        poll = select.poll()
        poll.register(feed.fileno(), select.POLLIN)
        while feed.is_open:
            left = LOOK if self._deadline is None else min(LOOK, self._deadline.left())
            if not poll.poll(left * 1000):
                if self._deadline is not None and self._deadline.is_over():
                    raise Silent(
                        f"The run did not end within {self._deadline.seconds:g} s; the daemon runs on as it was.",
                        "Wait longer (--timeout), or choose: --leave-runs, --cancel-runs.",
                        word="resource_busy",
                    )
                return
            if any(note.method in ("run.finished", "question") for note in feed.notes()):
                return

    def _tell(self, line: str) -> None:
        if line != self._told:
            self._told = line
            self._context.say(line)
