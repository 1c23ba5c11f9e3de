"""opencode: `opencode run --format json`, the prompt as a file."""

from __future__ import annotations

from collections.abc import Iterable

from cueloop_daemon.runners.calling import OneVersion
from cueloop_daemon.runners.facts import OPENCODE
from cueloop_daemon.runners.judging import Fault
from cueloop_daemon.runners.model import Conversation, Invocation, Prompt, Settings
from cueloop_daemon.runners.parse import Doc
from cueloop_daemon.runners.reader import StreamReader

_MESSAGE = "Do what the attached file says."
_GOES_ON = frozenset({"tool-calls", "tool_calls"})
_BROKEN = frozenset({"error", "length", "content-filter"})


class Opencode(OneVersion):
    """opencode. A session is resumed in the folder that it began in: anywhere else it hangs and ignores TERM."""

    def __init__(self) -> None:
        super().__init__(OPENCODE)

    def fresh(self, settings: Settings, prompt: Prompt, chosen: Conversation | None, cwd: str) -> Invocation:
        """See `model.Runner`."""
        return self._invocation(settings, prompt, (), cwd)

    def resume(self, settings: Settings, conversation: Conversation, message: Prompt, cwd: str) -> Invocation:
        """See `model.Runner`; `cwd` must be the one that the conversation began in."""
        session = ("-s", self.checked(conversation), "--dir", cwd)
        return self._invocation(settings, message, session, cwd)

    def reader(self, *, is_quiet: bool = False) -> OpencodeReader:
        """See `model.Runner`."""
        return OpencodeReader(OPENCODE, is_quiet=is_quiet)

    def _invocation(self, settings: Settings, prompt: Prompt, session: tuple[str, ...], cwd: str) -> Invocation:
        argv = [settings.bin, "run", "--model", settings.model, "--format", "json"]
        argv += ["--variant", settings.effort] if settings.effort else []
        argv += [] if settings.approval_mode == "safe" else ["--auto"]
        argv += [*session, "--file", prompt.path, "--", _MESSAGE]
        return self.invocation(settings, tuple(argv), cwd)


class OpencodeReader(StreamReader):
    """Rejected permissions and lost sessions exit 0 with nothing said, so an answer is part of a success."""

    def event(self, doc: Doc) -> Iterable[str] | None:
        """See `StreamReader`."""
        kind, part = doc.text("type"), doc.doc("part")
        if kind != "error":
            self.saw_id(doc.text("sessionID"))
        match kind:
            case "text":
                return self.said(part.text("text"))
            case "tool_use":
                state = part.doc("state")
                return self.used(part.text("tool"), state.text("title") or state.doc("input").text("command"))
            case "step_finish":
                return self._finished(part.text("reason"))
            case "step_start":
                self._has_succeeded = False
                return []
            case "reasoning" | "file" | "patch" | "snapshot":
                return []
            case "error":
                return self.failed(_fault(doc.doc("error")), is_last=False)
        return None

    def is_success(self) -> bool:
        """The last step has ended, and something was said."""
        return self._has_succeeded and bool(self.final_text)

    def complaint(self) -> str | None:
        """See `StreamReader`."""
        if not self._has_succeeded or self.final_text:
            return None
        return "opencode ended without an answer; it does so when it was refused a permission."

    def _finished(self, reason: str) -> list[str]:
        if reason in _GOES_ON:
            return []
        if reason in _BROKEN:
            return self.failed(Fault(f"its last step ended with {reason}", kind=reason))
        return self.succeeded()


def _fault(error: Doc) -> Fault:
    data, name = error.doc("data"), error.text("name")
    text = data.text("message") or error.text("message") or name
    is_login = name == "ProviderAuthError"
    return Fault(text, data.number("statusCode"), name, retryable=data.is_true("isRetryable"), is_login=is_login)
