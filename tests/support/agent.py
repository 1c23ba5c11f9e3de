"""Plays Claude Code: what a test wrote into `act.py` beside it is run with the words below, and each call is kept in `calls.jsonl`."""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
from pathlib import Path

HERE = Path(os.environ.get("STANDIN") or Path(__file__).resolve().parent)
ARGV = sys.argv[1:]


def _after(flag: str) -> str | None:
    return ARGV[ARGV.index(flag) + 1] if flag in ARGV[:-1] else None


PROMPT = sys.stdin.read()
RESUMED = _after("--resume")
ID = RESUMED or _after("--session-id") or "11111111-2222-4333-8444-555555555555"
_plan = re.search(r"[^ `\"]*cache/plans/[\w-]+\.md", PROMPT)
PLAN = Path(_plan[0]) if _plan else None
TASK = os.environ.get("CUELOOP_TASK_ID", "")
_PHASES = (("plan", "You plan one task"), ("implement", "You carry out the plan"), ("review", "You review work"))
PHASE = next(
    (name for name, words in _PHASES if PROMPT.startswith(words)), "single" if PROMPT.startswith("You work alone") else "more"
)


def _number() -> int:
    """Count this call and keep what it was given."""
    fact = {
        "argv": ARGV,
        "prompt": PROMPT,
        "phase": PHASE,
        "task": TASK,
        "pid": os.getpid(),
        "cwd": os.getcwd(),
        "env": dict(os.environ),
    }
    with open(HERE / "calls.jsonl", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        count = len(file.readlines()) + 1
        file.write(json.dumps(fact) + "\n")
    return count


def say(**fact: object) -> None:
    """One line of the stream."""
    print(json.dumps(fact), flush=True)


def begin() -> None:
    """The first line, with the id of the conversation."""
    say(type="system", subtype="init", session_id=ID, cwd=os.getcwd(), tools=[])


def text(words: str) -> None:
    """A message of the assistant."""
    say(type="assistant", message={"role": "assistant", "content": [{"type": "text", "text": words}]}, session_id=ID)


def plan(words: str = "1. Do it.\n") -> None:
    """Write the plan, if one is asked for."""
    if PLAN is not None and PHASE == "plan":
        PLAN.parent.mkdir(parents=True, exist_ok=True)
        PLAN.write_text(words)


def end(words: str = "worked") -> None:
    """The last line of a success."""
    say(type="result", subtype="success", is_error=False, num_turns=1, result=words, session_id=ID)


def work(words: str = "worked") -> None:
    """All of a success: plan, message, last line."""
    begin()
    plan()
    text(words)
    end(words)


def wait_for(name: str, seconds: float = 60) -> None:
    """Wait until the test makes this file."""
    deadline = time.monotonic() + seconds
    while not (HERE / name).exists():
        if time.monotonic() > deadline:
            sys.exit(f"nobody made {name}")
        time.sleep(0.005)


if __name__ == "__main__":
    NUMBER = _number()
    exec(compile((HERE / "act.py").read_text(), "act.py", "exec"))
