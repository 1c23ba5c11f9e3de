"""The questions that a run asks in the middle, put to a person at the terminal (design section 6). Standard library only."""

from __future__ import annotations

import os
from contextlib import suppress

from cueloop_client.run_begin import is_interactive
from cueloop_client.shapes import objects, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from cueloop_client.context import Context
    from cueloop_client.run_tell import Teller

STDIN = 0
LINE_LIMIT = 64 * 1024


class TerminalDesk:
    """One question at a time, the oldest first. Without a terminal it says what is asked, and how it can be answered."""

    def __init__(self, context: Context, run_id: str, teller: Teller) -> None:
        self._context = context
        self._run_id = run_id
        self._teller = teller
        self._asks = is_interactive(context)
        self._open: list[Mapping[str, Any]] = []
        self._line = bytearray()
        self._chosen: str | None = None
        self._answered: set[str] = set()

    def ask(self, question: Mapping[str, Any]) -> None:
        """Put it, unless it is being asked already."""
        name = text(question.get("question_id"))
        if name in self._answered or any(name == text(other.get("question_id")) for other in self._open):
            return
        self._open.append(question)
        if len(self._open) == 1:
            self._put()

    def settle(self, question_id: str, choice: str, by: str) -> None:
        """Say what was decided, if it is not what was answered here, and ask the next."""
        if question_id not in self._answered:
            how = {"timeout": "nobody answered in time", "run_over": "the run is over"}.get(by, "answered elsewhere")
            self._teller.aside(f"The question is settled ({how}): {choice}.")
        self._take_away(question_id)

    def fileno(self) -> int | None:
        """Standard input while a question is open."""
        return STDIN if self._asks and self._open else None

    def typed(self) -> Mapping[str, Any] | None:
        """Take what was typed. The end of input leaves the question open, and nothing more is asked here."""
        data = os.read(STDIN, 4096)
        if not data:
            self._asks = False
            self._teller.aside("Left unanswered. Answer it elsewhere: cueloop run attach")
            return None
        self._line += data
        if b"\n" not in self._line and len(self._line) < LINE_LIMIT:
            return None
        line = self._line.partition(b"\n")[0].decode("utf-8", "replace").strip()
        self._line.clear()
        return self._answer(line)

    def _answer(self, line: str) -> Mapping[str, Any] | None:
        question = self._open[0]
        if self._chosen is not None:
            return self._give(question, self._chosen, line)
        choices = _choices(question)
        fitting = [choice for choice in choices if choice == line.lower()] or [
            c for c in choices if line and c.startswith(line.lower())
        ]
        if not line:
            fitting = [text(question.get("default"))]
        if len(fitting) != 1:
            self._teller.aside(f"{line!r} is none of {', '.join(choices)}.")
            self._prompt(question)
            return None
        if choices.get(fitting[0]):
            self._chosen = fitting[0]
            self._context.world.write(2, b"What shall the agent be told? (Enter: nothing more) ")
            return None
        return self._give(question, fitting[0], "")

    def _give(self, question: Mapping[str, Any], choice: str, words: str) -> Mapping[str, Any]:
        name = text(question.get("question_id"))
        self._answered.add(name)
        self._take_away(name)
        told = {"text": words} if words else {}
        return {"run_id": self._run_id, "question_id": name, "choice": choice, **told}

    def _take_away(self, question_id: str) -> None:
        first = self._open[0] if self._open else None
        self._open = [question for question in self._open if text(question.get("question_id")) != question_id]
        if first is not None and first not in self._open:
            self._chosen = None
            self._line.clear()
            if self._open:
                self._put()

    def _put(self) -> None:
        question = self._open[0]
        lines = [text(question.get("message")), text(question.get("detail"))]
        lines += [f"  {text(c.get('choice'))}: {text(c.get('title'))}" for c in objects(question.get("choices"))]
        if not self._asks:
            until = text(question.get("expires_at"))
            lines.append(f"Answer it on a terminal: cueloop run attach (until {until}; then: {text(question.get('default'))})")
        self._teller.aside("\n".join(line for line in lines if line))
        if self._asks:
            _forget_what_was_typed()
            self._prompt(question)

    def _prompt(self, question: Mapping[str, Any]) -> None:
        default = text(question.get("default"))
        words = "/".join(choice.upper() if choice == default else choice for choice in _choices(question))
        self._context.world.write(2, f"[{words}] ".encode())


def _choices(question: Mapping[str, Any]) -> dict[str, bool]:
    """Choice → whether it takes a text."""
    return {text(choice.get("choice")): choice.get("takes_text") is True for choice in objects(question.get("choices"))}


def _forget_what_was_typed() -> None:
    """What was typed before the question was shown is no answer to it."""
    import termios

    with suppress(termios.error):
        termios.tcflush(STDIN, termios.TCIFLUSH)
