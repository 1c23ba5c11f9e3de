"""The version of this distribution, for all three packages. Standard library only."""

from __future__ import annotations

__version__ = "0.1.0"
