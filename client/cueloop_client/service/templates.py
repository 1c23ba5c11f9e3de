"""The templates of units and property list: files of the repository's top folders, which are beside us in an installed package."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent / "units"
CHECKOUT = Path(__file__).parents[3]
"""The top of the repository, where this file is in `client/cueloop_client/service/`."""


class NoTemplate(Exception):
    """This installation lacks a file that belongs to it; `str()` names it."""


def template(folder: str, name: str) -> bytes:
    """The content of `systemd/NAME` or `launchd/NAME`. Raises NoTemplate."""
    for path in (HERE / name, CHECKOUT / folder / name):
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
    raise NoTemplate(f"{folder}/{name}")
