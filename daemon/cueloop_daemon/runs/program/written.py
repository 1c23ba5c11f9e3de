"""A write of the session, as it is kept in the journal."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.runs.types import SessionWrite


class Written(BaseModel):
    """What became of a write of the session."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    etag: str
    foreign: tuple[str, ...] = ()
    deleted: bool = False


WRITTEN: TypeAdapter[Written] = TypeAdapter(Written)


def written(result: SessionWrite) -> Written:
    """A write as it is kept in the journal."""
    return Written(etag=result.etag, foreign=result.foreign, deleted=result.deleted)
