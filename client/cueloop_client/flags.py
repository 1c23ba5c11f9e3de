"""Options of commands as tables, and a parser for them. Standard library only, and none of it: argparse takes 7 ms to load."""

from __future__ import annotations

from cueloop_client.failures import Usage
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Flag(Frozen):
    """One option: its long name without dashes, the name of its value (None: it takes none), and what help says."""

    name: str
    value: str | None
    help: str
    short: str | None = None
    repeats: bool = False


class Values(Frozen):
    """What was given on a command line: option name → its values in order (an option without a value counts as "")."""

    given: Mapping[str, tuple[str, ...]]
    words: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Whether the option was given."""
        return name in self.given

    def text(self, name: str) -> str | None:
        """The option's value; None if it was not given."""
        values = self.given.get(name)
        return values[-1] if values else None

    def texts(self, name: str) -> tuple[str, ...]:
        """All values of an option that repeats."""
        return self.given.get(name, ())

    def number(self, name: str, default: int) -> int:
        """The option's value as a number from 0. Raises Usage."""
        text = self.text(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit()) or len(text) > 9:
            raise Usage(f"--{name} takes a number from 0 to 999999999, not {text!r}.")
        return int(text)


def parse(flags: Sequence[Flag], argv: Sequence[str]) -> Values:
    """Options may stand anywhere, `--name value` or `--name=value`; `--` ends them. Raises Usage naming what is wrong."""
    by_name = {f"--{flag.name}": flag for flag in flags} | {f"-{flag.short}": flag for flag in flags if flag.short}
    given: dict[str, tuple[str, ...]] = {}
    words: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            words += rest
            break
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        name, equals, value = word.partition("=")
        flag = by_name.get(name)
        if flag is None:
            raise Usage(f"There is no option {name}.{_near(name, by_name)}")
        if flag.value is None:
            if equals:
                raise Usage(f"{name} takes no value.")
        elif not equals:
            if not rest:
                raise Usage(f"{name} needs a value: {name} {flag.value}.")
            value = rest.pop(0)
        if flag.name in given and not flag.repeats and flag.value is not None and given[flag.name] != (value,):
            raise Usage(f"{name} is given twice, with different values.")
        given[flag.name] = (*given.get(flag.name, ()), value) if flag.repeats else (value,)
    return Values(given, tuple(words))


def _near(name: str, known: Mapping[str, Flag]) -> str:
    """A hint at the option that was probably meant; empty if none is near."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1, cutoff=0.75)
    return f" Did you mean {close[0]}?" if close else ""
