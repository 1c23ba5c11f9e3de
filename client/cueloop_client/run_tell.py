"""How a run is told: as lines of JSON for programs, as text for people. Standard library only."""

from __future__ import annotations

from cueloop_client.context import encoded
from cueloop_client.shapes import count, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from cueloop_client.context import Context

    class Teller(Protocol):
        """Where the parts of a run's story go. Each may raise BrokenPipeError: the reader went away."""

        def event(self, event: Mapping[str, Any]) -> None:
            """One event of the run."""

        def gap(self, first: str, last: str) -> None:
            """The events between two cursors cannot be told any more."""

        def aside(self, words: str) -> None:
            """A sentence about this command and not the run: a lost connection, what a signal did."""

        def end(self, summary: Mapping[str, Any], error: Mapping[str, Any] | None) -> None:
            """The run is over; nothing follows."""


INTERRUPTIONS = {
    "lost": "The connection to the daemon was lost; the run goes on. Connecting again.",
    "stopped": "The daemon was stopped and the run left to itself; waiting until a daemon is started again.",
    "upgrade": "The daemon is being replaced; the run goes on.",
}


def interruption(reason: str) -> str:
    """Why the connection ended, for people."""
    return INTERRUPTIONS.get(reason, f"The daemon left ({reason}); the run goes on. Connecting again.")


class JsonTeller:
    """For programs: each event a line of JSON on standard output, the summary last, an error document on standard error.

    Sentences for people are left out (`asides` false) or go to standard error.
    """

    def __init__(self, context: Context, *, asides: bool) -> None:
        self._context = context
        self._asides = asides

    def event(self, event: Mapping[str, Any]) -> None:
        """One line, the event as the daemon made it."""
        self._context.print_json(event, indent=None)

    def gap(self, first: str, last: str) -> None:
        """A warning event of our own, since the run's events cannot say that they are missing."""
        words = f"Events of this run between {first} and {last} are no longer kept by the daemon and left out here."
        self.event({"version": 3, "kind": "warning", "timestamp": _stamp(self._context.world.wall()), "message": words})

    def aside(self, words: str) -> None:
        """On standard error, where wanted."""
        if self._asides:
            self._context.say(f"cueloop: {words}")

    def end(self, summary: Mapping[str, Any], error: Mapping[str, Any] | None) -> None:
        """The summary, and the error document if there is one."""
        self._context.print_json(summary, indent=None)
        if error is not None:
            import json

            self._context.world.write(2, json.dumps(error, indent=2).encode("ascii") + b"\n")


class PeopleTeller:
    """For people: the agents' words and what happens on standard output; warnings, refusals and asides on standard error."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._in_line = False
        self._told: tuple[str, str] | None = None
        self._warned: set[str] = set()
        self._saw_work = False

    def event(self, event: Mapping[str, Any]) -> None:
        """A line, or the agent's text as it is."""
        kind = text(event.get("kind"))
        payload = event.get("payload")
        members: Mapping[str, Any] = payload if isinstance(payload, dict) else {}
        message = text(event.get("message"))
        self._saw_work = self._saw_work or kind == "phase_completed"
        if kind == "runner_output":
            self._output(text(members.get("text")))
        elif kind in ("resume_decision", "blocked_state_changed"):
            self._state(members, message)
        elif kind == "warning":
            self._warned.add(message)
            self._say(f"Warning: {message}")
        else:
            self._line(_line_of(kind, event, message))

    def gap(self, first: str, last: str) -> None:
        """On standard error."""
        self._say(
            f"Events between {first} and {last} are no longer kept and cannot be shown; `cueloop run output` has the output."
        )

    def aside(self, words: str) -> None:
        """On standard error."""
        self._say(words)

    def end(self, summary: Mapping[str, Any], error: Mapping[str, Any] | None) -> None:
        """How it ended, in a line; why, on standard error."""
        self._line(_end_of(summary, saw_work=self._saw_work))
        if error is not None:
            self._reason(text(error.get("message")), text(error.get("detail")))

    def _reason(self, message: str, detail: str) -> None:
        """Why it failed, without what was said already."""
        if (message, detail) == self._told:
            return
        words = [detail] if message in self._warned else [message, detail]
        if any(words):
            self._say("\n".join(part for part in words if part))

    def _output(self, words: str) -> None:
        if words:
            self._context.world.write(1, encoded(words))
            self._in_line = not words.endswith("\n")

    def _state(self, members: Mapping[str, Any], message: str) -> None:
        """A decision or a blocked state; the second of two that say the same is left out."""
        told = (message, text(members.get("detail")))
        if told == self._told:
            return
        self._told = told
        words = "\n".join(part for part in told if part)
        if text(members.get("status")) in ("refusing_to_resume", "stalled"):
            self._say(words)
        else:
            self._line(words)

    def _line(self, words: str) -> None:
        if words:
            self._fresh_line()
            self._context.print(words)

    def _say(self, words: str) -> None:
        self._fresh_line()
        self._context.say(f"cueloop: {words}")

    def _fresh_line(self) -> None:
        if self._in_line:
            self._context.world.write(1, b"\n")
            self._in_line = False


def _line_of(kind: str, event: Mapping[str, Any], message: str) -> str:
    task, phase = text(event.get("task_id")), text(event.get("phase"))
    about = f" of {task}" if task else ""
    return {
        "task_selected": f"== {task}: {message}",
        "phase_entered": f"-- Phase {phase}{about} begins.",
        "phase_completed": f"-- Phase {phase}{about} is complete.",
        "blocked_state_cleared": "No longer blocked; going on.",
    }.get(kind, "")


def _end_of(summary: Mapping[str, Any], *, saw_work: bool) -> str:
    outcome, task = text(summary.get("outcome")), text(summary.get("task_id"))
    return {
        "ran": f"Done: {task}.",
        "completed": "Done: the loop is complete.",
        "no_candidates": "Done: nothing is left to run." if saw_work else "Nothing to run.",
        "blocked": "Nothing can be run now.",
        "stopped": "Stopped.",
        "failed": "The run failed.",
        "stalled": "The run did not begin, or could not go on.",
    }.get(outcome, f"The run is over: {outcome}, exit code {count(summary.get('exit_code'))}.")


def _stamp(seconds: float) -> str:
    from time import gmtime, strftime

    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds)) + f".{int(seconds % 1 * 1e9):09d}Z"
