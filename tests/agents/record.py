"""Records the streams of the real CLIs in `tests/data/streams/<cli>/<case>.{out,err,json}`; the tests of the runners replay them.

    PYTHONPATH=tests python tests/agents/record.py [--date 2026-11-29] [cli ...]

Each case's JSON names the CLI, its version, the date, the command line, the exit code, the conversation that was asked for, and in `expect`
what the recording means to us: `verdict` and, where it succeeded, the conversation's `id`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from agents.cases import Case, continuing, opening, perform
from agents.cli import Cli, Place, json_lines
from agents.clis import CLIS, OLDER
from agents.scrub import replacements, scrubbed
from agents.standin import StandIn
from agents.workshop import lay_programs

STREAMS = Path(__file__).parent.parent / "data/streams"

Done = subprocess.CompletedProcess[str]


def performed(cli: Cli, place: Place, stand_in: StandIn) -> Iterator[tuple[Case, Done]]:
    """Every case of a CLI in order, each with what came of it. Raises SystemExit if there is no conversation to continue."""
    conversation: str | None = None
    for case in opening(cli, place):
        done = perform(cli, case, place, stand_in)
        if case.name == "fresh":
            conversation = cli.find_id(json_lines(done.stdout))
        yield case, done
    if conversation is None:
        raise SystemExit(f"{cli.name} reported no conversation")
    for case in continuing(cli, place, conversation):
        yield case, perform(cli, case, place, stand_in)


def found_id(cli: Cli, case: Case, done: Done) -> str | None:
    """The conversation that answered. Where the stream never says, it is the one that was asked for."""
    return case.asked if cli.from_pypi and case.asked else cli.find_id(json_lines(done.stdout))


def facts_of(cli: Cli, case: Case, done: Done, pairs: Mapping[str, str], date: str) -> Mapping[str, object]:
    """The JSON beside a recording."""
    id_ = {"id": found_id(cli, case, done)} if case.verdict == "succeeded" else {}
    return {
        "cli": cli.runner,
        "package": cli.package,
        "version": cli.version,
        "date": date,
        "case": case.name,
        "argv": [cli.runner, *(scrubbed(word, pairs) for word in case.call.argv)],
        "stdin": case.call.stdin is not None,
        "exit": done.returncode,
        "asked": {"id": case.asked, "file": scrubbed(case.file, pairs) if case.file else None} if case.asked else None,
        "expect": {"verdict": case.verdict, **id_},
    }


def record(cli: Cli, date: str, host: str) -> None:
    """Replaces the recordings of one CLI."""
    folder = STREAMS / "older" / cli.runner if cli.from_pypi else STREAMS / cli.name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="agents") as base, StandIn() as stand_in:
        place = Place(Path(base) / "home", Path(base) / "project", stand_in.port)
        lay_programs(place)
        pairs = replacements(place, host)
        for case, done in performed(cli, place, stand_in):
            (folder / f"{case.name}.out").write_text(scrubbed(done.stdout, pairs))
            (folder / f"{case.name}.err").write_text(scrubbed(done.stderr, pairs))
            facts = json.dumps(facts_of(cli, case, done, pairs, date), indent=2, ensure_ascii=False)
            (folder / f"{case.name}.json").write_text(facts + "\n")
            print(
                f"{cli.name} {case.name}: exit {done.returncode}, {case.verdict}; outside: {sorted(set(stand_in.strangers))}",
                flush=True,
            )
            stand_in.forget()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--date", default=datetime.datetime.now(datetime.UTC).date().isoformat())
    parser.add_argument("cli", nargs="*", help=", ".join((*CLIS, *OLDER)))
    options = parser.parse_args()
    for name in options.cli or CLIS:
        record({**CLIS, **OLDER}[name], options.date, socket.gethostname())


if __name__ == "__main__":
    main()
