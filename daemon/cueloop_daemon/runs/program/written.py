"""The session as the program writes it: what became of each write, in the journal and in words."""

from __future__ import annotations

from pydantic import TypeAdapter

from cueloop_daemon.runs.program.common import again, warn
from cueloop_daemon.runs.types import Journal, SessionWrite, World
from cueloop_protocol.documents.session import Session

WRITTEN: TypeAdapter[SessionWrite] = TypeAdapter(SessionWrite)


async def save(journal: Journal, world: World, key: str, session: Session) -> str:
    """Write the session as it stands now, say what a person must know of it, and give the etag."""

    result = await journal.converge(key, again(lambda: world.sessions.save(session)), WRITTEN)
    await tell(journal, world, key, result)
    return result.etag


async def tell(journal: Journal, world: World, key: str, result: SessionWrite) -> None:
    """Say what a person must know of a write."""
    for number, text in enumerate(told(result)):
        await warn(journal, world, f"{key}/told/{number}", text)


def told(result: SessionWrite) -> tuple[str, ...]:
    """What a person must know of a write, as sentences."""
    said = [f"Somebody else wrote the session file; theirs is kept as {path}." for path in result.foreign]
    if result.deleted:
        said.append("Somebody removed the session file during the run; it was written again.")
    if result.stays:
        said.append("The session file is somebody else's by now and stays as it is.")
    return tuple(said)
