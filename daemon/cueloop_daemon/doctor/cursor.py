"""Cursor's SDK, which is no program but a package for Node.js: looked for where our program for it does (`cursor_sdk.mjs`)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping

from cueloop_daemon.workspace.files import read_regular
from cueloop_protocol.roots import Root
from cueloop_protocol.values import dataclass

PACKAGE = "@cursor/sdk"


@dataclass(frozen=True, slots=True)
class Sdk:
    """The installed package. `version` is empty where its package.json does not say."""

    path: str
    version: str


def find_sdk(root: Root, node: str | None, environ: Mapping[str, str]) -> Sdk | None:
    """The package of the project, of `NODE_PATH`, or beside Node itself as `npm install -g` leaves it; None if there is none."""
    for folder in _places(root, node, environ):
        path = os.path.join(folder, PACKAGE)
        try:
            data, _ = read_regular(os.path.join(path, "package.json"))
            value: object = json.loads(data or b"null")
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            version = value.get("version")
            return Sdk(path, version if isinstance(version, str) else "")
    return None


def _places(root: Root, node: str | None, environ: Mapping[str, str]) -> Iterator[str]:
    above = root.path
    while True:
        yield os.path.join(above, "node_modules")
        if (parent := os.path.dirname(above)) == above:
            break
        above = parent
    yield from (folder for folder in environ.get("NODE_PATH", "").split(os.pathsep) if os.path.isabs(folder))
    if node is not None:
        yield os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(node))), "lib", "node_modules")
