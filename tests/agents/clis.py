"""The agent CLIs that `make agents` installs, one after another. `CLIS` has them by name."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agents.cli import MACHINE, MODULES, SYSTEM, Call, Cli, Place, first, write_file
from agents.kimis import KIMI, KIMI_1

# claude


def _lay_claude(place: Place) -> Mapping[str, str]:
    switches = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING")
    return dict.fromkeys(switches, "1") | {
        "ANTHROPIC_BASE_URL": place.url,
        "ANTHROPIC_API_KEY": "stand-in",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "IS_SANDBOX": "1",
    }


def _claude(*extra: str) -> tuple[str, ...]:
    mode = ("--permission-mode", "acceptEdits")
    return ("-p", "--verbose", "--model", CLAUDE.model, *mode, "--output-format", "stream-json", *extra)


CLAUDE = Cli(
    name="claude",
    package="@anthropic-ai/claude-code",
    program=MODULES / f"@anthropic-ai/claude-code-{SYSTEM}-{MACHINE}/claude",
    model="sonnet",
    lay=_lay_claude,
    login_variables=frozenset({"ANTHROPIC_API_KEY"}),
    login_files=(),
    fresh=lambda place, prompt: Call(_claude(), prompt),
    resume=lambda place, handle, message: Call(_claude("--resume", handle), message),
    find_id=lambda lines: first(lines, "result", "session_id"),
    memory=(".claude/projects",),
    absent="11111111-2222-4333-8444-555555555555",
    malformed="no-such-id",
    choose=lambda place, prompt, chosen: Call(_claude("--session-id", chosen), prompt),
)


# codex


def _lay_codex(place: Place) -> Mapping[str, str]:
    provider = f"""model_provider = "stub"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
