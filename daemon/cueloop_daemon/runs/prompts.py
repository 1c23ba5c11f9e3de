"""The texts for agents: ours, shipped with the package, each overridable by a file in `.cueloop/prompts/`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from string import Template

from cueloop_protocol.roots import Root, shown

from cueloop_daemon.runs.types import PromptError

NAMES = ("single", "plan", "implement", "review", "ci_failed", "plan_changed", "plan_empty", "interrupted")
LIMIT = 1024 * 1024
"""Bytes of an override, and of all instruction files together."""

HAND_OFF_LIMIT = 64 * 1024


class PromptFiles:
    """Prompts of one repository. `instructions` are the configured instruction files, as they are written there."""

    def __init__(self, root: Root, instructions: tuple[str, ...]) -> None:
        self._root = root
        self._instructions = instructions

    def make(self, name: str, fields: Mapping[str, str]) -> str:
        """One prompt with its fields filled in. Raises PromptError, which names file and field."""
        where, text = self._template(name)
        known = {**fields, "instructions": self._instruction_text(), "hand_off": self._hand_off(fields.get("task_id", ""))}
        try:
            return Template(text).substitute(known).strip() + "\n"
        except KeyError as exc:
            allowed = ", ".join(f"${field}" for field in sorted(known))
            raise PromptError(f"The prompt {where} has the unknown field ${exc.args[0]}; there are {allowed}.") from exc
        except ValueError as exc:
            raise PromptError(f"The prompt {where} has a $ that begins no field ({exc}); write $$ for a dollar sign.") from exc

    def _template(self, name: str) -> tuple[str, str]:
        if name not in NAMES:
            raise ValueError(f"there is no prompt {name!r}")
        place = f".cueloop/prompts/{name}.md"
        own = self._read(self._root.join(".cueloop", "prompts", f"{name}.md"), place)
        if own is not None:
            return shown(f"{self._root.path}/{place}"), own
        return f"{name}.md", (files("cueloop_daemon") / "prompts" / f"{name}.md").read_text(encoding="utf-8")

    def _instruction_text(self) -> str:
        parts = []
        for name in self._instructions:
            path = os.path.expanduser(name) if name.startswith("~") else self._root.join(name)
            text = self._read(path, name)
            if text is None:
                raise PromptError(f"The instruction file {name} is missing.")
            parts.append(f"Instructions from {name}:\n\n{text.strip()}")
        return "\n\n".join(parts)

    def _hand_off(self, task_id: str) -> str:
        path = self._root.join(".cueloop", "cache", "phase2_final", f"{task_id}.md")
        text = self._read(path, path) if task_id else None
        return (text or "(nothing was left)").strip()[-HAND_OFF_LIMIT:]

    def _read(self, path: str, named: str) -> str | None:
        try:
            with open(path, "rb") as file:
                data = file.read(LIMIT + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise PromptError(f"{named} cannot be read: {exc.strerror}.") from exc
        if len(data) > LIMIT:
            raise PromptError(f"{named} is larger than {LIMIT} bytes.")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise PromptError(f"{named} is no UTF-8 text (byte {exc.start}).") from exc
