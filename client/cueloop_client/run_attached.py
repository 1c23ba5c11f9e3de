"""Runs as commands: for programs and for people, from the start to the exit code. Standard library only."""

from __future__ import annotations

from cueloop_client.failures import CLOSED_PIPE, FAILED, INTERRUPTED, OK
from cueloop_client.run_begin import Declined, begin, is_interactive
from cueloop_client.run_desk import TerminalDesk
from cueloop_client.run_feed import Feed
from cueloop_client.run_follow import Ended, Follower, Left
from cueloop_client.run_manners import ForPeople, ForPrograms
from cueloop_client.run_parallel import pass_on_if_parallel
from cueloop_client.run_question import ask_about_session
from cueloop_client.run_signals import Signals
from cueloop_client.run_tell import JsonTeller, PeopleTeller
from cueloop_client.shapes import count, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context
    from cueloop_client.run_tell import Teller


def run_for_programs(context: Context, mode: str) -> int:
    """`machine run …`: nobody is asked, NDJSON alone on standard output, the summary's exit code."""
    pass_on_if_parallel(context, mode)
    with Signals(always=True) as signals:
        started = begin(context, mode, signals, None)
        feed = Feed(context, started.run_id, started.cursor)
        teller = JsonTeller(context, asides=False)
        return exit_code(Follower(context, started.run_id, feed, teller, signals, ForPrograms()).follow())


def run_for_people(context: Context, mode: str) -> int:
    """`run one|loop|resume`: asked on a terminal, shown to the end unless --detach. Raises what `begin` does."""
    pass_on_if_parallel(context, mode)
    if context.values.has("dry-run"):
        from cueloop_client.run_dry import show_what_would_be

        return show_what_would_be(context, mode)
    asks = is_interactive(context)
    with Signals(always=False) as signals:
        signals.bear(1)
        try:
            started = begin(context, mode, signals, (lambda error: ask_about_session(context, error)) if asks else None)
        except Declined as exc:
            context.say(exc.message)
            return exc.exit_code
        except KeyboardInterrupt:
            context.say("\nLeft before the daemon answered: whether the run began is not known. Look: cueloop run status")
            return INTERRUPTED
        signals.bear(None)
        if context.values.has("detach"):
            return _leave(context, started.run_id)
        feed = Feed(context, started.run_id, started.cursor)
        return show(context, started.run_id, mode, feed, signals)


def show(context: Context, run_id: str, mode: str, feed: Feed, signals: Signals, *, look_first: bool = False) -> int:
    """Show a run to its end, ask what it asks, obey Ctrl-C; gives the exit code for people. `look_first`: it may be over already."""
    teller: Teller = JsonTeller(context, asides=True) if context.json else PeopleTeller(context)
    manners = ForPeople(teller, mode)
    desk = TerminalDesk(context, run_id, teller)
    follower = Follower(context, run_id, feed, teller, signals, manners, desk)
    try:
        over = follower.follow(look_first=look_first)
    except BrokenPipeError:
        return CLOSED_PIPE
    if isinstance(over, Ended) and text(over.summary.get("outcome")) == "stopped" and (manners.is_cancelled or mode == "one"):
        return INTERRUPTED
    return people_exit_code(over)


def exit_code(over: Ended | Left) -> int:
    """Of a command for programs: the summary's, or 128 and the signal that made us leave."""
    return 128 + over.signal if isinstance(over, Left) else count(over.summary.get("exit_code"), FAILED)


def people_exit_code(over: Ended | Left) -> int:
    """Of a command for people: as for programs, but a refused loop has failed, too."""
    if isinstance(over, Ended) and text(over.summary.get("outcome")) in ("stalled", "failed"):
        return FAILED
    return exit_code(over)


def _leave(context: Context, run_id: str) -> int:
    if context.json:
        context.print_json({"run_id": run_id})
    else:
        context.print(f"Run {run_id} was started and goes on by itself.\nShow it: cueloop run attach")
    return OK
