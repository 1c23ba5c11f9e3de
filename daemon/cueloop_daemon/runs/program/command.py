"""A program that is run for the run itself, as a child of the shim: the CI gate, git. What became of it is on record once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.core.runs.repeat import fingerprint
from cueloop_daemon.runners import MARKERS
from cueloop_daemon.runs.program.child import GRACE, INTENT, Intent, follow, intend
from cueloop_daemon.runs.types import Exited, Journal, NotStarted, Order, Stream, World

KEPT = 4 * 1024 * 1024
"""Bytes of a command's output that are kept, from its end, and compared with those of other failures."""
SHOWN = 16 * 1024
"""Characters from each end that a message shows."""
LAST_LINE = 300
WALL = 1800.0
"""Seconds for a gate (design section 6), a revert, a commit with its hooks, a push."""

_ELSEWHERE = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
"""Variables that would point git at another repository than the one in the root."""


class Done(BaseModel):
    """How a command ended. `exit_code` is None for one that did not end by itself, or could not be started: `failure` says why."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    exit_code: int | None
    shown: str = ""
    """Both ends of its output."""
    mark: str = ""
    """Equal for commands that ended alike and said the same."""
    last_line: str = ""
    """Its last words, or why there are none, for one sentence."""
    failure: str | None = None

    @property
    def is_success(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.exit_code == 0


DONE: TypeAdapter[Done] = TypeAdapter(Done)


@dataclass(slots=True)
class _Tail:
    """The end of what was printed, both streams as they came."""

    data: bytearray = field(default_factory=bytearray)

    def feed(self, stream: Stream, data: bytes, upto: int) -> None:
        self.data += data
        if len(self.data) > 2 * KEPT:
            del self.data[:-KEPT]

    def text(self) -> str:
        return bytes(self.data[-KEPT:]).decode("utf-8", "replace")


async def run_command(
    journal: Journal,
    world: World,
    key: str,
    kind: Literal["ci", "git"],
    argv: tuple[str, ...],
    *,
    must_end: bool = False,
) -> Done:
    """Run a program in the root, standard input closed, for at most half an hour. `must_end`: a cancel waits for it."""
    intent = await intend(journal, world, key)

    async def act(wanted: Intent, again: bool) -> Done:
        program = world.find_program(argv[0])
        if program is None:
            return _not_run(f"{argv[0]} was not found on the PATH")
        order = Order(wanted.number, wanted.token, kind, (program, *argv[1:]), _environment(world), None, None, WALL, GRACE)
        tail = _Tail()
        ended = await follow(journal, world, order, tail.feed, must_end=must_end)
        if isinstance(ended, NotStarted):
            return _not_run(f"{argv[0]} could not be started ({ended.stage}, errno {ended.errno})")
        return _done(argv[0], ended, tail.text())

    return await journal.step(key, intent, act, INTENT, DONE)


def _environment(world: World) -> dict[str, str]:
    left_out = {*MARKERS, *_ELSEWHERE}
    return {**{name: value for name, value in world.run.env.items() if name not in left_out}, "CUELOOP_RUN_ID": world.run.run_id}


def _not_run(why: str) -> Done:
    return Done(exit_code=None, mark=fingerprint(None, why), last_line=why, failure=why)


def _done(name: str, ended: Exited, output: str) -> Done:
    failure = None
    if ended.cause == "wall":
        failure = f"{name} did not end within {WALL:.0f} s"
    elif ended.code is None:
        failure = f"{name} was ended by signal {ended.signal}"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = lines[-1][:LAST_LINE] if lines else f"exit code {ended.code}"
    code = None if failure else ended.code
    return Done(
        exit_code=code, shown=both_ends(output), mark=fingerprint(code, output), last_line=failure or said, failure=failure
    )


def both_ends(text: str) -> str:
    """A long output as its beginning and its end."""
    if len(text) <= 2 * SHOWN:
        return text
    return f"{text[:SHOWN]}\n[… {len(text) - 2 * SHOWN} characters left out …]\n{text[-SHOWN:]}"
