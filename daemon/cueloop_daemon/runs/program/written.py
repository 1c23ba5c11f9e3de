"""The session as the program writes it: what became of each write, in the journal and in words."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.runs.program.common import again, warn
from cueloop_daemon.runs.types import Journal, SessionWrite, World
from cueloop_protocol.documents.session import Session


class Written(BaseModel):
    """What became of a write of the session."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    etag: str
    foreign: tuple[str, ...] = ()
    deleted: bool = False
    stays: bool = False

    @classmethod
    def of(cls, result: SessionWrite) -> Written:
        """As it is kept in the journal."""
        return cls(etag=result.etag, foreign=result.foreign, deleted=result.deleted, stays=result.stays)

    def told(self) -> tuple[str, ...]:
        """What a person must know of it, as sentences."""
        said = [f"Somebody else wrote the session file; theirs is kept as {path}." for path in self.foreign]
        if self.deleted:
            said.append("Somebody removed the session file during the run; it was written again.")
        if self.stays:
            said.append("The session file is somebody else's by now and stays as it is.")
        return tuple(said)


WRITTEN: TypeAdapter[Written] = TypeAdapter(Written)


async def save(journal: Journal, world: World, key: str, session: Session) -> str:
    """Write the session as it stands now, say what a person must know of it, and give the etag."""

    async def act() -> Written:
        return Written.of(await world.sessions.save(session))

    result = await journal.converge(key, again(act), WRITTEN)
    await tell(journal, world, key, result)
    return result.etag


async def tell(journal: Journal, world: World, key: str, result: Written) -> None:
    """Say what a person must know of a write."""
    for number, text in enumerate(result.told()):
        await warn(journal, world, f"{key}/told/{number}", text)
