"""What a command line asks for: a command of ours, one that is passed on, or neither. Pure. Standard library only."""

from __future__ import annotations

from cueloop_client.flags import Flag
from cueloop_client.table import COMMANDS, GROUPS, LATER, PARTLY_OURS
from cueloop_client.topics import TOPICS
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

GLOBAL = (
    Flag("repo", "PATH", "the repository, instead of the one around the working directory"),
    Flag("host", "SSH_URL", "a repository on another machine: ssh://user@box:port/path, or ssh://box/~/path"),
    Flag("no-daemon", None, "answer in this process: the same answer, and no background process (reading commands)"),
    Flag("json", None, "print JSON"),
    Flag("timeout", "SECONDS", "how long to wait for the daemon's answer (default 10)"),
    Flag("color", "WHEN", "auto, always or never"),
    Flag("no-color", None, "the same as --color never; so does NO_COLOR in the environment"),
    Flag("verbose", None, "show more when something goes wrong", short="v"),
    Flag("auto-fix", None, "accepted, nothing to do"),
    Flag("no-sanity-checks", None, "accepted, nothing to do"),
    Flag("help", None, "show help", short="h"),
    Flag("version", None, "show the version and what it was built from", short="V"),
)
OURS_ALONE = ("repo", "host", "no-daemon", "json", "timeout")
"""Global options that the Rust tool does not have; the others it has too, and they are passed on where they stand."""

NOT_PASSED_ON = (*OURS_ALONE, "fresh", "detach")
"""The same for the options of a loop."""


class Ours(Frozen):
    """A command of ours; `argv` is what goes to its option parser, the global options before it included."""

    command: tuple[str, ...]
    argv: tuple[str, ...]


class Later(Frozen):
    """A command of ours that this version does not have yet."""

    command: tuple[str, ...]


class PassedOn(Frozen):
    """A command of the Rust tool; `argv` is untouched. `name` is how people call the command."""

    name: str
    argv: tuple[str, ...]


class Help(Frozen):
    """Help is asked for: for everything, or for a command or group of commands."""

    command: tuple[str, ...]


class Complete(Frozen):
    """A shell asks what may stand at the cursor; `words` are as `cueloop_client.complete` takes them."""

    shell: str
    words: tuple[str, ...]


class Version(Frozen):
    """The version is asked for, for people or as JSON."""

    json: bool


class Wrong(Frozen):
    """No command line of ours; the sentence says why."""

    message: str


class AtHost(Frozen):
    """Another machine's cueloop has a command run here."""

    word: str


Meaning = Ours | Later | PassedOn | Help | Version | Complete | AtHost | Wrong

SHELLS = ("bash", "zsh", "fish")


def meaning(argv: Sequence[str]) -> Meaning:
    """What the arguments (without the program's name) ask for."""
    if len(argv) > 3 and argv[0] == "complete" and argv[1] in SHELLS and argv[2] == "--":
        return Complete(argv[1], tuple(argv[3:]))
    if len(argv) == 2 and argv[0] == "at-host":
        return AtHost(argv[1])
    before, words, unknown = _globals(argv)
    names = [flag.name for flag, _ in before]
    if not words:
        if unknown is not None and "help" not in names:
            return Wrong(f"There is no option {unknown}. `cueloop --help` lists what there is.")
        return Version("json" in names) if "version" in names and "help" not in names else Help(())
    asked = _asked_help(words)
    if asked is not None:
        return asked
    if not _is_ours(words):
        surplus = next((flag.name for flag, _ in before if flag.name in OURS_ALONE), None)
        if surplus is not None:
            return Wrong(
                f"--{surplus} before `{words[0]}` is not possible: it is passed on to the Rust tool, which has no such option."
            )
        if words[0] == "rust":
            return PassedOn("rust", tuple(words[1:]))
        return PassedOn(_name(words), tuple(argv))
    if unknown is not None:
        return Wrong(f"There is no option {unknown}. `cueloop --help` lists what there is.")
    if "help" in names:
        return Help(())
    if "version" in names:
        return Version("json" in names)
    return _of_ours([*_rebuilt(before)], words, argv)


def near(name: str) -> str | None:
    """The command of ours that was probably meant by one that nobody knows; None if none is near."""
    from difflib import get_close_matches

    known = [*(" ".join(command) for command in COMMANDS), *(" ".join(group) for group in GROUPS), *LATER.values()]
    close = get_close_matches(name, known, n=1, cutoff=0.75) or get_close_matches(name.split()[0], known, n=1, cutoff=0.75)
    return close[0] if close else None


