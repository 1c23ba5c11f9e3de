"""Where every task and every thread stands. Cheap enough for the event loop: nothing is read from disk."""

from __future__ import annotations

import sys
import threading
from types import FrameType

import anyio

from cueloop_protocol.dump_results import TaskStack, ThreadStack

MOST_TASKS = 500
MOST_FRAMES = 40
"""Tasks, and frames of each, that are told; a daemon with 2,000 connections has more tasks, all alike."""


def task_stacks(most: int = MOST_TASKS) -> tuple[TaskStack, ...]:
    """The first `most` tasks of this event loop by age, each from its outermost call to what it waits for."""
    tasks = sorted(anyio.get_running_tasks(), key=lambda task: task.id)
    return tuple(
        TaskStack(
            id=task.id,
            name=task.name or "",
            state="cancelling" if task.has_pending_cancellation() else "running" if _is_running(task.coro) else "waiting",
            frames=_awaits(task.coro),
        )
        for task in tasks[:most]
    )


def thread_stacks() -> tuple[ThreadStack, ...]:
    """Every thread of this process that runs Python."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    return tuple(ThreadStack(name=names.get(ident, f"thread {ident}"), frames=_calls(frame)) for ident, frame in frames.items())


def _is_running(coro: object) -> bool:
    return bool(getattr(coro, "cr_running", False) or getattr(coro, "gi_running", False))


def _awaits(coro: object) -> tuple[str, ...]:
    """The chain of coroutines, generators and asynchronous generators that wait for each other."""
    found: list[str] = []
    while coro is not None and len(found) < MOST_FRAMES:
        for kind, inner in (("cr", "cr_await"), ("gi", "gi_yieldfrom"), ("ag", "ag_await")):
            frame = getattr(coro, f"{kind}_frame", None)
            if isinstance(frame, FrameType):
                found.append(_shown(frame))
                coro = getattr(coro, inner, None)
                break
        else:
            found.append(f"({type(coro).__name__})")
            break
    return tuple(found)


def _calls(frame: FrameType | None) -> tuple[str, ...]:
    found: list[str] = []
    while frame is not None and len(found) < MOST_FRAMES:
        found.append(_shown(frame))
        frame = frame.f_back
    return tuple(reversed(found))


def _shown(frame: FrameType) -> str:
    """`package/file.py:12 function`: no more of the path than says which file it is."""
    code = frame.f_code
    return f"{'/'.join(code.co_filename.split('/')[-3:])}:{frame.f_lineno} {code.co_qualname}"
