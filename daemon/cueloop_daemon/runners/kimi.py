"""Kimi, both generations: Kimi Code (2, npm) and kimi-cli (1, PyPI), which ended with 1.51; 1.52 is a notice that exits 0."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from cueloop_daemon.runners.calling import BaseRunner, argument_of, version_of
from cueloop_daemon.runners.facts import KIMI, KIMI_PYTHON
from cueloop_daemon.runners.ids import is_ours, is_uuid, own_id
from cueloop_daemon.runners.judging import Fault
from cueloop_daemon.runners.model import Conversation, Invocation, Prompt, Settings
from cueloop_daemon.runners.parse import Doc
from cueloop_daemon.runners.reader import StreamReader
from cueloop_daemon.runners.text import Growing, shorten

_PRINTED = re.compile(
    r"(?:session(?: id)?\s*[:=]\s*|(?:--session|--resume|-r|-S)[ =])[\"'`]?([^\s\"'`,;]+?)[\"'`.]*(?:\s|$)", re.IGNORECASE
)
_ERROR = re.compile(r"error: failed to run prompt: (?:(provider\.\w+): )?(?:(\d{3}) )?(.*)", re.DOTALL)
"""The last line of a failed run, on standard error; the words before the colons are the CLI's own codes."""
_WRAPPED = re.compile(r"(?<=[^\n]{80})\n")
_BUSY = ("provider.rate_limit", "provider.overloaded")
_RETIRED = "no longer maintained"


class Kimi(BaseRunner):
    """Kimi. Without a version the newer one is meant."""

    def __init__(self, version: tuple[int, ...] | None = None) -> None:
        self.is_python = version is not None and version < (2,)
        super().__init__(KIMI_PYTHON if self.is_python else KIMI)

    def version_argv(self, settings: Settings) -> tuple[str, ...]:
        """See `model.Runner`."""
        return (settings.bin, "--version")

    def with_version(self, text: str) -> Kimi:
        """See `model.Runner`."""
        version = version_of(text)
        return Kimi(version) if version else self

    def fresh(self, settings: Settings, prompt: Prompt, chosen: Conversation | None, cwd: str) -> Invocation:
        """See `model.Runner`."""
        own = ("--session", self.checked(chosen)) if chosen and self.is_python else ()
        return self._invocation(settings, prompt, own, cwd)

    def resume(self, settings: Settings, conversation: Conversation, message: Prompt, cwd: str) -> Invocation:
        """See `model.Runner`."""
        return self._invocation(settings, message, ("--session", self.checked(conversation)), cwd)

    def reader(self, *, is_quiet: bool = False) -> KimiReader:
        """See `model.Runner`."""
        return KimiReader(is_quiet=is_quiet, is_python=self.is_python)

    def choose_id(self, task_id: str, phase: int, seconds: int, again: int = 0) -> Conversation | None:
        """See `model.Runner`."""
        text = own_id(task_id, phase, seconds, again) if self.is_python else None
        return Conversation(text, is_ours=True) if text else None

    def locate(self, conversation: Conversation, cwd: str, env: Mapping[str, str]) -> Conversation | None:
        """The older generation begins anew, silently, under the id of a session that is not there: so its folder is looked for."""
        if not self.is_valid_id(conversation.id):
            return None
        base = env.get("KIMI_SHARE_DIR") or os.path.join(env.get("HOME", ""), ".kimi")
        if not self.is_python or not os.path.isabs(base) or not os.path.isdir(base):
            return conversation
        return conversation if _is_kept(os.path.join(base, "sessions"), conversation.id) else None

    def _invocation(self, settings: Settings, prompt: Prompt, session: tuple[str, ...], cwd: str) -> Invocation:
        said = argument_of(prompt)
        if self.is_python:
            argv = (settings.bin, "--yolo", *session, "--model", settings.model, "--print", "--prompt", said.text)
        else:
            argv = (settings.bin, "--model", settings.model, *session, "--prompt", said.text)
        argv = (*argv, "--output-format", "stream-json")
        return self.invocation(settings, argv, cwd, warnings=said.warnings)


