"""The scripts that make shells complete `cueloop`. Standard library only.

A script is the shell's half alone: it asks `cueloop complete`, which reads the tables of commands, so that an update needs no new script.
"""

from __future__ import annotations

import os


def script(shell: str) -> str:
    """The script for `bash`, `zsh` or `fish`, without the last line end."""
    with open(os.path.join(os.path.dirname(__file__), "shells", f"cueloop.{shell}"), encoding="utf-8") as file:
        return file.read().rstrip("\n")
