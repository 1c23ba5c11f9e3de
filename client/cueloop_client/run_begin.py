"""Starting a run: the request, sent so that it starts one run however often, and what a person is asked before.

Standard library only.
"""

from __future__ import annotations

from cueloop_client.failures import INTERRUPTED, BadAnswer, Failure, Lost
from cueloop_client.fast import change
from cueloop_client.run_request import agents_environment, run_params
from cueloop_client.shapes import answer, text
from cueloop_protocol.codes import CONFIRMATION_REQUIRED, CONFIRMATION_STALE, RpcError
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from cueloop_client.context import Context
    from cueloop_client.run_signals import Signals

    Ask = Callable[[RpcError], str | None]
    """Puts the question of `confirmation_required` to a person: `resume`, `fresh`, or None for leaving everything as it is."""

TRIES = 3
"""How often the request is sent whose answer was lost: its key makes it the same run again."""


class Started(Frozen):
    """A run that began; `cursor` is before its first event."""

    run_id: str
    cursor: str


class Declined(Failure):
    """A person left the question unanswered: nothing was changed."""

    exit_code = INTERRUPTED


def is_interactive(context: Context) -> bool:
    """Whether somebody can be asked: standard input and error are a terminal, and nothing was said against it."""
    world = context.world
    return world.is_terminal(0) and world.is_terminal(2) and not context.values.has("non-interactive")


def begin(context: Context, mode: str, signals: Signals, ask: Ask | None) -> Started:
    """Start a run; with `ask`, somebody can be asked. Raises Usage, RpcError, Failure, and Declined."""
    params = run_params(mode, context.values, interactive=ask is not None)
    env, left = agents_environment(context.world.agents_environ())
    if left and not context.command.machine:
        context.say(f"cueloop: The agents do not get these variables, which are no UTF-8: {', '.join(map(ascii, left))}.")
    params["env"] = env
    while True:
        try:
            return _send(context, params)
        except RpcError as exc:
            params.pop("answer", None)
            if ask is not None and exc.code == CONFIRMATION_STALE:
                context.say(f"cueloop: {exc.document['message']}")
            elif ask is not None and exc.code == CONFIRMATION_REQUIRED:
                params["answer"] = _answer(exc, signals, ask)
            else:
                raise


def _send(context: Context, params: Mapping[str, Any]) -> Started:
    """One wish to start: sent with a key of its own, so that a repetition gives the same run."""
    keyed = {**params, "idempotency_key": context.world.key()}
    for left in range(TRIES - 1, -1, -1):
        try:
            result = answer(change(context, "run.start", keyed))
            break
        except Lost:
            if not left:
                raise
    run_id, cursor = text(result.get("run_id")), text(result.get("cursor"))
    if not run_id or not cursor:
        raise BadAnswer("The daemon's answer to run.start has no run_id or no cursor.")
    return Started(run_id, cursor)


def _answer(exc: RpcError, signals: Signals, ask: Ask) -> dict[str, Any]:
    """What a person answers, for the file that the question was about. Raises Declined."""
    try:
        signals.interrupt(True)
        choice = ask(exc)
    except KeyboardInterrupt:
        raise Declined("\nLeft as it is: nothing was started and nothing was changed.") from None
    finally:
        signals.interrupt(False)
    if choice is None:
        raise Declined("Left as it is: nothing was started and nothing was changed.")
    return {"choice": choice, "session_etag": text(exc.data.get("session_etag"))}
