"""`cueloop complete SHELL -- …`: what the shells call when somebody presses Tab. Standard library only until a daemon is missing.

It never starts a daemon, never says anything but candidates, and is over by its deadline: a shell that knows less is better than one that
makes people wait.
"""

from __future__ import annotations

import os

from cueloop_client.complete_shells import Word, clean, for_bash, split, with_tabs
from cueloop_client.complete_values import Candidate
from cueloop_client.complete_wanted import Wanted, wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cueloop_client.world import World

SECONDS = 0.48
"""From the start of the process to the last moment at which it still waits, so that the whole is over within half a second."""
LEAST_SECONDS = 0.05
"""What is given to the question however long the start of Python took."""


def complete(shell: str, words: Sequence[str], world: World, seconds: float | None = None) -> int:
    """Write the candidates; the exit code is always 0. `seconds` are for what the repository is asked; as a rule, what is left of SECONDS.

    `words` are for bash COMP_TYPE, COMP_WORDBREAKS, the terminal's columns and the line up to the cursor; for the other shells the words
    after the program's name up to the cursor, without quotes but in the last word of fish.
    """
    try:
        asked = _asked(shell, words)
        found = wanted([word.value for word in asked])
        if found.files is not None:
            world.write(1, f"{found.files.name}\n".encode())
            return 0
        told = _told(shell, words, asked[-1], found, found.words)
        if found.live is not None:
            limit = max(LEAST_SECONDS, SECONDS - age()) if seconds is None else seconds
            told = _with_live(shell, words, asked[-1], found, world, told, limit)
        world.write(1, told)
    except Exception:
        return 0  # whatever it was, there is nobody to be told: a person is typing
    return 0


def _asked(shell: str, words: Sequence[str]) -> list[Word]:
    """The words after the program's name; the last one is being typed."""
    if shell == "bash":
        return split(words[3])[1:]
    last = split(words[-1])[-1].value if shell == "fish" else words[-1]  # fish tells the word at the cursor as it was typed
    return [Word(word, word) for word in (*words[:-1], last)]


def _with_live(
    shell: str, words: Sequence[str], last: Word, found: Wanted, world: World, fallback: bytes, seconds: float
) -> bytes:
    """The same with what the repository knows. After `seconds` the process writes `fallback` and ends, whatever it is about."""
    import signal

    from cueloop_client.complete_live import live

    def give_up(number: int, frame: object) -> None:
        try:
            world.write(1, fallback)
        finally:
            os._exit(0)

    assert found.live is not None
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        known = live(found.live, found.given, world, seconds)
    except Exception:
        known = ()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    more = [one for one in known if one.value.startswith(found.prefix)]
    return _told(shell, words, last, found, [*more, *found.words])


def _told(shell: str, words: Sequence[str], last: Word, found: Wanted, candidates: Sequence[Candidate]) -> bytes:
    fitting = clean(candidates)
    if shell == "bash":
        kind, breaks, columns = words[:3]
        lines = for_bash(fitting, found.before, last, breaks, kind, int(columns) if columns.isdigit() else 80)
    else:
        lines = with_tabs(fitting, found.before if shell == "fish" else "")
    return "".join(f"{line}\n" for line in ("words", *lines)).encode()


def age() -> float:
    """Seconds since this process began, as far as the system tells; else 0."""
    import sys

    if sys.platform != "linux":
        return 0.0
    from time import CLOCK_BOOTTIME, clock_gettime

    from cueloop_protocol.identity import process_start_time

    ticks = process_start_time(os.getpid())
    return clock_gettime(CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK") if ticks is not None else 0.0
