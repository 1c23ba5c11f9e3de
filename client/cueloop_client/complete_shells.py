"""Candidates as each shell takes them, so that none of them can become anything else but a word. Pure. Standard library only.

The first line says what follows: `words` (one candidate a line), or `files` or `folders`, which the shell completes by itself.
"""

from __future__ import annotations

from cueloop_client.complete_values import Candidate
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,")
"""What means itself in every shell."""
ABOUT_WIDTH = 80
LISTING = "63"
"""bash's COMP_TYPE where candidates are shown and nothing is inserted: `?`."""


class Word(Frozen):
    """A word of a command line that is being typed: as it was typed, as the shell would read it, and the quote that is still open."""

    raw: str
    value: str
    quote: str = ""


def split(line: str) -> list[Word]:
    """The words up to the cursor as bash reads them, the last one perhaps empty or unfinished. Nothing is expanded."""
    words = [Word("", "")]
    raw, value, quote = "", "", ""
    chars = iter(line)
    for char in chars:
        raw += char
        if quote:
            if char == quote:
                quote = ""
            elif char == "\\" and quote == '"':
                after = next(chars, "")
                raw += after
                value += after if after in '$`"\\' else char + after
            else:
                value += char
        elif char in "'\"":
            quote = char
        elif char == "\\":
            after = next(chars, "")
            raw, value = raw + after, value + after
        elif char in " \t\n":
            if raw[:-1]:
                words.insert(-1, Word(raw[:-1], value))
            raw, value = "", ""
        else:
            value += char
    words[-1] = Word(raw, value, quote)
    return words


def clean(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Each value once, without those that no line can show as they are; descriptions on one line, short, without control characters."""
    kept: dict[str, Candidate] = {}
    for one in candidates:
        if one.value and one.value.isprintable():
            kept.setdefault(one.value, Candidate(one.value, _shown(one.about)))
    return list(kept.values())


def with_tabs(candidates: Sequence[Candidate], before: str = "") -> list[str]:
    """For zsh and fish, which quote what they insert: the value, a tab, what is said about it."""
    return [f"{before}{one.value}\t{one.about}" for one in candidates]


def for_bash(candidates: Sequence[Candidate], before: str, word: Word, breaks: str, kind: str, columns: int) -> list[str]:
    """What replaces the part of the word that bash completes, quoted as it has to be there; with descriptions where it only shows.

    `breaks` are bash's COMP_WORDBREAKS, `kind` its COMP_TYPE. Within open quotes a candidate that would need escaping is left out.
    """
    kept, quote = _kept(word, breaks)
    found = [
        (one, _quoted((before + one.value)[len(kept) :], quote)) for one in candidates if (before + one.value).startswith(kept)
    ]
    texts = [(one, text) for one, text in found if text is not None]
    if kind != LISTING or len(texts) < 2:
        return [text for _, text in texts]
    width = max(len(text) for _, text in texts)
    return [f"{text:<{width}}  {one.about}".rstrip()[: max(columns - 2, 20)] for one, text in texts]


def _kept(word: Word, breaks: str) -> tuple[str, str]:
    """What of the word's value bash leaves alone in front of what it completes, and the quote that is open there."""
    start, quote, at = 0, "", 0
    raw = word.raw
    while at < len(raw):
        char = raw[at]
        if char == "\\" and quote != "'":
            at += 2
            continue
        if quote:
            if char == quote:
                quote, start = "", at + 1
        elif char in "'\"":
            quote, start = char, at + 1
        elif char in breaks:
            start = at if char == "@" else at + 1  # readline leaves this one in what is completed
        at += 1
    return split(raw[:start])[-1].value, quote


def _quoted(text: str, quote: str) -> str | None:
    """The text so that the shell reads it as it is; None if that cannot be done within this open quote."""
    if quote == "'":
        return None if quote in text else text
    if quote:
        return text if not set(text) & set('$`"\\!') else None
    return "".join(char if char in PLAIN or not char.isascii() else f"\\{char}" for char in text)


def _shown(text: str) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= ABOUT_WIDTH else f"{line[: ABOUT_WIDTH - 1]}…"
