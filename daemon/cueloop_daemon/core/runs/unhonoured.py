"""What a configuration or a call asks for and this daemon does not do: said, never passed over. Pure."""

from __future__ import annotations

from cueloop_protocol.documents.config import Config
from cueloop_protocol.params import RunStartParams
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Unhonoured:
    """`warnings` are sentences for the person; `refusal` one that keeps the run from starting, as the policy says."""

    warnings: tuple[str, ...]
    refusal: str | None = None


def unhonoured(config: Config, params: RunStartParams) -> Unhonoured:
    """Settings are warned of; options follow `unsupported_option_policy`: ignore, warn or error."""
    settings: list[str] = []
    if config.parallel.workers is not None and not params.resume and params.mode != "resume":
        settings.append("parallel.workers is set; this daemon runs one task after the other.")
    if config.agent.webhook.enabled:
        settings.append("agent.webhook.enabled is set; this daemon sends no webhooks.")
    if config.agent.repoprompt_plan_required or config.agent.repoprompt_tool_injection:
        settings.append("agent.repoprompt_… is set; this daemon does not use RepoPrompt.")
    options = _options(params)
    policy = params.overrides.unsupported_option_policy or config.agent.runner_cli.defaults.unsupported_option_policy or "warn"
    if options and policy == "error":
        return Unhonoured(tuple(settings), f"This daemon cannot honour {' and '.join(options)}.")
    told = [f"This daemon cannot honour {option}; it is ignored." for option in options] if policy == "warn" else []
    return Unhonoured((*settings, *told))


def _options(params: RunStartParams) -> list[str]:
    given = params.overrides
    found = ["--lfs-check"] if given.lfs_check else []
    if given.repo_prompt not in (None, "off"):
        found.append(f"--repo-prompt {given.repo_prompt}")
    return found
