"""Systems that watch, fail or end the process at a chosen call. A method that is added to `System` is covered by itself."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cueloop_daemon.store.system import System

CALLS = tuple(name for name in vars(System) if not name.startswith("_"))


@dataclass(frozen=True)
class Call:
    """One call: its number from 0, its name and its arguments."""

    number: int
    name: str
    args: tuple[Any, ...]

    @property
    def path(self) -> str:
        return next((arg for arg in self.args if isinstance(arg, str)), "")


class Hooked(System):
    """Runs `before` ahead of each call; `calls` is what was called."""

    def __init__(self, before: Callable[[Call], None] = lambda call: None) -> None:
        self.calls: list[Call] = []
        self.before = before

    @property
    def names(self) -> list[str]:
        return [call.name for call in self.calls]


def _hooked(name: str) -> Callable[..., Any]:
    real = getattr(System, name)

    def call(self: Hooked, *args: Any) -> Any:
        made = Call(len(self.calls), name, args)
        self.calls.append(made)
        self.before(made)
        return real(self, *args)

    return call


for _name in CALLS:
    setattr(Hooked, _name, _hooked(_name))


class Unhurried(Hooked):
    """Watched like the others, but nothing waits for the medium: for tests that make thousands of writes and pull no plug."""

    def fsync(self, fd: int) -> None:
        self._note("fsync", fd)

    def fsync_folder(self, path: str) -> None:
        self._note("fsync_folder", path)

    def _note(self, name: str, *args: Any) -> None:
        made = Call(len(self.calls), name, args)
        self.calls.append(made)
        self.before(made)


def failing(number: int, code: int) -> Hooked:
    """The call `number` fails with the errno; a write takes half of its bytes first."""

    def before(call: Call) -> None:
        if call.number == number:
            _tear(call)
            raise OSError(code, os.strerror(code), call.path or None)

    return Unhurried(before)


def failing_where(wanted: Callable[[Call], bool], code: int) -> Hooked:
    """Every call that `wanted` picks fails with the errno."""

    def before(call: Call) -> None:
        if wanted(call):
            raise OSError(code, os.strerror(code), call.path or None)

    return Hooked(before)


def without_exchange(
    before: Callable[[Call], None] = lambda call: None, *, code: int = errno.ENOSYS, kind: type[Hooked] = Hooked
) -> Hooked:
    """A file system that knows neither exchange nor no-replace."""

    def both(call: Call) -> None:
        before(call)
        if call.name in ("exchange", "rename_new"):
            raise OSError(code, os.strerror(code))

    return kind(both)


def deadly(number: int) -> Callable[[Call], None]:
    """A hook that ends this process by SIGKILL before the call `number`; of a write, half is done."""

    def before(call: Call) -> None:
        if call.number == number:
            _tear(call)
            os.kill(os.getpid(), signal.SIGKILL)

    return before


def _tear(call: Call) -> None:
    if call.name == "write":
        fd, data = call.args
        os.write(fd, data[: len(data) // 2])
