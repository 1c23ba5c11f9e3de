"""Claude Code: `claude -p`, prompt on stdin, `stream-json` out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from cueloop_daemon.runners.calling import OneVersion, stdin_of
from cueloop_daemon.runners.facts import CLAUDE
from cueloop_daemon.runners.ids import own_uuid
from cueloop_daemon.runners.judging import Fault
from cueloop_daemon.runners.model import Conversation, Invocation, Prompt, Settings
from cueloop_daemon.runners.parse import Doc
from cueloop_daemon.runners.reader import StreamReader

_PERMISSION = {"accept_edits": "acceptEdits", "bypass_permissions": "bypassPermissions"}
_API_ERROR = re.compile(r"API Error: (\d{3})\b")
_SILENT = frozenset({"system", "user", "stream_event", "tool_progress", "tool_use_summary", "auth_status", "keep_alive"})
_LATEST = 32_503_680_000  # seconds; the year 3000


def permission(settings: Settings) -> str:
    """Claude's permission mode for an approval mode; default and safe mean what `claude_permission_mode` says."""
    if settings.plan_mode == "enabled":
        return "plan"
    if settings.approval_mode in ("yolo", "auto_edits"):
        return "bypassPermissions" if settings.approval_mode == "yolo" else "acceptEdits"
    return _PERMISSION[settings.permission_mode]


class Claude(OneVersion):
    """Claude Code."""

    def __init__(self) -> None:
        super().__init__(CLAUDE)

    def fresh(self, settings: Settings, prompt: Prompt, chosen: Conversation | None, cwd: str) -> Invocation:
        """See `model.Runner`."""
        own = ("--session-id", self.checked(chosen)) if chosen else ()
        return self._invocation(settings, prompt, own, cwd)

    def resume(self, settings: Settings, conversation: Conversation, message: Prompt, cwd: str) -> Invocation:
        """See `model.Runner`."""
        return self._invocation(settings, message, ("--resume", self.checked(conversation)), cwd)

    def reader(self, *, is_quiet: bool = False) -> ClaudeReader:
        """See `model.Runner`."""
        return ClaudeReader(CLAUDE, is_quiet=is_quiet)

    def choose_id(self, task_id: str, phase: int, seconds: int, again: int = 0) -> Conversation:
        """See `model.Runner`."""
        return Conversation(own_uuid(task_id, phase, seconds, again), is_ours=True)

    def _invocation(self, settings: Settings, prompt: Prompt, more: tuple[str, ...], cwd: str) -> Invocation:
        argv = [settings.bin, "-p", "--verbose", "--model", settings.model, "--permission-mode", permission(settings)]
        argv += ["--effort", settings.effort] if settings.effort else []
        argv += ["--output-format", "stream-json", *more]
        return self.invocation(settings, tuple(argv), cwd, stdin=stdin_of(prompt))


class ClaudeReader(StreamReader):
    """Ids are believed in the first line and in a successful result: an error's result carries a new, random one."""

    _trouble = ""

    def event(self, doc: Doc) -> Iterable[str] | None:
        """See `StreamReader`."""
        match doc.text("type"):
            case "assistant":
                return self._assistant(doc)
            case "result":
                return self._result(doc)
            case "system" if doc.text("subtype") == "init":
                self.saw_id(doc.text("session_id"))
                return []
            case "rate_limit_event":
                return self._limit(doc.doc("rate_limit_info"))
            case kind if kind in _SILENT or kind.startswith("control_"):
                return []
        return None

    def _assistant(self, doc: Doc) -> list[str]:
        self._trouble = doc.text("error")
        is_own = not doc.text("parent_tool_use_id")
        texts: list[str] = []
        for part in doc.doc("message").docs("content"):
            match part.text("type"):
                case "text":
                    texts += self.said(part.text("text")) if is_own and not self._trouble else self.noted(part.text("text"))
                case "tool_use":
                    texts += self.used(part.text("name"), _about(part.doc("input")))
        return texts

    def _result(self, doc: Doc) -> list[str]:
        if doc.text("subtype") == "success" and not doc.is_true("is_error"):
            self.saw_id(doc.text("session_id"))
            return self.succeeded(doc.text("result"))
        text = doc.text("result") or "\n".join(doc.texts("errors"))
        text = text or self._trouble or doc.text("terminal_reason") or doc.text("subtype")
        found = _API_ERROR.match(text)
        status = doc.number("api_error_status") or (int(found[1]) if found else None)
        kind = self._trouble or doc.text("terminal_reason")
        shown = self.failed(
            Fault(
                text,
                status=status,
                kind=kind,
                retryable=kind in ("rate_limit", "server_error", "overloaded"),
                is_login=kind == "authentication_failed",
            )
        )
        return [] if self._trouble else shown  # an assistant line has said it already

    def _limit(self, info: Doc) -> list[str]:
        at = info.number("resetsAt")
        if info.text("status") == "rejected" and at is not None and 0 < at < _LATEST:
            self.limited_until(datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        return []


def _about(given: Doc) -> str:
    names = ("command", "file_path", "path", "pattern", "description", "url", "query", "prompt")
    return next((text for name in names if (text := given.text(name))), "")
