"""Both generations of kimi: Kimi Code from npm, and the last release of kimi-cli, which is on PyPI (docs/runners.md says how to get it)."""

from __future__ import annotations

from collections.abc import Mapping

from agents.cli import MODULES, Call, Cli, Place, write_file


def _lay_kimi(place: Place) -> Mapping[str, str]:
    config = f"""default_model = "{KIMI.model}"
telemetry = false
[loop_control]
max_attempts_per_step = 1
[providers.stub]
type = "openai"
base_url = "{place.url}/v1"
api_key = "stand-in"
[models.{KIMI.model}]
provider = "stub"
model = "{KIMI.model}"
max_context_size = 100000
"""
    write_file(place.home / ".kimi-code/config.toml", config)
    return {"KIMI_CODE_NO_AUTO_UPDATE": "1", "KIMI_DISABLE_TELEMETRY": "1"}


def _kimi(text: str, *extra: str) -> Call:
    return Call((*extra, "--model", KIMI.model, "--prompt", text, "--output-format", "stream-json"))


KIMI = Cli(
    name="kimi",
    package="@moonshot-ai/kimi-code",
    program=MODULES / ".bin/kimi",
    model="kimi-for-coding",
    lay=_lay_kimi,
    login_variables=frozenset(),
    login_files=(".kimi-code/config.toml",),
    fresh=lambda place, prompt: _kimi(prompt),
    resume=lambda place, handle, message: _kimi(message, "--session", handle),
    find_id=lambda lines: next((str(line["session_id"]) for line in lines if line.get("type") == "session.resume_hint"), None),
    memory=(".kimi-code/sessions", ".kimi-code/session_index*"),
    absent="session_11111111-2222-4333-8444-555555555555",
    malformed="no such id",
)


OWN_ID = "CL-0001-p2-1704153600"


def _lay_kimi_1(place: Place) -> Mapping[str, str]:
    config = f"""default_model = "{KIMI_1.model}"
telemetry = false
[loop_control]
max_retries_per_step = 1
[providers.stub]
type = "openai_legacy"
base_url = "{place.url}/v1"
api_key = "stand-in"
[models.{KIMI_1.model}]
provider = "stub"
model = "{KIMI_1.model}"
max_context_size = 100000
"""
    write_file(place.home / ".kimi/config.toml", config)
    return {"KIMI_CLI_NO_AUTO_UPDATE": "1", "KIMI_DISABLE_TELEMETRY": "1"}


def _kimi_1(text: str, *session: str) -> Call:
    return Call(("--yolo", *session, "--model", KIMI_1.model, "--print", "--prompt", text, "--output-format", "stream-json"))


KIMI_1 = Cli(
    name="kimi-1",
    package="kimi-cli",
    program=MODULES.parent / "kimi-1/bin/kimi",
    model="kimi-for-coding",
    lay=_lay_kimi_1,
    login_files=(".kimi/config.toml",),
    fresh=lambda place, prompt: _kimi_1(prompt, "--session", OWN_ID),
    resume=lambda place, handle, message: _kimi_1(message, "--session", handle),
    find_id=lambda lines: OWN_ID,
    memory=(".kimi/sessions",),
    absent="CL-0002-p2-1704153600",
    malformed="no such id",
    from_pypi="1.51.0",
)
