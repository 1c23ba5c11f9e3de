"""What the values of options may be: closed words, what the repository has, files. Standard library only."""

from __future__ import annotations

from cueloop_client.note_text import KINDS
from cueloop_client.run_request import NUMBERS, WORDS
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cueloop_client.flags import Flag

COLORS = ("auto", "always", "never")
RUNNERS = ("claude", "codex", "opencode", "gemini", "cursor", "kimi", "pi")
"""The built-in ones, as the configuration's document lists them."""
PROFILES = ("safe", "power-user")
MOST_NUMBERS = 9
"""A range is offered number by number if it has at most so many."""


class Candidate(Frozen):
    """One word that fits, and what is said about it."""

    value: str
    about: str = ""


class Live(Frozen):
    """What only the repository knows: `tasks`, `runs`, `runners` or `profiles`."""

    name: str


class Files(Frozen):
    """What the file system knows: `files` or `folders`."""

    name: str


SOURCES: Mapping[str, Live | Files] = {
    "TASK": Live("tasks"),
    "RUN": Live("runs"),
    "RUNNER": Live("runners"),
    "PATH": Files("folders"),
    "FOLDER": Files("folders"),
    "FILE": Files("files"),
}
"""By the name of an option's value in its help."""


def closed_words(flag: Flag) -> tuple[str, ...]:
    """The words that the option takes, as far as they are known without a repository; empty where anything goes."""
    name = flag.name.rstrip("123").removesuffix("-phase")
    if name in NUMBERS:
        least, most = NUMBERS[name]
        return tuple(map(str, range(least, most + 1))) if most - least < MOST_NUMBERS else ()
    more = {"color": COLORS, "kind": KINDS, "runner": RUNNERS, "profile": PROFILES}
    return WORDS.get(name) or more.get(name, ())


def source_of(flag: Flag) -> Live | Files | None:
    """Where else its values come from."""
    return Live("profiles") if flag.name == "profile" else SOURCES.get(flag.value or "")
