"""What this daemon does not do is said, as the policy has it."""

from __future__ import annotations

import pytest

from cueloop_daemon.core.layers import read_layer, resolve
from cueloop_daemon.core.runs.unhonoured import Unhonoured, unhonoured
from cueloop_protocol.params import RunStartParams


def found(file: dict[str, object], **params: object) -> Unhonoured:
    return unhonoured(resolve([read_layer("config.jsonc", file)]), RunStartParams.model_validate({"mode": "loop", **params}))


def test_nothing_to_say() -> None:
    assert found({}) == Unhonoured(())
    assert found({}, overrides={"repo_prompt": "off"}) == Unhonoured(())


def test_workers_are_one_task_after_the_other() -> None:
    file: dict[str, object] = {"parallel": {"workers": 3}}
    assert ["one task after the other" in text for text in found(file).warnings] == [True]
    assert found(file, resume=True) == Unhonoured(())
    assert found(file, mode="resume") == Unhonoured(())


def test_webhooks_are_never_silently_not_sent() -> None:
    agent = {"webhook": {"enabled": True, "url": "https://example.org"}}
    assert ["sends no webhooks" in text for text in found({"agent": agent}).warnings] == [True]


@pytest.mark.parametrize("key", ["repoprompt_plan_required", "repoprompt_tool_injection"])
def test_repoprompt_is_not_used(key: str) -> None:
    assert ["does not use RepoPrompt" in text for text in found({"agent": {key: True}}).warnings] == [True]


@pytest.mark.parametrize(
    ("policy", "warned", "refused"), [("ignore", 0, False), ("warn", 2, False), ("error", 0, True), (None, 2, False)]
)
def test_options_follow_the_policy(policy: str | None, warned: int, refused: bool) -> None:
    options: dict[str, object] = {"lfs_check": True, "repo_prompt": "tools"}
    by_call = found({}, overrides={**options, "unsupported_option_policy": policy})
    by_file = found({"agent": {"runner_cli": {"defaults": {"unsupported_option_policy": policy}}}}, overrides=options)
    for one in (by_call, by_file):
        assert (len(one.warnings), one.refusal is not None) == (warned, refused)
        assert "--lfs-check" in "".join((*one.warnings, one.refusal or "")) or policy == "ignore"
        assert "--repo-prompt tools" in "".join((*one.warnings, one.refusal or "")) or policy == "ignore"
