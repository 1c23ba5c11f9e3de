"""Programs in Python that can be executed."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def python_program(path: Path, source: str, options: str = "") -> Path:
    """Write one for this interpreter, whose own path may hold spaces, which a `#!` line cannot."""
    code = path.with_name(f"{path.name}.py")
    code.write_text(source)
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {options} {shlex.quote(str(code))} "$@"\n')
    path.chmod(0o755)
    return path
