"""A program that hears a repository's events with the client library, over any number of daemons, and prints each as a line of JSON."""

from __future__ import annotations

import json
import sys

import anyio

from cueloop_client.api import RawNote, connect


async def listen(root: str) -> None:
    """Until killed. The first line says where the stream begins."""
    async with connect(root) as client, client.subscribe() as heard:
        print(json.dumps({"from": str(heard.cursor)}), flush=True)
        async for note in heard:
            assert not isinstance(note, RawNote), note
            print(note.model_dump_json(exclude_none=True), flush=True)


if __name__ == "__main__":
    anyio.run(listen, sys.argv[1])
