"""What is tried with each CLI directly, and what each of it means to us. Recorded by `record.py`, tried anew by `test_direct.py`.

The verdicts are written down here by hand; nothing computes them from a stream.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agents.cli import Call, Cli, Place
from agents.standin import Answer, Cut, Failure, StandIn, Text
from agents.workshop import environment, run

PROMPT = "Say the word marigold."
MESSAGE = "And now the word tulip."
FIRST_WORD, SECOND_WORD = "Marigold.", "Tulip."
CHOSEN = "4f6a1f2e-6a0b-5c7d-8e9f-0a1b2c3d4e5f"

FAILURES: Mapping[str, tuple[int, ...]] = {
    "claude": (400, 401, 429, 500, 529),
    "codex": (400, 401, 429, 500, 529),
    "gemini": (400, 401),
    "kimi": (400, 401, 429, 500, 529),
    "kimi-1": (400, 401, 429, 500),
    "pi": (400, 401, 429, 500, 529),
    "opencode": (400, 401, 429),
}
"""The HTTP statuses tried with each CLI. Others are repeated inside: by opencode for a minute (429 shows it), by gemini for several."""

NO_CUT = frozenset({"gemini", "opencode"})
"""CLIs that begin a cut answer anew by themselves, again and again."""

CREATES = frozenset({"kimi-1"})
"""CLIs that begin a conversation under the id that was asked for where there is none, silently."""

UNTOLD: Mapping[str, frozenset[str]] = {"opencode": frozenset({"login"}), "kimi-1": frozenset({"login", "api-401"})}
"""Cases in which a CLI does not say that it wants a login where a program could rely on it. Without one, opencode does not know a
provider's models and speaks of an unknown model; the first kimi prints everything as plain text where the model's own words go.
"""


@dataclass(frozen=True)
class Case:
    """One thing to try: what the API answers, the command line, and what the stream means (`succeeded`, `gone`, `failed` or `login`).

    `asked` is the conversation that is to be resumed, `file` the file that stands for it. `logged_out`: without the CLI's login.
    `forgotten`: after the CLI's own record of its conversations was deleted.
    """

    name: str
    call: Call
    verdict: str
    answer: Answer = field(default_factory=Text)
    asked: str | None = None
    file: str | None = None
    logged_out: bool = False
    forgotten: bool = False


def opening(cli: Cli, place: Place) -> Iterator[Case]:
    """The cases that need no conversation of before. The first one is `fresh`."""

    def wanting(name: str) -> str:
        return "failed" if name in UNTOLD.get(cli.name, ()) else "login"

    marigold = Text(FIRST_WORD)
    yield Case("fresh", cli.fresh(place, PROMPT), "succeeded", marigold)
    for status in FAILURES[cli.name]:
        yield Case(
            f"api-{status}", cli.fresh(place, PROMPT), wanting(f"api-{status}") if status == 401 else "failed", Failure(status)
        )
    if cli.name not in NO_CUT:
        yield Case("cut", cli.fresh(place, PROMPT), "failed", Cut(FIRST_WORD))
    if cli.choose:
        yield Case("chosen", cli.choose(place, PROMPT, CHOSEN), "succeeded", marigold)
        yield Case("chosen-again", cli.choose(place, PROMPT, CHOSEN), "succeeded" if cli.name == "pi" else "failed", marigold)
    yield Case("login", cli.fresh(place, PROMPT), wanting("login"), marigold, logged_out=True)


def continuing(cli: Cli, place: Place, conversation: str) -> Iterator[Case]:
    """The cases that resume: a conversation that is there, ones that are not, and in the end one that no longer is."""

    def resumed(name: str, verdict: str, wanted: str, answer: Answer, *, forgotten: bool = False) -> Case:
        file = None if name == "malformed" else cli.file(place, wanted)
        return Case(name, cli.resume(place, file or wanted, MESSAGE), verdict, answer, wanted, file, forgotten=forgotten)

    yield resumed("resumed", "succeeded", conversation, Text(SECOND_WORD))
    missing = "succeeded" if cli.name in CREATES else "gone"
    yield resumed("gone", missing, cli.absent, Text(SECOND_WORD))
    if cli.name not in CREATES:
        yield resumed("malformed", "gone", cli.malformed, Text(SECOND_WORD))
    yield resumed("resumed-api-400", "failed", conversation, Failure(400))
    yield resumed("forgotten", missing, conversation, Text(SECOND_WORD), forgotten=True)


def forget_conversations(cli: Cli, place: Place) -> None:
    """Deletes the CLI's own record of its conversations. Raises LookupError if there was none to delete."""
    found = [path for pattern in cli.memory for path in place.home.glob(pattern)]
    if not found:
        raise LookupError(f"{cli.name} keeps no conversations where it was expected to")
    for path in found:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def perform(cli: Cli, case: Case, place: Place, stand_in: StandIn) -> subprocess.CompletedProcess[str]:
    """Runs the CLI for `case`. Raises subprocess.TimeoutExpired."""
    variables = environment(cli, place, stand_in)
    hidden: dict[Path, str] = {}
    if case.forgotten:
        forget_conversations(cli, place)
    if case.logged_out:
        variables = {name: value for name, value in variables.items() if name not in cli.login_variables}
        hidden = {place.home / name: (place.home / name).read_text() for name in cli.login_files}
    for path in hidden:
        path.unlink()
    stand_in.play(case.answer)
    try:
        return run(cli, case.call, place, variables)
    finally:
        for path, text in hidden.items():
            path.write_text(text)
