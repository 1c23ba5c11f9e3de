"""What all runners share in being called: the prompt's way in, the environment, versions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cueloop_daemon.runners.environment import MARKERS
from cueloop_daemon.runners.facts import Facts
from cueloop_daemon.runners.ids import is_id
from cueloop_daemon.runners.model import Conversation, Invocation, Prompt, Runner, Settings
from cueloop_protocol.values import dataclass

LONGEST_ARGUMENT = 100 * 1024
"""Bytes; Linux refuses a single argument over 128 KiB."""
_VERSION = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+)")


@dataclass(frozen=True, slots=True)
class Argument:
    """A prompt as a command-line argument, and what the person is to be told of it."""

    text: str
    warnings: tuple[str, ...] = ()


def stdin_of(prompt: Prompt) -> bytes:
    """The prompt's text for a pipe."""
    return prompt.text.encode("utf-8", "replace")


def argument_of(prompt: Prompt, *, refused_starts: tuple[str, ...] = ("-",)) -> Argument:
    """The prompt's text where it can be an argument, else a sentence that sends the agent to its file."""
    reference = f"Read the file {prompt.path} and do what it says."
    if len(prompt.text.encode("utf-8", "replace")) > LONGEST_ARGUMENT:
        return Argument(reference, (f"The prompt is too long for a command line; the agent reads it from {prompt.path}.",))
    if "\0" in prompt.text or not prompt.text.strip() or prompt.text.startswith(refused_starts):
        return Argument(reference)
    return Argument(prompt.text.encode("utf-8", "replace").decode())


def version_of(text: str) -> tuple[int, ...] | None:
    """The first version number in what a program printed."""
    found = _VERSION.search(text)
    return tuple(int(part) for part in found[1].split(".")[:4]) if found else None


class BaseRunner:
    """The shared half of every runner (`model.Runner` says what may be relied on)."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    @property
    def id(self) -> str:
        """As in the configuration."""
        return self.facts.id

    @property
    def can_resume(self) -> bool:
        """See `model.Runner`."""
        return True

    def version_argv(self, settings: Settings) -> tuple[str, ...] | None:
        """See `model.Runner`."""
        return None

    def choose_id(self, task_id: str, phase: int, seconds: int, again: int = 0) -> Conversation | None:
        """See `model.Runner`."""
        return None

    def is_valid_id(self, text: str) -> bool:
        """See `model.Runner`."""
        return is_id(text) and self.facts.shape(text)

    def locate(self, conversation: Conversation, cwd: str, env: Mapping[str, str]) -> Conversation | None:
        """See `model.Runner`."""
        return conversation if self.is_valid_id(conversation.id) else None

    def checked(self, conversation: Conversation) -> str:
        """The id that may stand in a command line; ValueError otherwise."""
        if not self.is_valid_id(conversation.id):
            raise ValueError(f"not an id of a session of {self.id}: {conversation.id[:80]!r}")
        return conversation.id

    def invocation(
        self,
        settings: Settings,
        argv: tuple[str, ...],
        cwd: str,
        *,
        stdin: bytes | None = None,
        warnings: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
    ) -> Invocation:
        """An invocation with what every runner's environment gets."""
        shared = {"CUELOOP_RUNNER_USED": self.id, "CUELOOP_MODEL_USED": settings.model, "PWD": cwd}
        return Invocation(argv, stdin, {**shared, **(env or {})}, MARKERS, warnings)


class OneVersion(BaseRunner):
    """A runner whose command line is the same in all versions that are known."""

    def with_version(self: Runner, text: str) -> Runner:
        """See `model.Runner`."""
        return self
