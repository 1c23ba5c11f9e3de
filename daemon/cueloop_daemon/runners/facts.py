"""The table of facts about each agent CLI: observed, dated by version, in one place because they drift.

Texts are matched on standard error and on structured error fields only, never on what a model wrote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from cueloop_daemon.runners.ids import Shape, is_id, is_ours, is_token, is_uuid, starts_with
from cueloop_protocol.values import dataclass

_NOTHING: re.Pattern[str] = re.compile(r"(?!)")


def _said(*texts: str) -> re.Pattern[str]:
    return re.compile("|".join(texts), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Trap:
    """What is known to be odd about some versions of a CLI: from `low` on and below `below` (None: all later ones)."""

    text: str
    """One sentence for people."""
    low: tuple[int, ...] = ()
    below: tuple[int, ...] | None = None
    is_fatal: bool = False
    """No run can succeed with such a version."""

    def applies_to(self, version: tuple[int, ...]) -> bool:
        """Whether that version is meant."""
        return self.low <= version and (self.below is None or version < self.below)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one CLI."""

    id: str
    seen: str
    """The package and the version that this row was observed with."""
    install: str
    login: str
    shape: Shape
    """What its session ids look like (and those that it lets us choose)."""
    gone: re.Pattern[str] = _NOTHING
    """Said when the session to be resumed does not exist: the known cases in which a fresh start is safe."""
    wants_login: re.Pattern[str] = _NOTHING
    login_exits: frozenset[int] = frozenset()
    retry_exits: frozenset[int] = frozenset()
    passing: re.Pattern[str] = _NOTHING
    """How it words a passing fault of a server in its error fields, where it has no number or name for it."""
    expected: re.Pattern[str] = _NOTHING
    """A line of standard error about what we asked for; told to nobody."""
    exits: Mapping[int, str] = field(default_factory=dict)
    """Exit codes with a meaning of their own."""
    strays: bool = False
    """A resume of what is not there silently begins a new session: another id in the answer means that ours is gone."""
    traps: tuple[Trap, ...] = ()
    """Of all generations of the program of this name."""
    node: tuple[int, ...] | None = None
    """The oldest Node.js that it runs on, where it is a script of Node's."""
    needs_git: bool = False
    """It refuses to work outside a git work tree."""


def _is_gemini_id(text: str) -> bool:
    return is_uuid(text) or is_ours(text)


