"""Pi: `pi --print --mode json`, the prompt as an argument; a session is a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from cueloop_daemon.runners.calling import BaseRunner, argument_of, version_of
from cueloop_daemon.runners.facts import PI
from cueloop_daemon.runners.ids import own_id
from cueloop_daemon.runners.judging import Fault
from cueloop_daemon.runners.model import Conversation, Invocation, Prompt, Settings
from cueloop_daemon.runners.parse import Doc
from cueloop_daemon.runners.reader import StreamReader

_STATUS = re.compile(r"\s*(?:HTTP |Error: )?(\d{3})\b")
_SILENT = ("agent_", "turn_", "message_", "tool_execution_", "auto_", "compaction_", "queue_", "session_", "extension_")


class Pi(BaseRunner):
    """Pi. Without a version the newer one (1.x) is meant."""

    def __init__(self, version: tuple[int, ...] | None = None) -> None:
        super().__init__(PI)
        self.is_old = version is not None and version < (1,)

    def version_argv(self, settings: Settings) -> tuple[str, ...]:
        """See `model.Runner`."""
        return (settings.bin, "--version")

    def with_version(self, text: str) -> Pi:
        """See `model.Runner`."""
        version = version_of(text)
        return Pi(version) if version else self

    def fresh(self, settings: Settings, prompt: Prompt, chosen: Conversation | None, cwd: str) -> Invocation:
        """See `model.Runner`."""
        own = ("--session-id", self.checked(chosen)) if chosen and not self.is_old else ()
        return self._invocation(settings, prompt, own, cwd)

    def resume(self, settings: Settings, conversation: Conversation, message: Prompt, cwd: str) -> Invocation:
        """By its file, which must exist: pi begins anew, silently, where it does not. `locate` gives it; ValueError without one."""
        self.checked(conversation)
        if conversation.file is None or not os.path.isabs(conversation.file):
            raise ValueError(f"the file of pi's session {conversation.id} is not known")
        return self._invocation(settings, message, ("--session", conversation.file), cwd)

    def reader(self, *, is_quiet: bool = False) -> PiReader:
        """See `model.Runner`."""
        return PiReader(PI, is_quiet=is_quiet)

    def choose_id(self, task_id: str, phase: int, seconds: int, again: int = 0) -> Conversation | None:
        """See `model.Runner`."""
        text = None if self.is_old else own_id(task_id, phase, seconds, again)
        return Conversation(text, is_ours=True) if text else None

    def locate(self, conversation: Conversation, cwd: str, env: Mapping[str, str]) -> Conversation | None:
        """The conversation with its file, looked for where the caller's pi keeps those of `cwd`, then of any folder."""
        if not self.is_valid_id(conversation.id):
            return None
        found = next((path for folder in _folders(cwd, env) if (path := _file_in(folder, conversation.id))), None)
        return None if found is None else Conversation(conversation.id, conversation.is_ours, found)

    def _invocation(self, settings: Settings, prompt: Prompt, session: tuple[str, ...], cwd: str) -> Invocation:
        said = argument_of(prompt, refused_starts=("-", "@"))
        argv = [settings.bin, "--print", "--model", settings.model]
        argv += ["--thinking", settings.effort] if settings.effort else []
        argv += ["--mode", "json", *session, *(() if self.is_old else ("--",)), said.text]
        return self.invocation(settings, tuple(argv), cwd, warnings=said.warnings)


def _folders(cwd: str, env: Mapping[str, str]) -> Iterator[str]:
    home = env.get("HOME", "")
    own = _expanded(env.get("PI_CODING_AGENT_SESSION_DIR", ""), home)
    if own:
        yield own
    base = _expanded(env.get("PI_CODING_AGENT_DIR", ""), home) or (os.path.join(home, ".pi", "agent") if home else "")
    if not os.path.isabs(base):
        return
    sessions = os.path.join(base, "sessions")
    mine = os.path.join(sessions, f"--{re.sub(r'[/:]', '-', cwd.strip('/'))}--")
    yield mine
    try:
        names = sorted(os.listdir(sessions))
    except OSError:
        return
    yield from (folder for name in names if (folder := os.path.join(sessions, name)) != mine)


def _expanded(path: str, home: str) -> str:
    return os.path.join(home, path[2:]) if path.startswith("~/") else path


def _file_in(folder: str, id_: str) -> str | None:
    try:
        names = [name for name in os.listdir(folder) if name.endswith(f"_{id_}.jsonl") or name == f"{id_}.jsonl"]
    except OSError:
        return None
    found = [path for name in sorted(names) if os.path.isfile(path := os.path.join(folder, name))]
    return found[-1] if found else None


class PiReader(StreamReader):
    """Exit 0 says nothing here: the last assistant message's `stopReason` does."""

    def event(self, doc: Doc) -> Iterable[str] | None:
        """See `StreamReader`."""
        match doc.text("type"):
            case "session":
                self.saw_id(doc.text("id"))
                return []
            case "message_end":
                return self._message(doc.doc("message"))
            case "tool_execution_start":
                return self.used(doc.text("toolName"), _about(doc.doc("args")))
            case "agent_end":
                return self._over(doc)
            case kind if kind.startswith(_SILENT):
                return []
        return None

    def is_success(self) -> bool:
        """The agent has ended, and did something."""
        return self._has_succeeded and self._has_worked

    def _message(self, message: Doc) -> list[str]:
        if message.text("role") != "assistant":
            return []
        if message.text("stopReason") in ("error", "aborted"):
            text = message.text("errorMessage") or f"it stopped with {message.text('stopReason')}"
            found = _STATUS.match(text)
            return self.failed(Fault(text, status=int(found[1]) if found else None), is_last=False)
        self._has_failed, self._fault = False, None
        return self.said("".join(part.text("text") for part in message.docs("content") if part.text("type") == "text"))

    def _over(self, doc: Doc) -> list[str]:
        self.last_word_seen = self.last_word_seen or not doc.is_true("willRetry")
        if self._has_failed:
            return []
        return self.succeeded(is_last=False)


def _about(given: Doc) -> str:
    return next((text for name in ("command", "path", "file_path", "pattern", "query") if (text := given.text(name))), "")
