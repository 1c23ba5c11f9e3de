"""The daemon with a test's hand in it: `PROBE` is JSON with the step at which it ends or stops itself, and what else is different.

`step` and `signal`: at this step of a handover the process sends itself this signal. `numbers`: constants of the modules of
`cueloop_daemon.takeover`, as `module.NAME`. `without`: methods that this daemon does not know. The arguments are those of `at_home`.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.at_home import as_if_at


def prepare(asked: dict[str, Any]) -> None:
    """Put in place what was asked for."""
    from cueloop_daemon.takeover import probes

    def at(step: str) -> None:
        if step == asked.get("step"):
            os.kill(os.getpid(), asked["signal"])

    probes.at = at
    for name, value in asked.get("numbers", {}).items():
        module, _, constant = name.partition(".")
        setattr(import_module(f"cueloop_daemon.takeover.{module}"), constant, value)
    if asked.get("without"):
        from cueloop_daemon.server.handlers import table

        table.TABLE = {name: entry for name, entry in table.TABLE.items() if name not in asked["without"]}
        import_module("cueloop_daemon.server.handlers").TABLE = table.TABLE  # type: ignore[attr-defined]  # a test's own door


if __name__ == "__main__":
    as_if_at(sys.argv[1])
    prepare(json.loads(os.environ.pop("PROBE", "{}")))
    from cueloop_daemon.__main__ import main

    sys.exit(main(sys.argv[2:]))
