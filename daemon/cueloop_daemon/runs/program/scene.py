"""One phase of one iteration with everything that belongs to it: who works, in which conversation, and what is said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field

from cueloop_daemon.runners import Conversation, Runner, Settings
from cueloop_daemon.runs.places import plan_io, plan_shown
from cueloop_daemon.runs.program.common import WORDS
from cueloop_daemon.runs.state import TaskState
from cueloop_daemon.runs.types import Journal, World
from cueloop_protocol.base import dump
from cueloop_protocol.documents.envelope import Phase
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """A prompt by name with its fields; `answer` stands for the text in its field `message`."""

    name: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Words:
    """What is to be said: to an agent that knows nothing (`whole`), and to one that goes on in its own conversation (`more`)."""

    whole: tuple[Part, ...]
    more: tuple[Part, ...]

    def then(self, part: Part) -> Words:
        """The same after something came in between, of which only `part` is news to an agent that goes on."""
        return Words((*self.whole, part), (part,))


@dataclass(slots=True)
class Scene:
    """`last_text` is the agent's last message, `fresh_starts` how many conversations this phase has begun."""

    journal: Journal
    world: World
    task: TaskState
    seconds: int
    settings: Settings
    runner: Runner
    fresh_starts: int = 0
    last_text: str = ""

    @property
    def word(self) -> Phase:
        """The phase in the app's words."""
        return WORDS[self.task.phase]

    @property
    def plan_io(self) -> str:
        """The plan, for system calls."""
        return plan_io(self.world.root, self.task.task_id)

    def opening(self) -> Part:
        """The prompt that begins this phase."""
        return Part("single" if self.task.phases == 1 else self.word)

    def known_conversation(self) -> str | None:
        """The conversation of this very phase, as JSON, whether or not it can be continued."""
        return self.world.conversations.find(*self._place())

    def find_conversation(self) -> str | None:
        """The one that can be continued. One of ours that no stream has reported counts for few runners only."""
        found = self.known_conversation()
        if found is None:
            return None
        conversation = conversation_from(found)
        if conversation.is_ours and self.runner.reader().interrupted(chosen=conversation) is None:
            return None
        return found

    def remember(self, conversation: str | None) -> None:
        """What a successful stream leaves to be continued: the session that it reported, or none, whatever we had chosen."""
        if conversation is not None:
            self.keep(conversation, "reported")
        elif (chosen := self.known_conversation()) is not None:
            self.keep(chosen, "gone")

    def keep(self, conversation: str, state: str) -> None:
        """Remember the conversation of this phase."""
        self.world.conversations.keep(*self._place(), conversation, state)

    def text_of(self, parts: tuple[Part, ...]) -> str:
        """Everything in one message. Blocking. Raises PromptError."""
        return "\n\n".join(self._text(part) for part in parts)

    def _text(self, part: Part) -> str:
        if part.name == "answer":
            return part.fields["message"]
        task = self.task
        own = self.world.files.task(task.task_id)
        known = {
            "task_id": task.task_id,
            "title": task.title,
            "task": "" if own is None else json.dumps(dump(own), indent=2, ensure_ascii=False),
            "plan_path": plan_shown(task.task_id),
            "phase": str(1 if task.phases == 1 else task.phase),
            "phases": str(task.phases),
            "iteration": str(task.iteration),
            "iterations": str(task.iterations),
        }
        return self.world.prompts.make(part.name, {**known, **part.fields})

    def _place(self) -> tuple[str, str, int, int, str]:
        task = self.task
        return task.task_id, task.session.session_id, task.iteration, task.phase, self.settings.runner


def conversation_json(conversation: Conversation) -> str:
    """A conversation as it is kept."""
    return json.dumps({"id": conversation.id, "is_ours": conversation.is_ours, "file": conversation.file})


def conversation_from(kept: str) -> Conversation:
    """A conversation that was kept."""
    return Conversation(**json.loads(kept))
