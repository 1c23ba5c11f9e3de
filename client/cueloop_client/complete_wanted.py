"""What may stand where the cursor is, on a command line of ours. Pure. Standard library only.

Everything is read from the tables of commands and options, so that a command that is added there is completed.
"""

from __future__ import annotations

from cueloop_client.argv import GLOBAL
from cueloop_client.complete_values import Candidate, Files, Live, closed_words, source_of
from cueloop_client.table import COMMANDS, GROUPS
from cueloop_client.topics import TOPICS
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cueloop_client.flags import Flag

RUST = Candidate("rust", "a command of the Rust tool, whatever is ours")
HELP = Candidate("help", "the page of a command, of `environment` or of `exit-codes`")
UNOFFERED = ("accepted, nothing to do", "(not in this version)")
"""What the help of an option says that nobody wants to be offered."""


class Wanted(Frozen):
    """What fits: these words, and those that `live` would tell or the files of that kind.

    `prefix` is what has been typed of the candidate; `before` is what stands in front of it in the same word, as in `--repo=`.
    `given` are the options that have been typed before, with their last values.
    """

    words: tuple[Candidate, ...]
    prefix: str
    given: Mapping[str, str]
    before: str = ""
    live: Live | None = None
    files: Files | None = None


def wanted(words: Sequence[str]) -> Wanted:
    """What the last of these words may become; those are without the program's name and without the shell's quotes."""
    *typed, last = words or [""]
    given, rest, pending = _walk(GLOBAL, typed, stop=True)
    if pending is not None:
        return _value(pending, last, "", given)
    for depth in (3, 2, 1):
        command = COMMANDS.get(tuple(rest[:depth]))
        if command is not None and len(rest) >= depth:
            flags = [flag for flag in (*GLOBAL, *command.flags) if command.without_daemon or flag.name != "no-daemon"]
            return _in_command(flags, given, rest[depth:], last)
    if rest[:1] == ["help"]:
        topics = TOPICS if len(rest) == 1 else {}
        about = [Candidate(topic, text) for topic, text in topics.items()]
        return Wanted(words=_starting(last, [*_next_words(rest[1:]), *about]), prefix=last, given=given)
    if last.startswith("-"):
        return _option(GLOBAL, given, last) if not rest else _option([_HELP_FLAG] if _is_ours(rest) else [], given, last)
    names = [*_next_words(rest), *([HELP, RUST] if not rest else [])]
    return Wanted(words=_starting(last, names), prefix=last, given=given)


def _in_command(flags: Sequence[Flag], given: Mapping[str, str], typed: Sequence[str], last: str) -> Wanted:
    more, rest, pending = _walk(flags, typed, stop=False)
    given = {**given, **more}
    if pending is not None:
        return _value(pending, last, "", given)
    if last.startswith("-") and "--" not in rest:
        return _option(flags, given, last)
    return Wanted(words=(), prefix=last, given=given)


def _walk(flags: Sequence[Flag], typed: Sequence[str], *, stop: bool) -> tuple[dict[str, str], list[str], Flag | None]:
    """The options in these words, what is left, and the option that still wants its value. `stop`: at the first that is none."""
    by_name = _by_name(flags)
    given: dict[str, str] = {}
    left: list[str] = []
    rest = list(typed)
    while rest:
        word = rest.pop(0)
        if word == "--" or (stop and not word.startswith("-")):
            return given, [*left, word, *rest], None
        name, equals, value = word.partition("=")
        flag = by_name.get(name)
        if flag is None:
            left.append(word)
        elif flag.value is None or equals:
            given[flag.name] = value
        elif rest:
            given[flag.name] = rest.pop(0)
        else:
            return given, left, flag
    return given, left, None


def _option(flags: Sequence[Flag], given: Mapping[str, str], last: str) -> Wanted:
    """An option, or its value where the word goes on behind `=`."""
    name, equals, value = last.partition("=")
    if equals:
        flag = _by_name(flags).get(name)
        if flag is None or flag.value is None:
            return Wanted(words=(), prefix=last, given=given)
        return _value(flag, value, f"{name}=", given)
    offered = [
        Candidate(f"--{flag.name}", flag.help)
        for flag in flags
        if (flag.repeats or flag.name not in given) and not any(text in flag.help for text in UNOFFERED)
    ]
    return Wanted(words=_starting(last, offered), prefix=last, given=given)


def _value(flag: Flag, prefix: str, before: str, given: Mapping[str, str]) -> Wanted:
    source = source_of(flag)
    return Wanted(
        words=_starting(prefix, map(Candidate, closed_words(flag))),
        prefix=prefix,
        before=before,
        live=source if isinstance(source, Live) else None,
        files=source if isinstance(source, Files) else None,
        given=given,
    )


def _next_words(beginning: Sequence[str]) -> list[Candidate]:
    """The words of ours that go on from these; a word that is a group says what is in it."""
    depth = len(beginning)
    found: dict[str, list[tuple[str, ...]]] = {}
    for command in COMMANDS:
        if command[:depth] == tuple(beginning) and len(command) > depth:
            found.setdefault(command[depth], []).append(command)
    return [Candidate(word, _about((*beginning, word), commands)) for word, commands in found.items()]


def _about(words: tuple[str, ...], commands: Sequence[tuple[str, ...]]) -> str:
    if words in COMMANDS:
        return COMMANDS[words].summary
    inside = dict.fromkeys(command[len(words)] for command in commands)
    return ", ".join(GROUPS.get(words, tuple(inside)))


def _is_ours(beginning: Sequence[str]) -> bool:
    return bool(_next_words(beginning))


def _starting(prefix: str, candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    return tuple(candidate for candidate in candidates if candidate.value.startswith(prefix))


def _by_name(flags: Sequence[Flag]) -> dict[str, Flag]:
    return {f"--{flag.name}": flag for flag in flags} | {f"-{flag.short}": flag for flag in flags if flag.short}


_HELP_FLAG = next(flag for flag in GLOBAL if flag.name == "help")