CLAUDE = Facts(
    id="claude",
    seen="@anthropic-ai/claude-code 2.1.332",
    install="npm install -g @anthropic-ai/claude-code",
    login="claude auth login (or set ANTHROPIC_API_KEY)",
    shape=is_uuid,
    gone=_said("No conversation found with session ID", "--resume requires a valid session", r"invalid (?:session id|uuid)"),
    wants_login=_said("Please run /login", "Invalid API key", "Not logged in", "OAuth token (?:has expired|revoked)"),
    traps=(
        Trap("The answer to a refused resume carries a new random id; it is never taken."),
        Trap("A conversation can only be resumed in the folder in which it began.", below=(2, 1, 198)),
    ),
)
CODEX = Facts(
    id="codex",
    seen="@openai/codex 0.171.0",
    install="npm install -g @openai/codex",
    login="codex login",
    shape=is_uuid,
    gone=_said("no rollout found for thread id"),
    wants_login=_said("401 Unauthorized", "Not logged in", r"codex login", "Missing environment variable"),
    passing=_said("experiencing high demand", "stream disconnected before completion"),
    strays=True,
    traps=(Trap("A resume with an id of another shape silently begins a new thread; the ids are compared."),),
    needs_git=True,
)
GEMINI = Facts(
    id="gemini",
    seen="@google/gemini-cli 0.61.0",
    install="npm install -g @google/gemini-cli",
    login="gemini (once, at a terminal), or set GEMINI_API_KEY",
    shape=_is_gemini_id,
    gone=_said("Invalid session identifier", "No previous sessions found for this project"),
    wants_login=_said("set an Auth method", "GEMINI_API_KEY environment variable", "API key not valid"),
    # An API's status, as far as an exit code can carry it: the remainder by 256.
    login_exits=frozenset({41, 401 % 256}),
    retry_exits=frozenset({429 % 256, 500 % 256, 502 % 256, 503 % 256, 504 % 256}),
    exits={
        41: "it wants a login",
        42: "it did not take its input",
        52: "its configuration cannot be used",
        53: "it reached its limit of turns",
        55: "it does not trust this folder",
        400 % 256: "the API refused the request",
        401 % 256: "the API refused the key",
        429 % 256: "the API's limit was reached",
        500 % 256: "the API failed",
        503 % 256: "the API is overloaded",
    },
    traps=(Trap("The exit code of an API failure is the HTTP status modulo 256, so that it can look like a signal."),),
)
KIMI_TRAPS = (
    Trap(
        "The first generation: a session that was deleted is silently begun anew; its folder is looked for first.",
        below=(1, 52),
    ),
    Trap(
        "This is the retired Python package, which only prints a notice and exits with 0.",
        low=(1, 52),
        below=(2,),
        is_fatal=True,
    ),
    Trap("No id comes before the last line of a successful run, so that an interrupted one cannot be continued.", low=(2,)),
)
KIMI = Facts(
    id="kimi",
    seen="@moonshot-ai/kimi-code 2.1.0",
    install="npm install -g @moonshot-ai/kimi-code",
    login="kimi login",
    shape=starts_with("session_"),
    gone=_said(r'Session "[^"\n]*" not found', "was created under a different directory"),
    wants_login=_said(
        "LLM not set",
        r"is not configured in config\.toml",
        r"provider\.auth_error",
        r"not logged in",
        r"run [`'\"]?kimi login",
        "/login",
    ),
    traps=KIMI_TRAPS,
    node=(22, 19),
)
KIMI_PYTHON = Facts(
    id="kimi",
    seen="kimi-cli 1.51.0 (PyPI)",
    install=KIMI.install,
    login=KIMI.login,
    shape=is_id,
    gone=KIMI.gone,
    wants_login=KIMI.wants_login,
    retry_exits=frozenset({75}),
    traps=KIMI_TRAPS,
)
PI = Facts(
    id="pi",
    seen="@earendil-works/pi-coding-agent 1.6.0",
    install="npm install -g @earendil-works/pi-coding-agent",
    login="pi (once, at a terminal, /login), or set the provider's API key",
    shape=is_token,
    gone=_said("No session found matching", "Session found in different project", r"session file (?:not found|does not exist)"),
    wants_login=_said("No API key found", "No models available", r"use /login"),
    # Said of every new session whose id is chosen by the caller.
    expected=_said(r"No project session found with id '[^'\n]*'; creating a new session with that id"),
    strays=True,
    traps=(
        Trap("API failures end with exit code 0; the stream's own verdict counts."),
        Trap("The generation before 1.0 was not tried.", below=(1,)),
    ),
    node=(22, 19),
)
OPENCODE = Facts(
    id="opencode",
    seen="opencode-ai 1.18.33",
    install="npm install -g opencode-ai",
    login="opencode auth login",
    shape=starts_with("ses"),
    gone=_said("Session not found", r'must start with \\?"ses\\?"'),
    wants_login=_said("ProviderAuthError", "opencode auth login"),
    traps=(Trap("Takes some seconds to start where the npm registry cannot be reached, and no switch stops that."),),
)
CURSOR = Facts(
    id="cursor",
    seen="@cursor/sdk 1.0.32",
    install="npm install @cursor/sdk (with Node 22.13 or newer)",
    login="set CURSOR_API_KEY",
    shape=starts_with("agent-", "bc-"),
    gone=_said(r"\bagent_not_found\b", r"\bAgentNotFoundError\b"),
    wants_login=_said(r"\bAuthenticationError\b"),
    node=(22, 13),
)
BUILT_IN: Mapping[str, Facts] = {row.id: row for row in (CLAUDE, CODEX, OPENCODE, GEMINI, CURSOR, KIMI, PI)}

LIMIT = _said(
    r"\b(?:usage|rate|session|weekly|daily|hourly|5-hour|spending)[ -]limit", r"\blimit\b[^\n]{0,80}\breset", "quota exceeded"
)
"""How a usage limit is worded; decides only how long to wait, never whether something failed."""
PASSING = frozenset({408, 429, 500, 502, 503, 504, 529})
"""HTTP statuses of limits and passing faults."""


def install_hint(runner: str) -> str:
    """What to run to install the runner, and to log in; for texts to a person whose runner is missing."""
    row = BUILT_IN.get(runner)
    if row is None:
        return f"{runner} is a plugin's runner: look whether its program exists and is executable."
    return f"Install it with `{row.install}`, and log in: {row.login}."


def login_hint(runner: str) -> str:
    """What to do to log the runner in."""
    row = BUILT_IN.get(runner)
    return f"Log in: {row.login}." if row else f"Log the program of the plugin {runner} in."
