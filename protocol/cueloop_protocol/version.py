"""The version of this distribution, for all three packages. Standard library only."""

from __future__ import annotations

__version__ = "0.1.0"

PROTOCOL_VERSION = 1
"""The newest protocol that this distribution speaks."""

OLDEST_PROTOCOL_VERSION = 1
"""The oldest one that it still speaks."""
