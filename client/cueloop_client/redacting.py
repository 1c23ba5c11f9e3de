"""The caller's own part of cleaning a dump: values of this environment, and this home. Standard library only."""

from __future__ import annotations

import re

from cueloop_protocol.private import secret_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.world import World

SHORTEST = 6
CLOSED = frozenset({"client", "daemon", "answered", "not running", "not answering", "running"})
"""Words of ours that stay, whoever has the same word for a secret."""


def without_private(document: dict[str, Any], world: World) -> dict[str, Any]:
    """The document without values of the environment that may be secrets, and with `~` for the home. Keys stay."""
    texts = sorted({text for text in secret_values(world.environ) if len(text) >= SHORTEST}, key=len, reverse=True)
    homes = {home.rstrip("/") for home in (world.environ.get("HOME", ""), world.passwd_home()) if home.startswith("/")} - {""}
    home = re.compile(f"(?:{'|'.join(map(re.escape, sorted(homes, key=len, reverse=True)))})(?![\\w.-])") if homes else None

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items()}
        if isinstance(value, list):
            return [clean(item) for item in value]
        if not isinstance(value, str) or value in CLOSED:
            return value
        for text in texts:
            value = value.replace(text, "[REDACTED]")
        return home.sub("~", value) if home is not None else value

    cleaned: dict[str, Any] = clean(document)
    return cleaned
