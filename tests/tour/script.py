"""The page of the tour as a script: its console blocks are commands to be typed, what stands below them is what they said the last time.

A block is played as it stands. HTML comments before it, which a reader does not see, say what cannot be typed at a prompt:

    <!-- play: terminal 2 -->               in another terminal; without it in the first one
    <!-- play: await CONDITION -->          wait until this shell command says yes, before anything is typed
    <!-- play: at TEXT type KEYS -->        when the last command shows TEXT, press these keys; \\n is Enter, ^C is Ctrl-C
    <!-- play: until TEXT -->               the block ends when its last command has shown TEXT and the line is over; the command goes on
    <!-- play: leave -->                    the block ends at once; its last command goes on
    <!-- play: goes on -->                  the block has no command: it is what comes until the prompt returns
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

OPENING = "```console"
CLOSING = "```"
PROMPT = "$ "
DIRECTIVE = re.compile(r"<!-- play: (?P<words>.+) -->")
KEYS = {r"\n": "\n", "^C": "\x03"}


class BadPage(Exception):
    """The page cannot be played; the text says which line and why."""


@dataclass(frozen=True)
class Cue:
    """Keys to press when a text is shown."""

    shown: str
    keys: str


@dataclass(frozen=True)
class Manner:
    """What the comments before a block say."""

    terminal: str = "1"
    condition: str | None = None
    cues: tuple[Cue, ...] = ()
    until: str | None = None
    leave: bool = False
    goes_on: bool = False


@dataclass(frozen=True)
class Block:
    """Commands of one console block, how they are to be played, and the output that the page has below each."""

    manner: Manner
    commands: tuple[str, ...]
    outputs: tuple[str, ...]
    line: int

    def render(self, outputs: Iterable[str]) -> str:
        """The inside of the block with these outputs, one for each command (one in all where it goes on)."""
        ended = [output if output.endswith("\n") or not output else output + "\n" for output in outputs]
        if self.manner.goes_on:
            return "".join(ended)
        return "".join(f"{PROMPT}{command}\n{output}" for command, output in zip(self.commands, ended, strict=True))


@dataclass
class Page:
    """Prose and blocks in their order; joined they are the page again, to the byte."""

    parts: list[str | Block] = field(default_factory=list)

    @property
    def blocks(self) -> list[Block]:
        return [part for part in self.parts if isinstance(part, Block)]

    def render(self, outputs: Iterable[tuple[str, ...]]) -> str:
        """The page with these outputs, block by block."""
        told = iter(outputs)
        return "".join(part.render(next(told)) if isinstance(part, Block) else part for part in self.parts)


def parse(text: str) -> Page:
    """Raises BadPage."""
    page, prose, inside = Page(), list[str](), list[str]()
    manner, begun = Manner(), 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        bare = line.rstrip("\n")
        if begun:
            if bare != CLOSING:
                inside.append(line)
                continue
            page.parts += ["".join(prose), _block(manner, inside, begun)]
            prose, inside, manner, begun = [line], [], Manner(), 0
            continue
        prose.append(line)
        if found := DIRECTIVE.fullmatch(bare):
            manner = _told(manner, found["words"], number)
        elif bare == OPENING:
            begun = number
    if begun:
        raise BadPage(f"line {begun}: the block has no end")
    page.parts.append("".join(prose))
    return page


def _told(manner: Manner, words: str, number: int) -> Manner:
    match words.split(" ", 1):
        case ["terminal", name]:
            return replace(manner, terminal=name)
        case ["await", condition]:
            return replace(manner, condition=condition)
        case ["until", text]:
            return replace(manner, until=text)
        case ["leave"]:
            return replace(manner, leave=True)
        case ["goes", "on"]:
            return replace(manner, goes_on=True)
        case ["at", rest] if " type " in rest:
            shown, _, keys = rest.rpartition(" type ")
            for name, key in KEYS.items():
                keys = keys.replace(name, key)
            return replace(manner, cues=(*manner.cues, Cue(shown, keys)))
    raise BadPage(f"line {number}: nothing is known of {words!r}")


def _block(manner: Manner, lines: list[str], number: int) -> Block:
    commands, outputs = list[str](), list[str]()
    for line in lines:
        if line.startswith(PROMPT):
            commands.append(line.removeprefix(PROMPT).rstrip("\n"))
            outputs.append("")
        elif outputs or manner.goes_on:
            outputs = [*outputs[:-1], (outputs[-1] if outputs else "") + line]
        else:
            raise BadPage(f"line {number}: the block begins with no command")
    if bool(commands) == manner.goes_on:
        raise BadPage(f"line {number}: a block has commands, or goes on")
    return Block(manner, tuple(commands), tuple(outputs), number)
