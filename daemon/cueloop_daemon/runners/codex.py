"""Codex: `codex exec --json`, prompt on stdin."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cueloop_daemon.runners.calling import OneVersion, stdin_of
from cueloop_daemon.runners.facts import CODEX
from cueloop_daemon.runners.judging import Fault
from cueloop_daemon.runners.model import Conversation, Invocation, Prompt, Settings
from cueloop_daemon.runners.parse import Doc
from cueloop_daemon.runners.reader import StreamReader

_STATUS = re.compile(r"(?:status|http error)[: ]+(\d{3})\b", re.IGNORECASE)


def sandbox(settings: Settings) -> tuple[str, ...]:
    """The global options that say what the agent may do; they stand before `exec`, and are restated on each resume.

    `exec` never asks, so approval decides through the sandbox. Nothing is said where the user's own Codex settings are to stand.
    """
    is_yolo = settings.approval_mode == "yolo"
    match settings.sandbox:
        case "enabled":
            return ("--sandbox", "workspace-write")
        case "disabled" if settings.approval_mode == "safe":
            return ("--sandbox", "danger-full-access")
        case "disabled":
            return ("--dangerously-bypass-approvals-and-sandbox",)
    if is_yolo:
        return ("--dangerously-bypass-approvals-and-sandbox",)
    return ("--sandbox", "workspace-write") if settings.approval_mode in ("auto_edits", "safe") else ()


def model_name(model: str) -> str:
    """As Codex knows it: `openai-codex/` is a provider's name elsewhere."""
    return model.removeprefix("openai-codex/")


class Codex(OneVersion):
    """Codex; its ids are its own."""

    def __init__(self) -> None:
        super().__init__(CODEX)

    def fresh(self, settings: Settings, prompt: Prompt, chosen: Conversation | None, cwd: str) -> Invocation:
        """See `model.Runner`."""
        return self._invocation(settings, prompt, (), cwd)

    def resume(self, settings: Settings, conversation: Conversation, message: Prompt, cwd: str) -> Invocation:
        """See `model.Runner`."""
        return self._invocation(settings, message, ("resume", self.checked(conversation)), cwd)

    def reader(self, *, is_quiet: bool = False) -> CodexReader:
        """See `model.Runner`."""
        return CodexReader(CODEX, is_quiet=is_quiet)

    def _invocation(self, settings: Settings, prompt: Prompt, more: tuple[str, ...], cwd: str) -> Invocation:
        argv = [settings.bin, *sandbox(settings), "exec", *more, "--json", "--model", model_name(settings.model)]
        argv += ["-c", f'model_reasoning_effort="{settings.effort}"'] if settings.effort else []
        return self.invocation(settings, (*argv, "-"), cwd, stdin=stdin_of(prompt))


class CodexReader(StreamReader):
    """An item of type error may be a mere warning; `turn.failed` decides."""

    def event(self, doc: Doc) -> Iterable[str] | None:
        """See `StreamReader`."""
        match doc.text("type"):
            case "thread.started":
                self.saw_id(doc.text("thread_id"))
                return []
            case "turn.started" | "item.updated":
                return []
            case "item.started":
                return self._started(doc.doc("item"))
            case "item.completed":
                return self._completed(doc.doc("item"))
            case "turn.completed":
                return self.succeeded()
            case "turn.failed":
                return self.failed(_fault(doc.doc("error").text("message") or "the turn failed"))
            case "error":
                self.hinted(_fault(doc.text("message")))
                return self.noted(doc.text("message"))
        return None

    def _started(self, item: Doc) -> list[str]:
        match item.text("type"):
            case "command_execution":
                return self.used("command", item.text("command"))
            case "mcp_tool_call":
                return self.used("tool", f"{item.text('server')} {item.text('tool')}")
            case "web_search":
                return self.used("search", item.text("query"))
        return []

    def _completed(self, item: Doc) -> list[str]:
        match item.text("type"):
            case "agent_message":
                return self.said(item.text("text"))
            case "file_change":
                return self.used("files", " ".join(change.text("path") for change in item.docs("changes")))
            case "error":
                return self.noted(item.text("message"))
        return []


def _fault(text: str) -> Fault:
    found = _STATUS.search(text)
    return Fault(text, status=int(found[1]) if found else None)
