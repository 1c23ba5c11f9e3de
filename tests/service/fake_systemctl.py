"""Plays `systemctl --user` and `loginctl`: what it is asked is kept, and what it knows is a file that tests write."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

HERE = Path(os.environ["FAKE_MANAGER"])


def units(state: dict[str, str], names: list[str]) -> str:
    blocks = []
    for name in names:
        known = state.get(name, "inactive dead disabled 0")
        active, sub, enabled, pid = known.split()
        blocks.append(
            f"Id={name}\nLoadState=loaded\nActiveState={active}\nSubState={sub}\nResult={'success' if active != 'failed' else 'watchdog'}\n"
            f"UnitFileState={enabled}\nMainPID={pid}\nNRestarts=0\nStatusText="
        )
    return "\n\n".join(blocks)


def main() -> int:
    program, argv = os.path.basename(sys.argv[0]), sys.argv[1:]
    with (HERE / "calls").open("a") as calls:
        calls.write(json.dumps([program, *argv]) + "\n")
    path = HERE / "state.json"
    state: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    if state.get("unreachable"):
        print("Failed to connect to bus: No medium found", file=sys.stderr)
        return 1
    words = [word for word in argv if not word.startswith("-")]
    match (program, words):
        case ("loginctl", _):
            print(state.get("linger", "yes"))
        case (_, ["show"]):
            print(state.get("unit_path", "") if "--property=UnitPath" in argv else "252")
        case (_, ["show", *names]):
            print(units(state, names))
        case (_, ["enable", name]):
            state[name] = "active listening enabled 0"
        case (_, ["disable", name]):
            state[name] = "inactive dead disabled 0"
        case (_, [verb, *_]) if verb == state.get("fails"):
            print("Job failed.", file=sys.stderr)
            return 1
    path.write_text(json.dumps(state))
    return 0


if __name__ == "__main__":
    sys.exit(main())
