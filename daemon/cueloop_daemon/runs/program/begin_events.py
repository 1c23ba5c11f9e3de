"""What is said when this run changed queue or done file."""

from __future__ import annotations

from pydantic import TypeAdapter

from cueloop_daemon.runs.program.common import mode_of, moment
from cueloop_daemon.runs.types import Journal, World
from cueloop_protocol.documents.envelope import PathsPayload, QueueSnapshot
from cueloop_protocol.documents.resolve import DocumentPaths


async def queue_changed(journal: Journal, world: World, key: str) -> None:
    """Say that this run changed queue or done file."""
    at = await moment(journal, world, f"{key}/at")
    paths = await journal.note(f"{key}/paths", lambda: _paths(world), TypeAdapter(DocumentPaths))
    await journal.emit(key, QueueSnapshot(timestamp=at, run_mode=mode_of(world), payload=PathsPayload(paths=paths)))


async def _paths(world: World) -> DocumentPaths:
    paths = (await world.look()).paths
    return DocumentPaths(
        repo_root=paths.repo_root,
        queue_path=paths.queue_path,
        done_path=paths.done_path,
        project_config_path=paths.project_config_path,
        global_config_path=paths.global_config_path,
    )
