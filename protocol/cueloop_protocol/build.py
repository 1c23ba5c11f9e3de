"""Where the code that runs was built from. Standard library only; no program is started for it."""

from __future__ import annotations

import os
import sys

from cueloop_protocol.frozen import Frozen
from cueloop_protocol.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Build(Frozen):
    """A build: of what version, and from which commit of the repository (40 or 64 hexadecimal digits).

    `commit` is None where none was known. `commit_date` is in UTC, as `2026-02-07T10:35:00Z`; a checkout does not tell it.
    `changed`: the tree that was built was not the commit's; None where nobody looked, as in a checkout.
    """

    version: str
    source: str
    """`built` (a wheel or an sdist) or `checkout`."""
    commit: str | None
    commit_date: str | None
    changed: bool | None

    def line(self, protocol: int) -> str:
        """The version and what is known beyond it, on one line."""
        return f"{self.version} ({self._origin()}, Python {python_version()}, protocol {protocol})"

    def document(self, protocol: int) -> dict[str, Any]:
        """The same for programs."""
        return {
            "version": self.version,
            "source": self.source,
            "commit": self.commit,
            "commit_date": self.commit_date,
            "changed": self.changed,
            "python": python_version(),
            "protocol": protocol,
        }

    def _origin(self) -> str:
        if self.source == "checkout":
            return f"source checkout at {self.commit[:12]}" if self.commit else "source checkout"
        if self.commit is None:
            return "unknown commit"
        day = f" of {self.commit_date[:10]}" if self.commit_date else ""
        return f"commit {self.commit[:12]}{day}{', changed' if self.changed else ''}"


def build() -> Build:
    """Of the code that runs now."""
    try:
        from cueloop_protocol import _build
    except ImportError:
        return Build(__version__, "checkout", commit_of(os.path.dirname(os.path.dirname(os.path.dirname(__file__)))), None, None)
    return Build(__version__, "built", _build.COMMIT, _build.COMMIT_DATE, _build.CHANGED)


def python_version() -> str:
    """As `3.11.7`, with what comes before a release (`3.15.0rc1`)."""
    return sys.version.split(maxsplit=1)[0]


def commit_of(folder: str) -> str | None:
    """The commit that is checked out in this folder, read from git's files (gitrepository-layout); None if it is not plain."""
    try:
        private = _git_folder(os.path.join(folder, ".git"))
        head = _text(os.path.join(private, "HEAD"))
        if not head.startswith("ref: "):
            return _commit(head)
        common = private
        if os.path.isfile(os.path.join(private, "commondir")):
            common = os.path.join(private, _text(os.path.join(private, "commondir")))
        return _commit(_ref(common, head[len("ref: ") :]))
    except (OSError, ValueError):
        return None


def _git_folder(path: str) -> str:
    """The folder that `.git` is, or names where it is a file (linked work trees, submodules)."""
    if os.path.isdir(path):
        return path
    return os.path.join(os.path.dirname(path), _text(path).removeprefix("gitdir: "))


def _ref(common: str, name: str) -> str:
    try:
        return _text(os.path.join(common, name))
    except FileNotFoundError:
        lines = _text(os.path.join(common, "packed-refs")).splitlines()
        return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def _commit(text: str) -> str | None:
    return text if len(text) in (40, 64) and not set(text) - set("0123456789abcdef") else None
