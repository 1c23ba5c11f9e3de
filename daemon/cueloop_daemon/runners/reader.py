"""Reading one invocation's output: incremental, no I/O, bounded. Subclasses know one CLI's events; the verdict is shared."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace

from cueloop_daemon.runners.facts import Facts
from cueloop_daemon.runners.judging import Evidence, Fault, judge
from cueloop_daemon.runners.lines import Line, LineSplitter
from cueloop_daemon.runners.model import Conversation, Piece, Verdict
from cueloop_daemon.runners.parse import Doc, event_of
from cueloop_daemon.runners.text import PIECE, Ends, Growing, clean, pieces, shorten, unstyled

_EVENT = re.compile(rb"(?:^|\n)\s*(?:\xef\xbb\xbf)?\s*\{")


class StreamReader(ABC):
    """The shared half of every reader (`model.Reader` says what may be relied on)."""

    def __init__(self, facts: Facts, *, is_quiet: bool = False) -> None:
        self.facts = facts
        self._is_quiet = is_quiet
        self._out = LineSplitter()
        self._err = LineSplitter()
        self._stderr = Ends()
        self._size = 0
        self._is_cut = False
        self._has_ended = False
        self._line_is_open = False
        self._ids: list[str] = []
        self._answer = Growing()
        self._answer_is_over = True
        self._has_worked = False
        self._fault: Fault | None = None
        self._has_failed = False
        self._has_succeeded = False
        self._until: str | None = None
        self.last_word_seen = False

    # What the engine calls.

    @property
    def reported_id(self) -> str | None:
        """The last valid id that a line which reports no failure carried."""
        return self._ids[-1] if self._ids else None

    @property
    def final_text(self) -> str:
        """The agent's last message so far."""
        return str(self._answer).strip()

    def feed(self, data: bytes) -> list[Piece]:
        """Standard output, cut anywhere; the joined text of all pieces does not depend on the cuts."""
        self._size += len(data)
        texts: list[str] = []
        first = data.find(b"\n") + 1
        last = data.rfind(b"\n") + 1
        middle = data[first:last]
        if middle and len(middle) <= PIECE and not _EVENT.search(middle):
            texts += self._lines(self._out.feed(data[:first]))
            texts.append(self._plain(middle.replace(b"\r\n", b"\n").decode("utf-8", "replace")))
            texts += self._lines(self._out.feed(data[last:]))
        else:
            texts += self._lines(self._out.feed(data))
        return [Piece(text) for text in pieces(texts)]

    def feed_err(self, data: bytes) -> list[Piece]:
        """Standard error, cut anywhere."""
        self._stderr.add(data)
        return [Piece(text) for text in pieces(self._err_lines(self._err.feed(data)))]

    def end(self) -> list[Piece]:
        """Both streams have ended. Idempotent; `verdict` does it too."""
        if self._has_ended:
            return []
        self._has_ended = True
        texts: list[str] = []
        if (line := self._out.end()) is not None:
            self._is_cut = True
            texts += self._lines([line])
        if (line := self._err.end()) is not None:
            texts += self._err_lines([line])
        return [Piece(text) for text in pieces(texts)]

    def verdict(
        self,
        exit_code: int | None,
        signal: int | None,
        *,
        resumed: Conversation | None,
        chosen: Conversation | None = None,
        lingered: bool = False,
    ) -> Verdict:
        """See `model.Reader`."""
        self.end()
        evidence = Evidence(
            facts=self.facts,
            exit_code=exit_code,
            signal=signal,
            lingered=lingered and self.last_word_seen,
            stderr=unstyled(self._stderr.text),
            tail=self._worth_telling(unstyled(self._stderr.tail(2000))),
            fault=self._fault,
            until=self._until,
            has_failed=self._has_failed,
            has_succeeded=self.is_success(),
            has_worked=self._has_worked,
            is_cut=self._is_cut_short(),
            complaint=self.complaint(),
            reported=self.reported_id,
            counted=self.unreported(chosen),
            text=self.final_text,
        )
        return judge(evidence, resumed)

    def interrupted(self, *, chosen: Conversation | None = None) -> Conversation | None:
        """See `model.Reader`."""
        if self._has_failed:
            return None
        return Conversation(self._ids[-1]) if self._ids else self.unreported(chosen)

    # What a CLI's own reader says or changes.

    @abstractmethod
    def event(self, doc: Doc) -> Iterable[str] | None:
        """The texts that an event has for people; None: it is not known here, and shown as it stands."""

    def is_success(self) -> bool:
        """Whether the stream itself says that the work was done."""
        return self._has_succeeded

    def complaint(self) -> str | None:
        """A sentence for a failure that this CLI hides behind exit 0, if there is one to say."""
        return None

    def unreported(self, chosen: Conversation | None) -> Conversation | None:
        """The id of our own that counts although no stream reported it."""
        return None

    def on_stderr(self, text: str) -> None:  # noqa: B027 - a reader may look at it
        """A line of standard error."""

    def saw_id(self, text: str) -> None:
        """An id in a line that reports no failure; kept if it is valid and new."""
        if self.facts.shape(text) and text != self.reported_id:
            self._ids = [*self._ids[-1:], text]

    def said(self, text: str) -> list[str]:
        """A whole message of the agent."""
        text = clean(text)
        if not text:
            return []
        self._has_worked = True
        self._answer = Growing()
        self._answer.add(text)
        self._answer_is_over = True
        return [*self._close_line(), shorten(text, PIECE), "\n"]

    def streamed(self, text: str) -> list[str]:
        """A part of a message that comes in parts, until something else comes."""
        text = clean(text)
        if not text:
            return []
        self._has_worked = True
        if self._answer_is_over:
            self._answer, self._answer_is_over = Growing(), False
        self._answer.add(text)
        self._line_is_open = not text.endswith("\n")
        return [shorten(text, PIECE)]

    def used(self, tool: str, what: str = "") -> list[str]:
        """The agent uses a tool: one line, unless the run is to be quiet."""
        self._has_worked = True
        self._answer_is_over = True
        if self._is_quiet or not tool:
            return []
        about = " ".join(clean(what[:400]).split())[:200]
        return [*self._close_line(), f"[{clean(tool)[:100]}] {about}".rstrip(), "\n"]

    def noted(self, text: str) -> list[str]:
        """Something that the CLI tells the person."""
        text = clean(text).strip()
        return [*self._close_line(), shorten(text, PIECE), "\n"] if text else []

    def succeeded(self, text: str = "", *, is_last: bool = True) -> list[str]:
        """The stream says that the work is done. `text` replaces the last message where there was none."""
        self._has_succeeded, self._has_failed, self._fault = True, False, None
        self.last_word_seen = self.last_word_seen or is_last
        return self.said(text) if text and not self.final_text else []

    def failed(self, fault: Fault, *, is_last: bool = True) -> list[str]:
        """The stream says that the work failed."""
        self._has_failed, self._has_succeeded = True, False
        self._fault = replace(fault, text=shorten(clean(fault.text).strip(), 4000))
        self.last_word_seen = self.last_word_seen or is_last
        return self.noted(fault.text)

    def hinted(self, fault: Fault) -> None:
        """Something went wrong that may still be mended; it explains a failure if there is one."""
        self._fault = self._fault or replace(fault, text=shorten(clean(fault.text).strip(), 4000))

    def limited_until(self, moment: str) -> None:
        """A usage limit ends then."""
        self._until = moment

    # Lines.

    def _lines(self, lines: Iterable[Line]) -> list[str]:
        texts: list[str] = []
        for line in lines:
            doc = event_of(line)
            found = None if doc is None else self.event(doc)
            if found is None:
                found = [self._plain(_shown(line))]
            elif doc is not None and line.left_out:
                found = [*found, *self.noted(f"[{doc.text('type')[:60]}: a line of {line.size} bytes was left out]")]
            texts += found
        return texts

    def _err_lines(self, lines: Iterable[Line]) -> list[str]:
        texts: list[str] = []
        for line in lines:
            text = _shown(line)
            self.on_stderr(text)
            if not self.facts.expected.search(text):
                texts.append(self._plain(text))
        return texts

    def _worth_telling(self, err: str) -> str:
        return "\n".join(line for line in err.splitlines() if not self.facts.expected.search(line))

    def _plain(self, text: str) -> str:
        return "".join(self._close_line()) + clean(text)

    def _close_line(self) -> list[str]:
        if not self._line_is_open:
            return []
        self._line_is_open = False
        return ["\n"]

    def _is_cut_short(self) -> bool:
        # Some runtimes lose what is beyond one pipe's buffer when they exit.
        buffer = 64 * 1024
        return self._answer.byte_size == buffer or (self._size == buffer and (self._is_cut or not self.last_word_seen))


def _shown(line: Line) -> str:
    end = "\n" if line.is_ended else ""
    text = line.head.decode("utf-8", "replace")
    if line.left_out:
        text += f"\n[{line.left_out} bytes left out]\n{line.tail.decode('utf-8', 'replace')}"
    return shorten(text, PIECE) + end
