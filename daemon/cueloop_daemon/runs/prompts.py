"""The texts for agents: ours, shipped with the package, each overridable by a file in `.cueloop/prompts/`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from string import Template

from cueloop_daemon.runs.places import hand_off_io
from cueloop_daemon.runs.reading import beginning_of
from cueloop_daemon.runs.types import PromptError
from cueloop_protocol.roots import Caller, Root, expand, shown

NAMES = ("single", "plan", "implement", "review", "ci_failed", "plan_changed", "plan_empty", "interrupted")
NEEDED: Mapping[str, tuple[str, ...]] = {
    "single": ("task",),
    "plan": ("task", "plan_path"),
    "implement": ("task", "plan_path"),
    "review": ("task",),
    "ci_failed": ("command", "output"),
    "plan_changed": ("plan_path", "files"),
    "plan_empty": ("plan_path",),
}
"""Fields without which a prompt would ask for nothing that can be done; an override must have them."""

LIMIT = 1024 * 1024
"""Bytes of an override, and of all instruction files together."""

HAND_OFF_LIMIT = 64 * 1024
"""Characters of the implementing agent's last message, from its end."""


class PromptFiles:
    """Prompts of one repository. `instructions` are the configured instruction files, as they are written there; blocking.

    `caller` says where `~` in their names is.
    """

    def __init__(self, root: Root, instructions: tuple[str, ...], caller: Caller | None = None) -> None:
        self._root = root
        self._instructions = instructions
        self._caller = caller

    def make(self, name: str, fields: Mapping[str, str]) -> str:
        """One prompt with its fields filled in. Raises PromptError, which names file and field; ValueError: no such prompt."""
        where, text = self._template(name)
        known = {**fields, "instructions": self._instruction_text(), "hand_off": self._hand_off(fields.get("task_id", ""))}
        template = Template(text)
        if not template.is_valid():
            raise PromptError(f"The prompt {where} has a $ that begins no field, {_stray(text)}; write $$ for a dollar sign.")
        named = set(template.get_identifiers())
        allowed = ", ".join(f"${field}" for field in sorted(known))
        if unknown := sorted(named - known.keys()):
            raise PromptError(f"The prompt {where} has the unknown field ${unknown[0]}; there are {allowed}.")
        if missing := [field for field in NEEDED.get(name, ()) if field not in named]:
            raise PromptError(f"The prompt {where} lacks the field ${missing[0]}, which the agent needs.")
        return template.substitute(known).strip() + "\n"

    def _template(self, name: str) -> tuple[str, str]:
        if name not in NAMES:
            raise ValueError(f"there is no prompt {name!r}")
        place = shown(f"{self._root.path}/.cueloop/prompts/{name}.md")
        own = self._read(self._root.join(".cueloop", "prompts", f"{name}.md"), f"The prompt {place}")
        if own is not None:
            return place, own
        return f"{name}.md", (files("cueloop_daemon") / "prompts" / f"{name}.md").read_text(encoding="utf-8")

    def _instruction_text(self) -> str:
        parts, left = [], LIMIT
        for name in self._instructions:
            text = self._read(self._instruction_io(name), f"The instruction file {name}", left)
            if text is None:
                raise PromptError(f"The instruction file {name} is missing.")
            left -= len(text.encode())
            parts.append(f"Instructions from {name}:\n\n{text.strip()}")
        return "\n\n".join(parts)

    def _instruction_io(self, name: str) -> str:
        if self._caller is not None:
            return expand(name, self._root, self._caller).io
        if name.startswith("~"):
            raise PromptError(f"The instruction file {name} is in a home folder, and it is not known whose.")
        return self._root.join(name)

    def _hand_off(self, task_id: str) -> str:
        path = hand_off_io(self._root, task_id)
        text = self._read(path, f"The hand-off of task {task_id}") if task_id else None
        return (text or "(nothing was left)").strip()[-HAND_OFF_LIMIT:]

    def _read(self, path: str, named: str, limit: int = LIMIT) -> str | None:
        """None: there is no such file. Never waits, whatever stands there."""
        try:
            data = beginning_of(path, limit + 1)
        except OSError as exc:
            raise PromptError(f"{named} cannot be read: {exc.strerror}.") from exc
        if data is None:
            return None
        if len(data) > limit:
            raise PromptError(f"{named} is too long; {LIMIT} bytes are allowed.")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise PromptError(f"{named} is no UTF-8 text (byte {exc.start}).") from exc


def _stray(text: str) -> str:
    """Where the first one is."""
    found = next(match for match in Template.pattern.finditer(text) if match.group("invalid") is not None)
    return f"line {text.count(chr(10), 0, found.start()) + 1}"