apps = false
plugins = false
[model_providers.stub]
name = "stub"
base_url = "{place.url}/v1"
wire_api = "responses"
env_key = "STUB_KEY"
request_max_retries = 0
stream_max_retries = 0
"""
    write_file(place.home / ".codex/config.toml", provider)
    return {"STUB_KEY": "stand-in"}


def _codex(*after: str) -> tuple[str, ...]:
    return ("--sandbox", "workspace-write", "exec", *after, "--json", "--model", CODEX.model, "-")


CODEX = Cli(
    name="codex",
    package="@openai/codex",
    program=MODULES / ".bin/codex",
    model="gpt-5.4",
    lay=_lay_codex,
    login_variables=frozenset({"STUB_KEY"}),
    login_files=(),
    fresh=lambda place, prompt: Call(_codex(), prompt),
    resume=lambda place, handle, message: Call(_codex("resume", handle), message),
    find_id=lambda lines: first(lines, "thread.started", "thread_id"),
    memory=(".codex/sessions", ".codex/state*", ".codex/session_index*"),
    absent="0199a213-81c0-7800-8aa1-bbab2a035a53",
    malformed="no-such-id",
)


# gemini


def _lay_gemini(place: Place) -> Mapping[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {
            "disableAutoUpdate": True,
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
            "maxAttempts": 1,
        },
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    write_file(place.home / ".gemini/settings.json", json.dumps(settings))
    return {"GEMINI_API_KEY": "stand-in", "GOOGLE_GEMINI_BASE_URL": place.url, "GEMINI_CLI_NO_RELAUNCH": "true"}


def _gemini(*extra: str) -> tuple[str, ...]:
    return ("--approval-mode", "yolo", "--skip-trust", "--model", GEMINI.model, "--output-format", "stream-json", *extra)


GEMINI = Cli(
    name="gemini",
    package="@google/gemini-cli",
    program=MODULES / ".bin/gemini",
    model="gemini-3-flash-preview",
    lay=_lay_gemini,
    login_variables=frozenset({"GEMINI_API_KEY"}),
    login_files=(),
    fresh=lambda place, prompt: Call(_gemini(), prompt),
    resume=lambda place, handle, message: Call(_gemini("--resume", handle), message),
    find_id=lambda lines: first(lines, "init", "session_id"),
    memory=(".gemini/tmp", ".gemini/history", ".gemini/projects.json"),
    absent="22222222-2222-4333-8444-555555555555",
    malformed="no such id",
    choose=lambda place, prompt, chosen: Call(_gemini("--session-id", chosen), prompt),
)


# pi


def _lay_pi(place: Place) -> Mapping[str, str]:
    model = {"id": "stand-in", "contextWindow": 100000, "maxTokens": 1000}
    provider = {"baseUrl": f"{place.url}/v1", "api": "openai-completions", "apiKey": "stand-in", "models": [model]}
    write_file(place.home / ".pi/agent/models.json", json.dumps({"providers": {"stub": provider}}))
    write_file(place.home / ".pi/agent/settings.json", json.dumps({"retry": {"enabled": False}, "enableInstallTelemetry": False}))
    return {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}


def _pi(text: str, *extra: str) -> Call:
    return Call(("--print", "--model", PI.model, *extra, "--mode", "json", "--", text))


def _pi_file(place: Place, conversation: str) -> str:
    """The file of a conversation; for one that has none, the path where it would be."""
    folder = place.home / ".pi/agent/sessions" / f"--{str(place.project).strip('/').replace('/', '-')}--"
    found = sorted(folder.glob(f"*_{conversation}.jsonl"))
    return str(found[-1] if found else folder / f"2026-01-01T00-00-00-000Z_{conversation}.jsonl")


PI = Cli(
    name="pi",
    package="@earendil-works/pi-coding-agent",
    program=MODULES / ".bin/pi",
    model="stub/stand-in",
    lay=_lay_pi,
    login_variables=frozenset(),
    login_files=(".pi/agent/models.json",),
    fresh=lambda place, prompt: _pi(prompt),
    resume=lambda place, handle, message: _pi(message, "--session", handle),
    find_id=lambda lines: first(lines, "session", "id"),
    memory=(".pi/agent/sessions",),
    absent="33333333-2222-4333-8444-555555555555",
    malformed="no such id",
    handle=_pi_file,
    choose=lambda place, prompt, chosen: _pi(prompt, "--session-id", chosen),
)


# opencode


def _lay_opencode(place: Place) -> Mapping[str, str]:
    options = {"baseURL": f"{place.url}/v1", "apiKey": "stand-in"}
    models = {"stand-in": {"name": "stand-in", "limit": {"context": 100000, "output": 1000}}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "stub", "options": options, "models": models}
    config = {"autoupdate": False, "share": "disabled", "provider": {"stub": provider}, "enabled_providers": ["stub"]}
    path = place.home / "opencode.json"
    write_file(path, json.dumps(config))
    switches = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE")
    return {f"OPENCODE_DISABLE_{name}": "1" for name in switches} | {"OPENCODE_CONFIG": str(path)}


def _opencode(place: Place, text: str, *extra: str) -> Call:
    prompt = place.home / "prompt.md"
    write_file(prompt, text)
    return Call(
        ("run", "--model", OPENCODE.model, "--format", "json", "--auto", *extra, "--file", str(prompt), "--", "Follow the file.")
    )


OPENCODE = Cli(
    name="opencode",
    package="opencode-ai",
    program=MODULES / f"opencode-{SYSTEM}-{MACHINE}/bin/opencode",
    model="stub/stand-in",
    lay=_lay_opencode,
    login_variables=frozenset({"OPENCODE_CONFIG"}),
    login_files=(),
    fresh=_opencode,
    resume=lambda place, handle, message: _opencode(place, message, "-s", handle, "--dir", str(place.project)),
    find_id=lambda lines: next((str(line["sessionID"]) for line in lines if "sessionID" in line), None),
    reaches=r"registry\.[a-z.]+:443",  # its own plugin package, wanted at every start
    memory=(".local/share/opencode", ".local/state/opencode"),
    absent="ses_5f0e1d2c3b4a59687766554433",
    malformed="no-such-id",
)

OLDER: Mapping[str, Cli] = {KIMI_1.name: KIMI_1}
"""Generations that are still in use, recorded once."""
CLIS: Mapping[str, Cli] = {cli.name: cli for cli in (CLAUDE, CODEX, GEMINI, KIMI, PI, OPENCODE)}
