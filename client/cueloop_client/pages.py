"""Help pages, the version, and what is said of commands that this version does not have yet. Standard library only."""

from __future__ import annotations

from cueloop_client.argv import GLOBAL
from cueloop_client.completions_table import GROUP_NOTES
from cueloop_client.table import COMMANDS, GROUPS, LATER
from cueloop_client.topics import TOPICS, topic_page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from cueloop_client.flags import Flag
    from cueloop_client.table import Command

OVERVIEW = """\
cueloop: the sessions of coding agents in this repository, and what the next run would do with them.

usage: cueloop [options] COMMAND [...]

Commands:
{ours}

Not in this version yet:
  {later}

Passed on to the Rust tool `cueloop`, with their arguments untouched: all other commands (task, queue, init, machine queue …).
  `cueloop rust …` always means that tool. It is $CUELOOP_RUST_BIN or the next `cueloop` on PATH.

Options, before or after a command of ours:
{options}

`cueloop COMMAND --help` and `cueloop help COMMAND` say more about a command, `cueloop help environment` and
`cueloop help exit-codes` about all of them. `cueloop completions` prints what makes a shell complete them.
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no daemon runs (daemon status), 130 Ctrl-C.
Example: cueloop session show
"""


def help_page(command: tuple[str, ...]) -> str:
    """The page for a command or a group of commands; the overview for ()."""
    if command in COMMANDS:
        return command_page(COMMANDS[command])
    if command in GROUPS:
        return group_page(command)
    if command in LATER:
        return not_yet(command) + "\n"
    if len(command) == 1 and command[0] in TOPICS:
        return topic_page(command[0])
    if command:
        return partly_page(command)
    from textwrap import fill

    return OVERVIEW.format(
        ours="\n".join(_columns((" ".join(words), entry.summary) for words, entry in COMMANDS.items())),
        later=fill(", ".join(LATER.values()), width=120, subsequent_indent="  "),
        options="\n".join(_columns(map(_option, GLOBAL))),
    )


def command_page(command: Command) -> str:
    """One command: what it does, how it is called, its options, an example."""
    lines = [f"{command.summary}.", "", f"usage: {command.usage}", ""]
    if command.flags:
        lines += ["Options:", *_columns(map(_option, command.flags)), ""]
    if command.notes:
        lines += [command.notes, ""]
    shared = [
        flag for flag in GLOBAL if flag.name not in ("host", "version") and (command.without_daemon or flag.name != "no-daemon")
    ]
    lines += ["Options of all commands:", *_columns(map(_option, shared)), "", f"Example: {command.example}"]
    return "\n".join(lines) + "\n"


def group_page(group: tuple[str, ...]) -> str:
    """The commands that begin with this word."""
    entries = [((*group, word), COMMANDS.get((*group, word))) for word in GROUPS[group]]
    rows = [(" ".join(words), entry.summary if entry else "not in this version yet") for words, entry in entries]
    there = [entry for _, entry in entries if entry is not None]
    example = there[0].example if there else "cueloop session show"
    more = f"\n\n{GROUP_NOTES[group]}" if group in GROUP_NOTES else ""
    return f"usage: cueloop {group[0]} COMMAND\n\n" + "\n".join(_columns(rows)) + f"{more}\n\nExample: {example}\n"


def partly_page(beginning: tuple[str, ...]) -> str:
    """The commands of ours that begin with these words, which the Rust tool has others of."""
    entries = {words: entry for words, entry in COMMANDS.items() if words[: len(beginning)] == beginning}
    name = " ".join(beginning)
    rows = "\n".join(_columns((" ".join(words), entry.summary) for words, entry in entries.items()))
    return (
        f"usage: cueloop {name} COMMAND\n\n{rows}\n\n"
        f"All other commands of `{name}` are passed on to the Rust tool: cueloop rust {name} --help\n\n"
        f"Example: {next(iter(entries.values())).example}\n"
    )


def version(*, as_json: bool = False) -> str:
    """The version of this distribution and what it was built from: a line, or a document."""
    from cueloop_client.reach import PROTOCOL
    from cueloop_protocol.build import build

    found = build()
    if not as_json:
        return f"cueloop {found.line(PROTOCOL)}\n"
    import json

    return json.dumps(found.document(PROTOCOL), indent=2) + "\n"


def not_yet(command: tuple[str, ...]) -> str:
    """Why a command of ours does nothing yet, and what does it meanwhile."""
    name = LATER[command]
    return (
        f"`{name}` is not in this version yet, and it is not passed on by itself: "
        f"the Rust tool's command, where it has one, is `cueloop rust {name}`."
    )


def _option(flag: Flag) -> tuple[str, str]:
    short = f"-{flag.short}, " if flag.short else ""
    return f"{short}--{flag.name}{f' {flag.value}' if flag.value else ''}", flag.help


def _columns(rows: Iterable[tuple[str, str]]) -> list[str]:
    pairs = list(rows)
    width = max(len(left) for left, _ in pairs)
    return [f"  {left:<{width}}  {right}" for left, right in pairs]
