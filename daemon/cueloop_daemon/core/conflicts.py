"""What no single key shows: settings of an agent that do not go together once all layers are merged."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from cueloop_daemon.core.rules import RuleError

_COMMAND = "the program to run, then its arguments, none of them blank"
_ADDRESS = "an absolute https:// address"
_SHELLS = ("sh", "bash", "zsh", "dash", "fish", "cmd", "pwsh", "powershell")
_SHELL_FLAGS = ("-c", "/c", "-command")


def check_gate(gate: Mapping[str, object], key: tuple[str, ...]) -> None:
    """An enabled CI gate has a program and its arguments, and is no shell that is handed a script: the list would be none then.

    `key` is the section's own. Raises RuleError.
    """
    argv, key = gate["argv"], (*key, "argv")
    if not gate["enabled"] or not isinstance(argv, list):
        return
    if not argv:
        raise RuleError(key, "is empty and the CI gate is enabled", _COMMAND)
    for position, argument in enumerate(argv):
        if not argument.strip() or "\0" in argument:
            raise RuleError((*key, position), "is blank", _COMMAND)
    if PurePosixPath(argv[0]).name in _SHELLS and any(argument.lower() in _SHELL_FLAGS for argument in argv[1:]):
        raise RuleError(key, "hands a script to a shell", "the program itself; put a longer script into a file")


def check_webhook(webhook: Mapping[str, object], key: tuple[str, ...]) -> None:
    """An enabled webhook has an address that it may be sent to. No error shows it: it may hold a token. Raises RuleError."""
    url, key = webhook.get("url"), (*key, "url")
    if not webhook.get("enabled"):
        return
    if not isinstance(url, str) or not url.strip():
        raise RuleError(key, "is not set and the webhook is enabled", _ADDRESS)
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname
        _ = parts.port
    except ValueError:
        raise RuleError(key, "is no valid address", _ADDRESS) from None
    if parts.scheme not in ("https", "http") or not host:
        raise RuleError(key, "is no address of the web", _ADDRESS)
    if parts.scheme == "http" and not webhook.get("allow_insecure_http"):
        raise RuleError(key, "is not encrypted", "https://, or http:// with allow_insecure_http")
    if not webhook.get("allow_private_targets") and _is_private(host):
        raise RuleError(key, "points to this machine or its network", "a public host, or any with allow_private_targets")


SECTION_CHECKS: Mapping[str, Callable[[Mapping[str, object], tuple[str, ...]], None]] = {
    "ci_gate": check_gate,
    "webhook": check_webhook,
}
"""By the section of the agent settings that is checked."""


def _is_private(host: str) -> bool:
    """Loopback, link-local and unspecified addresses, and the names that mean them (or a cloud's metadata service)."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost") or host == "metadata.google.internal"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_link_local or address.is_unspecified
