"""An example of the doctor document."""

from __future__ import annotations

from typing import Final

from cueloop_protocol.base import JsonObject

_REFUSED: Final = "Resume: refusing to choose between the interrupted session for task CL-0001 and a fresh start."
DOCTOR: Final[JsonObject] = {
    "version": 1,
    "healthy": False,
    "observed_at": "2026-02-07T10:35:00.000000000Z",
    "repository": {
        "path": "/repo",
        "is_repository": True,
        "daemon": {"state": "running", "pid": 4711, "version": "0.1.0"},
    },
    "preview": {
        "session": "loaded",
        "task_id": "CL-0001",
        "age_seconds": 300,
        "words": [
            "A session of task CL-0001 was interrupted 5 minutes ago.",
            "It stands in phase 2 (implement), with 1 of 2 iterations done by claude with the model sonnet.",
        ],
        "next": [
            {
                "command": "cueloop run one",
                "would": "ask",
                "task_id": "CL-0001",
                "reason": "resume_confirmation_required",
                "message": _REFUSED,
                "detail": "The saved session is current and stands at phase 2 with 0 completed loop task(s).",
            }
        ],
        "ways": [
            {
                "name": "resume",
                "command": "cueloop run resume",
                "effect": "Goes on with the session, then with the queue.",
            }
        ],
    },
    "agents": [
        {
            "id": "claude",
            "name": "Anthropic Claude Code",
            "program": "claude",
            "path": "/usr/local/bin/claude",
            "version": "2.1.332",
            "tried": "@anthropic-ai/claude-code 2.1.332",
            "used_for": ["plan", "review"],
            "traps": [],
        }
    ],
    "findings": [
        {
            "code": "queue-not-json",
            "severity": "error",
            "area": "queue",
            "message": "/repo/.cueloop/queue.jsonc cannot be read: expected `,` or `}`.",
            "cause": "The text stops being JSON at the place that is named.",
            "fix": "Correct line 3, column 9 of /repo/.cueloop/queue.jsonc, or restore the file from git.",
            "path": "/repo/.cueloop/queue.jsonc",
        }
    ],
}
