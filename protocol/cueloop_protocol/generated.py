"""Commands that print a page of `docs/`, or say whether a file is that page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def page_command(arguments: Sequence[str], page: Callable[[], str], module: str) -> int:
    """Print the page (0), or with `--check FILE` say whether the file is it (0: it is, 1: it is not); 2: wrong usage."""
    if not arguments:
        sys.stdout.write(page())
        return 0
    if len(arguments) != 2 or arguments[0] != "--check":
        print(f"usage: python -m {module} [--check FILE]", file=sys.stderr)
        return 2
    path = Path(arguments[1])
    if path.is_file() and path.read_text("utf-8") == page():
        return 0
    print(f"{path} is not current; write it with: python -m {module} > {path}", file=sys.stderr)
    return 1
