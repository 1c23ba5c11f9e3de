"""The CI gate's command and the webhook's address, as far as they can be judged without running or calling anything."""

from __future__ import annotations

from typing import Any

import pytest

from cueloop_daemon.core.conflicts import check_gate, check_webhook
from cueloop_daemon.core.rules import RuleError


@pytest.mark.parametrize(
    ("enabled", "argv"),
    [
        (False, []),
        (False, ["sh", "-c", "x"]),
        (True, ["make", "ci"]),
        (True, ["bash", "ci.sh"]),
        (True, ["/usr/bin/env", "-c"]),
    ],
)
def test_a_gate_that_can_work(enabled: bool, argv: list[str]) -> None:
    check_gate({"enabled": enabled, "argv": argv}, ("agent", "ci_gate"))


@pytest.mark.parametrize(
    ("argv", "key"),
    [
        ([], "agent.ci_gate.argv"),
        (["make", " "], "agent.ci_gate.argv[1]"),
        (["a\0b"], "agent.ci_gate.argv[0]"),
        (["sh", "-c", "make ci"], "agent.ci_gate.argv"),
        (["/bin/bash", "-e", "-c", "x"], "agent.ci_gate.argv"),
        (["cmd", "/C", "x"], "agent.ci_gate.argv"),
        (["pwsh", "-Command", "x"], "agent.ci_gate.argv"),
    ],
)
def test_a_gate_that_cannot(argv: list[str], key: str) -> None:
    with pytest.raises(RuleError) as caught:
        check_gate({"enabled": True, "argv": argv}, ("agent", "ci_gate"))
    assert caught.value.key == key


PUBLIC = "https://hooks.example.com/x?token=hunter2"


@pytest.mark.parametrize(
    "webhook",
    [
        {},
        {"enabled": False, "url": "nonsense"},
        {"enabled": True, "url": PUBLIC},
        {"enabled": True, "url": f"  {PUBLIC} "},
        {"enabled": True, "url": "HTTPS://[2001:db8::1]:8443/"},
        {"enabled": True, "url": "http://example.com", "allow_insecure_http": True},
        {"enabled": True, "url": "https://localhost:1", "allow_private_targets": True},
        {"enabled": True, "url": "https://10.0.0.1"},
    ],
)
def test_a_webhook_that_may_be_sent_to(webhook: dict[str, Any]) -> None:
    check_webhook(webhook, ("agent", "webhook"))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (None, "is not set and the webhook is enabled"),
        (" ", "is not set and the webhook is enabled"),
        ("https://[::1", "is no valid address"),
        ("https://example.com:99999/hunter2", "is no valid address"),
        ("ftp://example.com/hunter2", "is no address of the web"),
        ("example.com/hunter2", "is no address of the web"),
        ("https:///hunter2", "is no address of the web"),
        ("http://example.com/hunter2", "is not encrypted"),
        ("https://localhost/hunter2", "points to this machine or its network"),
        ("https://LOCALHOST/hunter2", "points to this machine or its network"),
        ("https://a.localhost", "points to this machine or its network"),
        ("https://metadata.google.internal", "points to this machine or its network"),
        ("https://127.0.0.1", "points to this machine or its network"),
        ("https://169.254.169.254", "points to this machine or its network"),
        ("https://0.0.0.0", "points to this machine or its network"),
        ("https://[::1]", "points to this machine or its network"),
        ("https://[::ffff:127.0.0.1]", "points to this machine or its network"),
        ("https://[fe80::1]", "points to this machine or its network"),
    ],
)
def test_a_webhook_that_may_not(url: str | None, reason: str) -> None:
    with pytest.raises(RuleError) as caught:
        check_webhook({"enabled": True, "url": url}, ("profiles", "p", "webhook"))
    assert (caught.value.key, caught.value.reason) == ("profiles.p.webhook.url", reason)
    assert "hunter2" not in str(caught.value)
