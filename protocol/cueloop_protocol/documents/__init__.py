"""The documents shared with other tools, one module each: import from the module, so that only what is used is loaded."""

from __future__ import annotations

__all__: list[str] = []
