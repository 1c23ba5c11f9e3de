"""Records the streams of the real CLIs in `tests/data/streams/<cli>/<case>.{out,err,json}`, which the tests of `cueloop_daemon.runners` replay.

    python tests/agents/record.py [--date 2026-11-29] [cli ...]

Each case's JSON names the CLI, its version, the date, the command line, the exit code, the conversation that was asked for, and in `expect` what the
recording means to us: `verdict` (`succeeded`, `gone`, `failed` or `login`) and, where it succeeded, the conversation's `id`. Verdicts are written
down here, not computed from the streams.
"""

from __future__ import annotations

import argparse
import datetime
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from agents.clis import CLIS, Call, Cli, Place, json_lines
from agents.scrub import replacements, scrubbed, write
from agents.standin import Answer, Cut, Failure, StandIn, Text
from agents.workshop import environment, lay_programs, run

STREAMS = Path(__file__).parent.parent / "data/streams"
PROMPT = "Say the word marigold."
MESSAGE = "And now the word tulip."
CHOSEN = "4f6a1f2e-6a0b-5c7d-8e9f-0a1b2c3d4e5f"

FAILURES: Mapping[str, tuple[int, ...]] = {
    "claude": (400, 401, 429, 500, 529),
    "codex": (400, 401, 429, 500, 529),
    "gemini": (400, 401),
    "kimi": (400, 401, 429, 500, 529),
    "pi": (400, 401, 429, 500, 529),
    "opencode": (400, 401, 429),
}
"""The HTTP statuses recorded for each CLI. The others it repeats inside, for minutes, and its last word is the same as for these."""

NO_CUT = frozenset({"gemini", "opencode"})
"""CLIs that begin a cut answer anew by themselves, again and again: nothing to record within a minute."""


@dataclass(frozen=True)
class Case:
    """One thing to record: what the API answers, the command line, and what the stream means."""

    name: str
    call: Call
    verdict: str
    answer: Answer = Text()
    asked: str | None = None
    file: str | None = None
    logged_out: bool = False


def opening(cli: Cli, place: Place) -> Iterator[Case]:
    """The cases that need no conversation of before."""
    yield Case("fresh", cli.fresh(place, PROMPT), "succeeded", Text("Marigold."))
    for status in FAILURES[cli.name]:
        yield Case(f"api-{status}", cli.fresh(place, PROMPT), "login" if status == 401 else "failed", Failure(status))
    if cli.name not in NO_CUT:
        yield Case("cut", cli.fresh(place, PROMPT), "failed", Cut("Marigold."))
    if cli.choose:
        yield Case("chosen", cli.choose(place, PROMPT, CHOSEN), "succeeded", Text("Marigold."))
        again = "succeeded" if cli.name == "pi" else "failed"
        yield Case("chosen-again", cli.choose(place, PROMPT, CHOSEN), again, Text("Marigold."))
    yield Case("login", cli.fresh(place, PROMPT), "login", logged_out=True)


def continuing(cli: Cli, place: Place, conversation: str) -> Iterator[Case]:
    """The cases that resume a conversation, one that is there and ones that are not."""
    for name, verdict, wanted in (
        ("resumed", "succeeded", conversation),
        ("gone", "gone", cli.absent),
        ("malformed", "gone", cli.malformed),
    ):
        handle = wanted if name == "malformed" else cli.handle(place, wanted)
        file = handle if handle != wanted else None
        yield Case(name, cli.resume(place, handle, MESSAGE), verdict, Text("Tulip."), wanted, file)
    failing = Failure(400)
    handle = cli.handle(place, conversation)
    file = handle if handle != conversation else None
    yield Case("resumed-api-400", cli.resume(place, handle, MESSAGE), "failed", failing, conversation, file)


def perform(cli: Cli, case: Case, place: Place, stand_in: StandIn) -> subprocess.CompletedProcess[str]:
    """Runs the CLI for `case`; its login is taken away for the case that is about that."""
    variables = environment(cli, place, stand_in)
    hidden: list[tuple[Path, str]] = []
    if case.logged_out:
        variables = {name: value for name, value in variables.items() if name not in cli.login_variables}
        hidden = [(place.home / name, (place.home / name).read_text()) for name in cli.login_files]
        for path, _ in hidden:
            path.unlink()
    stand_in.play(case.answer)
    try:
        return run(cli, case.call, place, variables)
    finally:
        for path, text in hidden:
            path.write_text(text)


def record(cli: Cli, date: str, host: str) -> None:
    with tempfile.TemporaryDirectory(prefix="agents") as folder, StandIn() as stand_in:
        place = Place(Path(folder) / "home", Path(folder) / "project", stand_in.port)
        lay_programs(place)
        pairs = replacements(place, host)
        conversation: str | None = None
        pending = list(opening(cli, place))
        while pending:
            case = pending.pop(0)
            done = perform(cli, case, place, stand_in)
            found = cli.find_id(json_lines(done.stdout))
            if case.name == "fresh":
                conversation = found
                if conversation is None:
                    raise SystemExit(f"{cli.name} reported no conversation: {done.stdout}{done.stderr}")
                pending.extend(continuing(cli, place, conversation))
            expect = {"verdict": case.verdict} | ({"id": found} if case.verdict == "succeeded" else {})
            facts: dict[str, object] = {
                "cli": cli.name,
                "package": cli.package,
                "version": cli.version,
                "date": date,
                "case": case.name,
                "argv": [cli.name, *(scrubbed(word, pairs) for word in case.call.argv)],
                "stdin": case.call.stdin is not None,
                "exit": done.returncode,
                "asked": {"id": case.asked, "file": scrubbed(case.file, pairs) if case.file else None} if case.asked else None,
                "expect": expect,
            }
            write(STREAMS / cli.name, case.name, scrubbed(done.stdout, pairs), scrubbed(done.stderr, pairs), facts)
            print(
                cli.name,
                case.name,
                "exit",
                done.returncode,
                "expect",
                case.verdict,
                "outside:",
                list(stand_in.strangers),
                flush=True,
            )
            stand_in.forget()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--date", default=datetime.datetime.now(datetime.UTC).date().isoformat())
    parser.add_argument("cli", nargs="*", choices=[[], *CLIS])
    options = parser.parse_args()
    for name in options.cli or CLIS:
        record(CLIS[name], options.date, socket.gethostname())


if __name__ == "__main__":
    main()
