"""What an agent had said when the run around it ended: in which conversation it was, if that was not on record yet. Blocking."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cueloop_daemon.runners import Conversation, PluginFacts, UnknownRunner, runner_for
from cueloop_daemon.runs import records
from cueloop_daemon.runs.program.invoke import INTENT
from cueloop_daemon.runs.program.scene import conversation_from, conversation_json
from cueloop_daemon.runs.state import State, TaskState

Read = Callable[[int, int], tuple[int, bytes]]
"""A piece of a child's standard output, by the child's number and from where: where it begins, and its bytes; none at the end."""
NO_PLUGINS: Mapping[str, PluginFacts] = {}


def conversation_left(state: State, invocation: bytes | None, read: Read) -> records.Conversation | None:
    """The new conversation that the agent of an unfinished invocation (its intent) reported; None where it did not, or is unknown.

    A plugin's runner is not known here. Raises OSError, ValueError.
    """
    task = state.task
    if task is None or invocation is None:
        return None
    intent = INTENT.validate_json(invocation)
    if intent.resumed is not None or (task.is_resumed and intent.chosen is None):
        return None  # it is on record; or its phase may be another one than the session's
    name = _runner(task)
    chosen = None if intent.chosen is None else conversation_from(intent.chosen)
    found = _heard(name, intent.number, chosen, read)
    if found is None:
        return None
    place = (task.task_id, task.session.session_id, task.iteration, task.phase, name)
    return records.Conversation(*place, conversation_json(found), "reported")


def _runner(task: TaskState) -> str:
    settings = {1: task.session.phase1_settings, 2: task.session.phase2_settings, 3: task.session.phase3_settings}[task.phase]
    return task.session.runner if settings is None else settings.runner


def _heard(name: str, number: int, chosen: Conversation | None, read: Read) -> Conversation | None:
    runner = runner_for(name, NO_PLUGINS)
    if isinstance(runner, UnknownRunner):
        return None
    reader, offset = runner.reader(), 0
    while True:
        begin, data = read(number, offset)
        if not data:
            break
        reader.feed(data)
        offset = begin + len(data)
    return reader.interrupted(chosen=chosen)
