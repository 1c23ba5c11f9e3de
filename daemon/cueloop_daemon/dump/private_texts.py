"""Texts of a person's own files, so that they can be taken out wherever they turn up."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

from cueloop_daemon.workspace.files import read_regular
from cueloop_protocol.roots import Caller, Root, global_config_path, settings_path

LARGEST = 32 * 1024 * 1024
"""Bytes of a file that is looked through."""

PRIVATE_FILES = tuple(
    f".cueloop/{name}.{ending}" for name in ("queue", "done", "config", "trust") for ending in ("jsonc", "json")
)
SESSION = ".cueloop/cache/session.jsonc"

# Double and single quotes, whatever is wrong with the rest of the file. A key is followed by a colon and is no secret.
_TEXTS = re.compile(r'"((?:[^"\\\n]|\\.){6,65536})"(?!\s{0,64}:)' + r"|'((?:[^'\\\n]|\\.){6,65536})'(?!\s{0,64}:)")
_NAMED = re.compile(
    r'(?:secret|token|passw|credential|api_?key|authorization)\w{0,40}["\']?\s{0,64}:\s{0,64}["\']([^"\'\n]{6,4096})',
    re.IGNORECASE,
)
_COMMENTS = re.compile(r"(?://|/\*)[ \t*]{0,8}([^\n]{6,4096}?)[ \t]{0,8}(?:\*/)?(?=\n|$)")
_PLAIN = re.compile(r"[A-Za-z]{1,10}-\d{1,9}|\d{4}-\d\d-\d\d[T ][\d:.,Z+-]{5,30}|[a-z_]{1,24}")
"""Task ids, time stamps, and single lower-case words (states, runners, settings): said everywhere, and nobody's secret."""


def private_texts(root: Root, caller: Caller) -> list[str]:
    """Every text of queue, done list, configuration, trust, session, settings and prompts, as far as they can be read. Blocking."""
    paths = [*(root.join(name) for name in (*PRIVATE_FILES, SESSION)), global_config_path(caller), settings_path(caller)]
    found: set[str] = set()
    for path in paths:
        found.update(_texts(_content(path)))
    for path in _prompts(root):
        found.update(line.strip() for line in _content(path).splitlines() if len(line.strip()) > 20)
    return sorted(found)


def _prompts(root: Root) -> list[str]:
    folder = root.join(".cueloop/prompts")
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".md")][:100]
    except OSError:
        return []


def _content(path: str) -> str:
    try:
        if os.stat(path).st_size > LARGEST:
            return ""
        data = read_regular(path)[0]
    except OSError:
        return ""
    return (data or b"").decode("utf-8", "replace")


def _texts(content: str) -> Iterator[str]:
    for match in _TEXTS.finditer(content):
        text = match[1] or match[2]
        for one in {text, _unescaped(text)}:
            if not _PLAIN.fullmatch(one):
                yield one
    for match in _NAMED.finditer(content):
        yield match[1]
    for match in _COMMENTS.finditer(content):
        yield match[1]


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text
