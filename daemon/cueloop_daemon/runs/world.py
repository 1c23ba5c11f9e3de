"""The world of a run: everything that its program can reach, put together for one life."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

import anyio.to_thread

from cueloop_daemon.core.model import Snapshot
from cueloop_daemon.runners import PluginFacts
from cueloop_daemon.runs.output import OutputTeller, read_in_step
from cueloop_daemon.runs.questions import QuestionDesk
from cueloop_daemon.runs.types import (
    Conversations,
    Link,
    Notify,
    Owed,
    Prompts,
    Questions,
    RunFolder,
    RunIdentity,
    SessionWriter,
    StopMarker,
    Stream,
    TaskFiles,
    Trees,
)
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.envelope import Event, RunnerOutput
from cueloop_protocol.roots import Root, expand
from cueloop_protocol.shapes import Question
from cueloop_protocol.values import dataclass

VERSION_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class TellingFolder:
    """A run's folder whose output is read in step with what was told before this life."""

    folder: RunFolder
    told: Callable[[int, Stream], int]

    def write_prompt(self, number: int, text: str) -> str:
        return self.folder.write_prompt(number, text)

    def write_stdin(self, number: int, data: bytes) -> str:
        return self.folder.write_stdin(number, data)

    def read(self, number: int, stream: Stream, offset: int, limit: int) -> tuple[int, bytes]:
        return read_in_step(self.folder, self.told(number, stream), number, stream, offset, limit)


@dataclass(frozen=True, slots=True)
class AskedQuestions:
    """See `types.Questions`: those of one run."""

    desk: QuestionDesk
    run_id: str
    sleep_until: Callable[[datetime], Awaitable[None]]

    async def ask(self, question: Question) -> tuple[str, str | None]:
        return await self.desk.ask(self.run_id, question, self.sleep_until)


@dataclass(frozen=True, slots=True)
class RunWorld:
    """See `types.World`."""

    run: RunIdentity
    root: Root
    config: Config
    link: Link
    folder: RunFolder
    files: TaskFiles
    sessions: SessionWriter
    trees: Trees
    questions: Questions
    conversations: Conversations
    notify: Notify
    prompts: Prompts
    owed: Owed
    stop_marker: StopMarker
    plugins: Mapping[str, PluginFacts]
    idle_seconds: float | None
    wall_seconds: float | None
    question_minutes: int
    teller: OutputTeller
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    show_state: Callable[[str | None, str | None, str], None]
    look_now: Callable[[], Awaitable[Snapshot]]
    sleep_to: Callable[[datetime], Awaitable[None]]

    def tell(self, number: int, stream: Stream, offset: int, event: Event) -> None:
        if not isinstance(event, RunnerOutput):
            raise TypeError("output is told by runner_output alone")
        self.teller.tell(number, stream, offset, event)

    def show(self, *, task_id: str | None, phase: str | None, state: str) -> None:
        self.show_state(task_id, phase, state)

    def find_program(self, name: str) -> str | None:
        """A name with a slash is a path, relative to the root: that is where agents run. `~` is the caller's home."""
        if "/" in name:
            path = expand(name, self.root, self.run.caller).io
            return path if os.path.isfile(path) and os.access(path, os.X_OK) else None
        found = shutil.which(name, path=self.run.env.get("PATH", os.defpath))
        return None if found is None else os.path.abspath(self.root.join(found))

    async def version_text(self, argv: tuple[str, ...]) -> str:
        return await anyio.to_thread.run_sync(self._version_text, argv, abandon_on_cancel=True)

    def _version_text(self, argv: tuple[str, ...]) -> str:
        try:
            done = subprocess.run(
                argv,
                env=dict(self.run.env),
                cwd=self.root.base,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=VERSION_SECONDS,
                check=False,
                start_new_session=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return ""
        return done.stdout[:65536].decode("utf-8", "replace")

    async def look(self) -> Snapshot:
        return await self.look_now()

    async def sleep_until(self, moment: datetime) -> None:
        await self.sleep_to(moment)
