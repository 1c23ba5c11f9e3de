"""What a shim says, as values: one line is one message (`cueloop_daemon.shim.wire` has the words)."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from cueloop_daemon.runs.types import Cause
from cueloop_daemon.shim.wire import NUMBER_LIMIT, WireError


def _raw_text(value: object) -> str:
    """Text that may stand for any bytes, which pydantic's own check does not let through."""
    if not isinstance(value, str):
        raise ValueError("not text")
    return value


RawText = Annotated[str, PlainValidator(_raw_text)]
Number = Annotated[int, Field(ge=0, le=NUMBER_LIMIT)]


class Message(BaseModel):
    """`to` is the word of the wish that it answers, None for what comes unasked; `n` the number of the order."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    to: str | None = None
    n: Number | None = None


class Plain(Message):
    """A message that is told by its word alone: `ok gone barred forgotten conflict busy absent foreign cancelled …`."""

    word: str


class Child(BaseModel):
    """The child that lives, and the logical sizes of its output."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    n: Number
    pid: int
    start: str
    out: Number = 0
    err: Number = 0


class State(Message):
    """How things stand. `orders`: what became of each that is not acknowledged."""

    protocol: int
    orders: dict[str, str]
    child: Child | None
    cancelled: bool


class Refused(Message):
    """No conversation. `why`: version, fenced (a later daemon is here), run (another run's shim)."""

    why: str


class Made(Message):
    """The queue lock is ours; `owner` as it travels."""

    dev: int
    ino: int
    owner: RawText


class Held(Message):
    """Somebody else's queue lock. `owner` None: there is no owner file that can be read."""

    dev: int
    ino: int
    owner: RawText | None
    names: tuple[RawText, ...] = Field(default=(), strict=False)


class Failure(Message):
    """A system call failed."""

    errno: int


class Running(Message):
    """The child was started."""

    pid: int
    start: str


class NoStart(Message):
    """The child could not be started."""

    stage: str
    errno: int


class End(Message):
    """The child has ended."""

    pid: int = 0
    start: str = ""
    code: int | None
    signal: int | None
    cause: Cause
    out: Number
    err: Number
    dropped: Number
    left: tuple[RawText, ...] = Field(default=(), strict=False)


class Growth(Message):
    """There is more output."""

    out: Number
    err: Number


class Bad(Message):
    """Something does not work, and the shim goes on without it."""

    what: str
    errno: int


_MODELS: dict[str, type[Message]] = {
    "shim": State,
    "state": State,
    "refused": Refused,
    "made": Made,
    "held": Held,
    "error": Failure,
    "started": Running,
    "failed": NoStart,
    "exited": End,
    "grown": Growth,
    "trouble": Bad,
}


def parse(line: bytes) -> Message:
    """The message in a line. Raises WireError for what is none."""
    try:
        raw: object = json.loads(line)
    except (ValueError, RecursionError):
        raise WireError("not a line of JSON") from None
    if not isinstance(raw, dict) or len(raw) != 1:
        raise WireError("not an object with one key")
    word, fields = next(iter(raw.items()))
    if not isinstance(fields, dict):
        raise WireError(f"{word}: no object")
    model = _MODELS.get(word)
    try:
        return Plain.model_validate({**fields, "word": word}) if model is None else model.model_validate(fields)
    except ValidationError as exc:
        raise WireError(f"{word}: {exc.error_count()} bad fields") from None
