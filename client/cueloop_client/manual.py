"""The manual page cueloop(1), from the tables of commands. Pure. Standard library only.

python -m cueloop_client.manual > cueloop.1
"""

from __future__ import annotations

from cueloop_client.argv import GLOBAL
from cueloop_client.table import COMMANDS
from cueloop_client.topics import EXIT_CODES, VARIABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from cueloop_client.command import Command
    from cueloop_client.flags import Flag

WHAT = (
    "cueloop looks after the sessions of coding agents in a repository: it says what was interrupted and what the next run would do "
    "with it, runs tasks from the queue, and shows what happens. "
    "It talks to the daemon of the repository, cueloopd, which it starts when it is needed."
)
PASSED_ON = (
    "Commands that are not listed here belong to the Rust tool of the same name and are passed on to it with their arguments untouched; "
    "cueloop rust always means that tool. It is $CUELOOP_RUST_BIN, or the next cueloop on PATH."
)
SPECIAL = {"\\": "\\e", "-": "\\-", "'": "\\(aq", '"': "\\(dq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}
"""Characters that roff reads or draws otherwise (groff_char)."""


def manual(version: str, date: str) -> str:
    """The page as man(7) markup; `date` as `2026-02-07`, or empty."""
    parts = [
        f'.TH CUELOOP 1 "{escaped(date)}" "cueloop {escaped(version)}" "User Commands"',
        ".SH NAME\ncueloop \\- the sessions of coding agents in a repository, and their runs",
        ".SH SYNOPSIS\n.B cueloop\n[\\fIoptions\\fR] \\fICOMMAND\\fR [...]",
        f".SH DESCRIPTION\n{escaped(WHAT)}\n.PP\n{escaped(PASSED_ON)}",
        ".SH OPTIONS\nBefore or after a command:",
        *map(_option, GLOBAL),
        ".SH COMMANDS",
        *(_command(" ".join(words), command) for words, command in COMMANDS.items()),
        ".SH ENVIRONMENT",
        *_terms(VARIABLES.items()),
        ".SH EXIT STATUS",
        *_terms(EXIT_CODES.items()),
        ".SH FILES",
        *_terms(
            [
                (
                    ".cueloop/cache/cueloopd/",
                    "what is ours in a repository: the event log, the daemon's log, the history of sessions",
                ),
                ("~/.config/cueloop/cueloopd.jsonc", "the daemon's own settings"),
            ]
        ),
    ]
    return "\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Text as roff shows it: no line of it is a request, no character an escape."""
    text = "".join(SPECIAL.get(char, char) for char in text)
    return "\n".join(f"\\&{line}" if line.startswith(".") else line for line in text.split("\n"))


def _command(name: str, command: Command) -> str:
    lines = [f".SS {escaped(name)}", f"{escaped(command.summary)}.", ".PP", ".nf", escaped(command.usage), ".fi"]
    lines += map(_option, command.flags)
    if command.notes:
        lines += [".PP", ".nf", escaped(command.notes), ".fi"]
    return "\n".join([*lines, ".PP", "Example:", ".PP", ".nf", f".B {escaped(command.example)}", ".fi"])


def _option(flag: Flag) -> str:
    short = f"\\fB\\-{flag.short}\\fR, " if flag.short else ""
    value = f" \\fI{escaped(flag.value)}\\fR" if flag.value else ""
    return f".TP\n{short}\\fB\\-\\-{escaped(flag.name)}\\fR{value}\n{escaped(flag.help)}"


def _terms(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [f".TP\n.B {escaped(term)}\n{escaped(meaning)}" for term, meaning in rows]


def main() -> None:
    """Print the page for this version."""
    import sys

    from cueloop_protocol.build import build

    found = build()
    sys.stdout.buffer.write(manual(found.version, (found.commit_date or "")[:10]).encode())


if __name__ == "__main__":
    main()
