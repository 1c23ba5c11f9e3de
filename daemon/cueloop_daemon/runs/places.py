"""Where the phases of a task leave things for each other (contract section 1)."""

from __future__ import annotations

from cueloop_protocol.roots import Root

PLANS = (".cueloop", "cache", "plans")
HAND_OFFS = (".cueloop", "cache", "phase2_final")


def plan_io(root: Root, task_id: str) -> str:
    """The plan of a task, for system calls."""
    return root.join(*PLANS, _name(task_id))


def plan_shown(task_id: str) -> str:
    """The plan of a task, relative to the root."""
    return "/".join((*PLANS, _name(task_id)))


def hand_off_io(root: Root, task_id: str) -> str:
    """The implementing agent's last message, for system calls."""
    return root.join(*HAND_OFFS, _name(task_id))


def _name(task_id: str) -> str:
    """An id may have any prefix that the configuration says; a path it is not."""
    text = task_id.strip().encode("utf-8", "replace").decode()
    return f"{text.replace('/', '_').replace(chr(0), '_')}.md"