def _is_kept(sessions: str, id_: str) -> bool:
    """Whether a session of any folder has the id."""
    try:
        folders = os.listdir(sessions)
    except OSError:
        return False
    return any(os.path.exists(os.path.join(sessions, folder, name)) for folder in folders for name in (id_, f"{id_}.jsonl"))


class KimiReader(StreamReader):
    """Messages have roles and no types. The newer one ends with a hint that names the session; the older one just ends."""

    def __init__(self, *, is_quiet: bool, is_python: bool) -> None:
        super().__init__(KIMI_PYTHON if is_python else KIMI, is_quiet=is_quiet)
        self._is_python = is_python
        self._has_answered = False
        self._is_retired = False
        self._plainly = Growing()

    def event(self, doc: Doc) -> Iterable[str] | None:
        """See `StreamReader`."""
        match doc.text("role"):
            case "assistant":
                return self._assistant(doc)
            case "tool":
                self._has_answered = False
                return []
            case "system" | "user":
                return []
            case "meta":
                return self._meta(doc)
        if doc.text("type") == "error" or "error" in doc:
            return self.failed(_fault(doc.doc("error") or doc))
        return None

    def is_success(self) -> bool:
        """The hint; of the older generation an answer that asks for no more tools."""
        return self._has_succeeded or (self._is_python and self._has_answered and not self._has_failed)

    def complaint(self) -> str | None:
        """See `StreamReader`."""
        if not self._is_retired:
            return self._plain_failure()
        return f"This kimi is the retired Python package, which only prints a notice. Replace it: {KIMI.install}."

    def _plain_failure(self) -> str | None:
        """The older generation tells of failures in plain text between its events, wrapped at 80 columns."""
        told = " ".join(_WRAPPED.sub("", str(self._plainly)).split()) if self._is_python else ""
        return f"kimi reported a failure: {shorten(told, 400)}" if told else None

    def unreported(self, chosen: Conversation | None) -> Conversation | None:
        """The older generation keeps a session under the id that it was given, and does not report it."""
        return chosen if self._is_python else None

    def on_stderr(self, text: str) -> None:
        """The id may be printed here alone."""
        self._is_retired = self._is_retired or _RETIRED in text
        if (told := _ERROR.match(text.strip())) is not None:
            status = int(told[2]) if told[2] else None
            kind = told[1] or ""
            self.hinted(Fault(told[3], status, kind, retryable=kind in _BUSY, is_login=kind == "provider.auth_error"))
        if self._has_failed or self.facts.gone.search(text):
            return
        for found in _PRINTED.findall(text):
            if not self._is_python or is_uuid(found) or is_ours(found):
                self.saw_id(found)

    def _assistant(self, doc: Doc) -> list[str]:
        texts: list[str] = []
        parts = list(doc.docs("content"))
        said = doc.text("content") or "".join(part.text("text") for part in parts if part.text("type") == "text")
        texts += self.said(said)
        calls = [call.doc("function") for call in doc.docs("tool_calls")]
        for call in calls:
            texts += self.used(call.text("name"), call.text("arguments"))
        self._has_answered = bool(said.strip()) and not calls
        return texts

    def _meta(self, doc: Doc) -> list[str]:
        if doc.text("type") == "session.resume_hint":
            self.saw_id(doc.text("session_id"))
            return self.succeeded()
        if doc.text("type").endswith("error"):
            return self.failed(_fault(doc.doc("error") or doc))
        return []

    def _plain(self, text: str) -> str:
        self._is_retired = self._is_retired or _RETIRED in text
        if not _PRINTED.search(text):
            self._plainly.add(text)
        return super()._plain(text)


def _fault(error: Doc) -> Fault:
    status = error.number("status_code") or error.number("status") or error.number("code")
    return Fault(error.text("message") or error.text("content"), status, error.text("type") or error.text("code"))
