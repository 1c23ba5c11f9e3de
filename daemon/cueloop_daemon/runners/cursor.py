"""Cursor through its SDK: a small Node program of ours (`cursor_sdk.mjs`), one JSON request on stdin, events as JSON lines."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from pathlib import Path

from cueloop_daemon.runners.calling import OneVersion
from cueloop_daemon.runners.facts import CURSOR
from cueloop_daemon.runners.ids import own_uuid
from cueloop_daemon.runners.judging import Fault
from cueloop_daemon.runners.model import Conversation, Invocation, Prompt, Settings
from cueloop_daemon.runners.parse import Doc
from cueloop_daemon.runners.reader import StreamReader

PROGRAM = str(Path(__file__).with_name("cursor_sdk.mjs"))
_SILENT = frozenset({"system", "user", "thinking", "status", "task", "usage", "request"})


class Cursor(OneVersion):
    """The Cursor SDK; `Settings.bin` is Node."""

    def __init__(self) -> None:
        super().__init__(CURSOR)

    def fresh(self, settings: Settings, prompt: Prompt, chosen: Conversation | None, cwd: str) -> Invocation:
        """See `model.Runner`."""
        own = self.checked(chosen) if chosen else None
        return self._invocation(settings, prompt, {"action": "create", "agentId": own}, cwd)

    def resume(self, settings: Settings, conversation: Conversation, message: Prompt, cwd: str) -> Invocation:
        """See `model.Runner`."""
        wanted: dict[str, object] = {"action": "resume", "agentId": self.checked(conversation)}
        return self._invocation(settings, message, wanted, cwd)

    def reader(self, *, is_quiet: bool = False) -> CursorReader:
        """See `model.Runner`."""
        return CursorReader(CURSOR, is_quiet=is_quiet)

    def choose_id(self, task_id: str, phase: int, seconds: int, again: int = 0) -> Conversation:
        """See `model.Runner`."""
        return Conversation(f"agent-{uuid.UUID(own_uuid(task_id, phase, seconds, again))}", is_ours=True)

    def _invocation(self, settings: Settings, prompt: Prompt, wanted: dict[str, object], cwd: str) -> Invocation:
        request = {**wanted, "cwd": cwd, "model": _model(settings), "prompt": prompt.text}
        if settings.cursor is not None and settings.cursor.setting_sources is not None:
            request["settingSources"] = list(settings.cursor.setting_sources)
        if settings.sandbox != "default":
            request["sandbox"] = settings.sandbox == "enabled"
        if settings.plan_mode == "enabled":
            request["mode"] = "plan"
        stdin = json.dumps(request).encode()
        return self.invocation(settings, (settings.bin, PROGRAM), cwd, stdin=stdin)


def _model(settings: Settings) -> dict[str, object]:
    given = (settings.cursor.model_params if settings.cursor else None) or {}
    values: dict[str, str | bool] = {**({"reasoning_effort": settings.effort} if settings.effort else {}), **given}
    params = [{"id": name, "value": str(value).lower() if isinstance(value, bool) else value} for name, value in values.items()]
    return {"id": settings.model, **({"params": params} if params else {})}


class CursorReader(StreamReader):
    """The SDK's messages as they are, then one line of the program's own: `result` or `error`."""

    def event(self, doc: Doc) -> Iterable[str] | None:
        """See `StreamReader`."""
        kind = doc.text("type")
        if kind not in ("error", "result") or doc.text("status") == "finished":
            self.saw_id(doc.text("session_id") or doc.text("agent_id") or doc.text("agentId"))
        match kind:
            case "assistant":
                return self._assistant(doc)
            case "tool_call":
                running = doc.text("status") == "running"
                return self.used(doc.text("name"), _about(doc.doc("args"))) if running else []
            case "result":
                return self._result(doc)
            case "error":
                return self.failed(_fault(doc.doc("error")))
            case kind if kind in _SILENT:
                return []
        return None

    def _assistant(self, doc: Doc) -> list[str]:
        texts = [part.text("text") for part in doc.doc("message").docs("content") if part.text("type") == "text"]
        return self.streamed("".join(texts))

    def _result(self, doc: Doc) -> list[str]:
        if doc.text("status") == "finished":
            return [*self._close_line(), *self.succeeded(doc.text("result"))]
        error = doc.doc("error")
        return self.failed(_fault(error) if error else Fault(f"the run ended with status {doc.text('status') or 'unknown'}"))


def _fault(error: Doc) -> Fault:
    # UnknownAgentError is the SDK's name for whatever it cannot name; it does not mean that the agent is gone.
    name, code = error.text("name"), error.text("code")
    kind = code if code == "agent_not_found" else name or code
    text = error.text("message") or kind or "it gave no reason"
    is_login = name == "AuthenticationError"
    return Fault(text, error.number("status"), kind, retryable=error.is_true("isRetryable"), is_login=is_login)


def _about(given: Doc) -> str:
    return next((text for name in ("command", "path", "file", "pattern", "query") if (text := given.text(name))), "")
