"""Plays Claude Code for the tour: no model, no network. It answers each phase with a sentence and one small change of a file.

While the file `~/keep-working` is there, implementing does not come to an end, so that there is time to look, and to kill something.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

VERSION = "2.1.332 (Claude Code)"
PHASES = {"You plan one task": "plan", "You carry out the plan": "implement", "You review work": "review"}
SAID = {
    "plan": "I have read the code and written down what to do.",
    "implement": "I follow the plan.",
    "review": "I have read the change. It does what the task asks for.",
}
GOES_ON = "I was interrupted, and go on where I was."
AT_MOST = 600.0


def after(flag: str) -> str | None:
    """The word after a flag of the command line."""
    return sys.argv[sys.argv.index(flag) + 1] if flag in sys.argv[:-1] else None


def say(**fact: object) -> None:
    """One line of the stream."""
    print(json.dumps(fact), flush=True)


def text(words: str, conversation: str) -> None:
    """A message of the assistant."""
    message = {"role": "assistant", "content": [{"type": "text", "text": words}]}
    say(type="assistant", message=message, session_id=conversation)


def work(phase: str, prompt: str) -> None:
    """Write the plan, or change something."""
    if phase == "plan" and (named := re.search(r"[^ `\"]*cache/plans/[\w-]+\.md", prompt)):
        plan = Path(named[0])
        plan.parent.mkdir(parents=True, exist_ok=True)
        plan.write_text("1. Change greet.py.\n")
    elif phase == "implement":
        wait()
        with Path("greet.py").open("a") as program:
            program.write("# Better now.\n")


def wait() -> None:
    """As long as there is more to do."""
    deadline = time.monotonic() + AT_MOST
    while (Path.home() / "keep-working").exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def main() -> None:
    """One call of the agent. It remembers its conversations, as the real one does."""
    prompt = sys.stdin.read()
    resumed = after("--resume")
    conversation = resumed or after("--session-id") or ""
    memory = Path.home() / ".claude" / conversation
    memory.parent.mkdir(exist_ok=True)
    new = next((name for words, name in PHASES.items() if prompt.startswith(words)), "implement")
    phase = memory.read_text() if resumed else new
    memory.write_text(phase)
    say(type="system", subtype="init", session_id=conversation, tools=[])
    text(GOES_ON if resumed else SAID[phase], conversation)
    work(phase, prompt)
    say(type="result", subtype="success", is_error=False, num_turns=1, result=SAID[phase], session_id=conversation)


if __name__ == "__main__":
    if "--version" in sys.argv:
        print(VERSION)
    else:
        main()