def _asked_help(words: Sequence[str]) -> Help | None:
    """`help …`, and `--help` after the first words of commands that are ours only in part; None for all else."""
    if words[0] == "help":
        about = tuple(words[1:])
        is_topic = len(about) == 1 and about[0] in TOPICS
        return Help(about) if not about or is_topic or about in GROUPS or about in LATER or _begins_ours(about) else None
    *first, last = words
    return Help(tuple(first)) if last in ("--help", "-h") and words[0] == "machine" and _begins_ours(tuple(first)) else None


def _begins_ours(words: tuple[str, ...]) -> bool:
    return any(command[: len(words)] == words for command in COMMANDS)


def _globals(argv: Sequence[str]) -> tuple[list[tuple[Flag, str]], list[str], str | None]:
    """The global options before the command with their values, what follows, and the first option that is unknown."""
    by_name = {f"--{flag.name}": flag for flag in GLOBAL} | {f"-{flag.short}": flag for flag in GLOBAL if flag.short}
    found: list[tuple[Flag, str]] = []
    unknown: str | None = None
    rest = list(argv)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        flag = by_name.get(name)
        if flag is None:
            unknown = unknown or word
        elif flag.value is None:
            if equals:
                unknown = unknown or word
            found.append((flag, ""))
        elif equals or rest:
            found.append((flag, value if equals else rest.pop(0)))
        else:
            unknown = unknown or f"{name} without a value"
    return found, rest, unknown


def _rebuilt(before: Sequence[tuple[Flag, str]]) -> list[str]:
    return [f"--{flag.name}" if flag.value is None else f"--{flag.name}={value}" for flag, value in before]


def _is_ours(words: Sequence[str]) -> bool:
    first = words[0]
    if first not in PARTLY_OURS:
        return (first,) in GROUPS or (first,) in COMMANDS or (first,) in LATER
    depths = PARTLY_OURS[first]
    if first == "run" and (len(words) == 1 or words[1].startswith("-")):
        return True
    return any(tuple(words[:depth]) in COMMANDS or tuple(words[:depth]) in LATER for depth in depths)


def _of_ours(before: list[str], words: Sequence[str], argv: Sequence[str]) -> Meaning:
    for depth in (3, 2, 1):
        command = tuple(words[:depth])
        if len(command) < depth:
            continue
        if command in COMMANDS:
            rest = words[depth:]
            options = rest[: rest.index("--")] if "--" in rest else rest
            if "--help" in options or "-h" in options:
                return Help(command)
            if "run" in command and _has(options, "parallel"):
                return _parallel(command, [*before, *options], argv)
            return Ours(command, (*before, *rest))
        if command in LATER:
            return Later(command)
    group = (words[0],)
    if len(words) > 1 and words[1] in ("--help", "-h"):
        return Help(group)
    given = f"`{words[0]} {words[1]}` is no command" if len(words) > 1 else f"`{words[0]}` alone is no command"
    return Wrong(f"{given}: it takes {', '.join(GROUPS[group])}.")


def _parallel(command: tuple[str, ...], options: Sequence[str], argv: Sequence[str]) -> Meaning:
    """A run with `--parallel`: the Rust tool's, if it is a loop that is not resumed (contract section 10)."""
    name = " ".join(command)
    if command[-1] != "loop":
        return Wrong(f"`{name}` has no option --parallel: only a loop can be parallel.")
    if _has(options, "resume"):
        return Wrong("--parallel and --resume contradict each other: what is resumed is one run, and never parallel.")
    surplus = next((option for option in NOT_PASSED_ON if _has(options, option)), None)
    if surplus is not None:
        return Wrong(f"--{surplus} does not go with --parallel: that is passed on to the Rust tool, which has no such option.")
    return PassedOn(f"{name} --parallel", tuple(argv))


def _has(words: Sequence[str], option: str) -> bool:
    return any(word.partition("=")[0] == f"--{option}" for word in words)


def _name(words: Sequence[str]) -> str:
    """`task done`, `machine queue read`: the words of a command, without what is an argument or an option."""
    most = 3 if words[0] == "machine" else 2
    name: list[str] = []
    for word in words[:most]:
        if not word.replace("-", "").isalpha() or word.startswith("-"):
            break
        name.append(word)
    return " ".join(name) or words[0]
