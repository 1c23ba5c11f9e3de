"""The words between the run engine and the runners: what goes in, what an invocation is, what its stream said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from cueloop_protocol.documents.config import Cursor
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective settings of one phase (made by `effective`). Words are the configuration's (contract section 4)."""

    runner: str
    model: str
    effort: str | None
    """None: the runner's own default stands."""
    approval_mode: str
    sandbox: str
    plan_mode: str
    output_format: str
    verbosity: str
    option_policy: str
    permission_mode: str
    """`claude_permission_mode` as configured: `accept_edits` or `bypass_permissions`."""
    bin: str
    """The program: a path, or a name to be looked for on the caller's PATH."""
    cursor: Cursor | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """A runner's own session."""

    id: str
    is_ours: bool = False
    """Chosen by us; no stream has reported it yet."""
    file: str | None = None
    """For pi: the file it is kept in, as `Runner.locate` found it."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is said to an agent, and the file (0600, written by the engine before the start) that holds the same text."""

    text: str
    path: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """How to start an agent. `argv` holds no NUL and nothing over 100 KiB."""

    argv: tuple[str, ...]
    stdin: bytes | None
    """Written and closed; None: `/dev/null`."""
    env: Mapping[str, str]
    """Added to the caller's environment."""
    unset: frozenset[str]
    """Taken out of the caller's environment."""
    warnings: tuple[str, ...] = ()
    """Sentences for the person, to be told before the start."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Text for a person, as `runner_output` carries it. Whole lines but for streamed parts; at most `text.PIECE` characters."""

    text: str


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Exit 0 and the stream's own word for it."""

    conversation: Conversation | None
    """What a later `resume` may name; None: no id was reported and ours does not count."""
    text: str
    """The agent's last message, bounded."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The session that was to be resumed does not exist (any more): a known case in which a fresh invocation is safe."""

    reason: str


@dataclass(frozen=True, slots=True)
class LoginNeeded:
    """The runner wants a login or a key."""

    reason: str
    hint: str
    tail: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Everything else. `reason` is one sentence; `tail` the end of standard error."""

    reason: str
    tail: str
    retryable: bool
    """A rate limit or a passing fault of a server, by a structured field or an exit code."""
    limit_until: str | None = None
    """When a usage limit ends, RFC 3339 in UTC, if the stream said so as a number."""
    is_limit: bool = False
    """A usage or rate limit: wait before the next attempt, whatever the text says of the time."""
    exit_code: int | None = None
    signal: int | None = None
    """The signal it died of; never derived from an exit code."""


Verdict = Succeeded | Gone | LoginNeeded | Failed


class Reader(Protocol):
    """Reads one invocation's output. No I/O, memory bounded whatever comes."""

    @property
    def reported_id(self) -> str | None:
        """The last valid id that a line which reports no failure carried."""

    @property
    def last_word_seen(self) -> bool:
        """The stream's own last word has come: the process has 30 seconds to leave."""

    @property
    def final_text(self) -> str:
        """The last message of the agent so far, bounded."""

    def feed(self, data: bytes) -> list[Piece]:
        """Standard output, cut anywhere."""

    def feed_err(self, data: bytes) -> list[Piece]:
        """Standard error, cut anywhere."""

    def end(self) -> list[Piece]:
        """Both streams have ended: what the last, unfinished lines said."""

    def verdict(
        self,
        exit_code: int | None,
        signal: int | None,
        *,
        resumed: Conversation | None,
        chosen: Conversation | None = None,
        lingered: bool = False,
    ) -> Verdict:
        """What became of the invocation. `resumed` and `chosen` are what it was started with; at most one is given.

        `lingered`: we ended the process after its last word, so that the stream alone counts.
        """

    def interrupted(self, *, chosen: Conversation | None = None) -> Conversation | None:
        """What may be continued after an interruption: an id reported in a stream that has reported no failure."""


class Runner(Protocol):
    """One agent CLI, of one version where that matters."""

    @property
    def id(self) -> str:
        """As in the configuration."""

    @property
    def can_resume(self) -> bool:
        """Whether a conversation can be continued at all; False only for a plugin that says so."""

    def version_argv(self, settings: Settings) -> tuple[str, ...] | None:
        """What to run (stdin closed, a few seconds) to learn the version, where the command line depends on it."""

    def with_version(self, text: str) -> Runner:
        """The same runner as that version of it; `text` is what `version_argv` printed. Text without a number: unchanged."""

    def fresh(self, settings: Settings, prompt: Prompt, chosen: Conversation | None, cwd: str) -> Invocation:
        """A new conversation; `chosen` comes from `choose_id`."""

    def resume(self, settings: Settings, conversation: Conversation, message: Prompt, cwd: str) -> Invocation:
        """The same conversation. Raises ValueError for an id that is not valid or a runner that cannot resume."""

    def reader(self, *, is_quiet: bool = False) -> Reader:
        """A reader for one invocation; quiet (`verbosity`): only what the agent says, not which tools it uses."""

    def choose_id(self, task_id: str, phase: int, seconds: int, again: int = 0) -> Conversation | None:
        """The id of our own, to be stored before the start; None where the CLI chooses. `again` counts further fresh starts."""

    def is_valid_id(self, text: str) -> bool:
        """Non-empty, at most 512 bytes, no blanks or control characters, and of the runner's shape."""

    def locate(self, conversation: Conversation, cwd: str, env: Mapping[str, str]) -> Conversation | None:
        """The conversation, ready to be resumed; None: it is known beforehand that it is gone. Reads folders for pi and for kimi 1."""


@dataclass(frozen=True, slots=True)
class UnknownRunner:
    """No built-in runner and no enabled plugin has that id; `message` and `detail` are fit for people."""

    id: str
    message: str
    detail: str
