"""Gemini CLI: prompt on stdin, `stream-json` out, messages in parts."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cueloop_daemon.runners.calling import OneVersion, stdin_of
from cueloop_daemon.runners.facts import GEMINI
from cueloop_daemon.runners.ids import own_id
from cueloop_daemon.runners.judging import Fault
from cueloop_daemon.runners.model import Conversation, Invocation, Prompt, Settings
from cueloop_daemon.runners.parse import Doc
from cueloop_daemon.runners.reader import StreamReader

_APPROVAL = {"yolo": ("--approval-mode", "yolo"), "auto_edits": ("--approval-mode", "auto_edit")}
_CODE = re.compile(r'"code":\s*(\d{3})\b')
"""The API's own error object stands in the message as it came."""
_BUSY = ("RESOURCE_EXHAUSTED", "UNAVAILABLE", "RetryableQuotaError", "RateLimitError", "ServerError")


class Gemini(OneVersion):
    """Gemini CLI."""

    def __init__(self) -> None:
        super().__init__(GEMINI)

    def fresh(self, settings: Settings, prompt: Prompt, chosen: Conversation | None, cwd: str) -> Invocation:
        """See `model.Runner`."""
        own = ("--session-id", self.checked(chosen)) if chosen else ()
        return self._invocation(settings, prompt, own, cwd)

    def resume(self, settings: Settings, conversation: Conversation, message: Prompt, cwd: str) -> Invocation:
        """See `model.Runner`."""
        return self._invocation(settings, message, ("--resume", self.checked(conversation)), cwd)

    def reader(self, *, is_quiet: bool = False) -> GeminiReader:
        """See `model.Runner`."""
        return GeminiReader(GEMINI, is_quiet=is_quiet)

    def choose_id(self, task_id: str, phase: int, seconds: int, again: int = 0) -> Conversation | None:
        """See `model.Runner`."""
        text = own_id(task_id, phase, seconds, again)
        return Conversation(text, is_ours=True) if text else None

    def _invocation(self, settings: Settings, prompt: Prompt, more: tuple[str, ...], cwd: str) -> Invocation:
        # Without --skip-trust an unknown folder silently takes the approval mode back.
        argv = [settings.bin, *_APPROVAL.get(settings.approval_mode, ()), "--skip-trust"]
        argv += ["--sandbox"] if settings.sandbox == "enabled" else []
        argv += ["--model", settings.model, "--output-format", "stream-json", *more]
        return self.invocation(settings, tuple(argv), cwd, stdin=stdin_of(prompt))


class GeminiReader(StreamReader):
    """The last word is `result`, whose `status` decides."""

    def event(self, doc: Doc) -> Iterable[str] | None:
        """See `StreamReader`."""
        match doc.text("type"):
            case "init":
                self.saw_id(doc.text("session_id"))
                return []
            case "message":
                return self._message(doc)
            case "tool_use":
                return self.used(doc.text("tool_name") or "tool", _about(doc.doc("parameters")))
            case "tool_result":
                return []
            case "error":
                self.hinted(_fault(doc))
                return self.noted(doc.text("message"))
            case "result":
                return self._result(doc)
        return None

    def _message(self, doc: Doc) -> list[str]:
        if doc.text("role") != "assistant":
            return []
        return self.streamed(doc.text("content")) if doc.is_true("delta") else self.said(doc.text("content"))

    def _result(self, doc: Doc) -> list[str]:
        if doc.text("status") == "success":
            return [*self._close_line(), *self.succeeded()]
        return self.failed(_fault(doc.doc("error"), "the result is not a success"))


def _fault(error: Doc, text: str = "") -> Fault:
    kind = error.text("type") or error.text("code")
    found = _CODE.search(error.text("message"))
    status = error.number("status") or error.number("code") or (int(found[1]) if found else None)
    is_login = kind in ("FatalAuthenticationError", "UNAUTHENTICATED")
    return Fault(error.text("message") or text, status, kind, retryable=kind in _BUSY, is_login=is_login)


def _about(given: Doc) -> str:
    names = ("command", "file_path", "absolute_path", "path", "pattern", "query", "url")
    return next((text for name in names if (text := given.text(name))), "")
