"""What the agent CLIs print, made by hand after `docs/runners.md`; and short ways to read it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cueloop_daemon.runners import Conversation, Reader, Runner, Settings, UnknownRunner, Verdict, runner_for

UUID = "11111111-2222-4333-8444-555555555555"
OTHER = "99999999-2222-4333-8444-555555555555"
THREAD = "0199a213-81c0-7800-8aa1-bbab2a035a53"
OURS = "RQ-0001-p2-1704153600"

BASE = Settings(
    runner="claude",
    model="m",
    effort=None,
    approval_mode="default",
    sandbox="default",
    plan_mode="default",
    output_format="stream_json",
    verbosity="normal",
    option_policy="warn",
    permission_mode="accept_edits",
    bin="/bin/agent",
)


def settings(runner: str, **changes: str | None) -> Settings:
    return replace(BASE, runner=runner, **{"bin": f"/bin/{runner}", **changes})  # type: ignore[arg-type]  # fields that are texts


def built_in(id_: str, version: str = "") -> Runner:
    runner = runner_for(id_, {})
    assert not isinstance(runner, UnknownRunner)
    return runner.with_version(version)


def lines(*docs: object) -> bytes:
    return b"".join(doc if isinstance(doc, bytes) else json.dumps(doc).encode() + b"\n" for doc in docs)


@dataclass(frozen=True)
class Told:
    """What a reader made of an output."""

    shown: str
    verdict: Verdict
    reader: Reader


def read(
    runner: Runner,
    out: bytes,
    err: bytes = b"",
    exit_code: int | None = 0,
    signal: int | None = None,
    *,
    resumed: str | None = None,
    chosen: str | None = None,
    lingered: bool = False,
    cuts: Sequence[int] = (),
) -> Told:
    reader = runner.reader()
    shown = ""
    for part in cut(out, cuts):
        shown += "".join(piece.text for piece in reader.feed(part))
    for part in cut(err, cuts):
        shown += "".join(piece.text for piece in reader.feed_err(part))
    shown += "".join(piece.text for piece in reader.end())
    verdict = reader.verdict(
        exit_code,
        signal,
        resumed=Conversation(resumed) if resumed else None,
        chosen=Conversation(chosen, is_ours=True) if chosen else None,
        lingered=lingered,
    )
    return Told(shown, verdict, reader)


def cut(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(data) + 1) for place in cuts}), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def says(text: str) -> dict[str, object]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


GOOD: dict[str, tuple[bytes, str | None]] = {
    "claude": (
        lines(
            {"type": "system", "subtype": "init", "session_id": UUID},
            {"type": "assistant", "message": says("worked"), "session_id": UUID},
            {"type": "result", "subtype": "success", "is_error": False, "result": "worked", "session_id": UUID},
        ),
        UUID,
    ),
    "codex": (
        lines(
            {"type": "thread.started", "thread_id": THREAD},
            {"type": "turn.started"},
            {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "worked"}},
            {"type": "turn.completed", "usage": {}},
        ),
        THREAD,
    ),
    "gemini": (
        lines(
            {"type": "init", "session_id": UUID, "model": "m"},
            {"type": "message", "role": "user", "content": "do it"},
            {"type": "message", "role": "assistant", "content": "wor", "delta": True},
            {"type": "message", "role": "assistant", "content": "ked", "delta": True},
            {"type": "result", "status": "success", "stats": {}},
        ),
        UUID,
    ),
    "kimi": (
        lines(
            {"role": "assistant", "content": "worked"},
            {"role": "meta", "type": "session.resume_hint", "session_id": "session_5f0e"},
        ),
        "session_5f0e",
    ),
    "pi": (
        lines(
            {"type": "session", "version": 3, "id": UUID, "cwd": "/r"},
            {"type": "message_end", "message": {**says("worked"), "stopReason": "stop"}},
            {"type": "agent_end", "messages": []},
        ),
        UUID,
    ),
    "opencode": (
        lines(
            {"type": "step_start", "sessionID": "ses_5f0e", "part": {"type": "step-start"}},
            {"type": "text", "sessionID": "ses_5f0e", "part": {"type": "text", "text": "worked"}},
            {"type": "step_finish", "sessionID": "ses_5f0e", "part": {"type": "step-finish", "reason": "stop"}},
        ),
        "ses_5f0e",
    ),
    "cursor": (
        lines(
            {"type": "system", "subtype": "init", "agent_id": "agent-1"},
            {"type": "assistant", "agent_id": "agent-1", "message": says("worked")},
            {"type": "result", "status": "finished", "agent_id": "agent-1", "result": "worked"},
        ),
        "agent-1",
    ),
}
"""For each runner a stream of a success, in which the agent says "worked", and the id it reports."""
