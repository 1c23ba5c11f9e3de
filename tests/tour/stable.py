"""What differs from one recording to the next is replaced: the same thing by the same sign, wherever it turns up."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from cueloop_protocol.place import local_folder, root_hash
from cueloop_protocol.roots import open_root
from tour.sample import Sample

HOME = "/home/newcomer"
RUNTIME = "/run/user/1000"
LOCAL = "/tmp/cueloopd-1000"
FIRST_PROCESS = 4101
COMMIT_IN_VERSION = "0123456789ab"
ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
PROCESS = re.compile(r'(?P<before>\bprocess +|\bpid[ =]|"pid": ?)(?P<number>\d+)')
COMMIT = re.compile(r"\b[0-9a-f]{40}\b")
OTHERS = re.compile(rf"^/(?!{HOME[1:]}/).*\n(?:  .*\n)*", re.M)
"""An entry of `daemon list` about a repository that is none of the sample's: whoever else works on the machine."""
FIXED = (
    (r"\bcommit [0-9a-f]{12} of [-\d]{10}(, changed)?", f"commit {COMMIT_IN_VERSION} of 2026-01-15"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "2026-01-15T10:00:00Z"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-01-15 10:00:00"),
    (r"(\d+ days?) (?:\d+ minutes? )?\d+ seconds?\b", r"\1"),
    (r"\b(?:\d+ minutes? )?\d+ seconds?\b", "12 seconds"),
    (r"(?<![\d.])\d+ MB", "50 MB"),
    (r"\d+\.\d MB", "0.1 MB"),
    (r"\(\d+ KB\)", "(36 KB)"),
    (r"\d+ so far", "60 so far"),
    (r"(uptime_seconds\{.*\}) [\d.]+", r"\1 12.0"),
    (r"(open_descriptors\{.*\}) \d+", r"\1 20"),
    (r"(memory_bytes\{.*\}) \d+", r"\1 52428800"),
)
"""What never is the same twice, and what stands for it."""


class Stable:
    """Replaces in one text after the other; things that are numbered are numbered in the order in which they came."""

    def __init__(self, sample: Sample) -> None:
        self._named = {
            str(sample.home): HOME,
            str(sample.runtime): RUNTIME,
            local_folder(os.getuid()): LOCAL,
            root_hash(open_root(str(sample.repository))): "0123456789abcdef",
            escaped(sample.home): escaped(Path(HOME)),
        }
        self._ids: dict[str, str] = {}
        self._processes: dict[str, str] = {}
        self._commits: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        text = self._with_names(text)
        text = ID.sub(self._numbered(self._ids, lambda at: f"{at:08d}-0000-4000-8000-{at:012d}"), text)
        text = PROCESS.sub(lambda found: found["before"] + self._process(found["number"]), text)
        text = COMMIT.sub(self._numbered(self._commits, lambda at: f"{at:x}" * 40), text)
        for pattern, sign in FIXED:
            text = re.sub(pattern, sign, text)
        return text

    def listed(self, text: str) -> str:
        """The same for what `daemon list` says, without the daemons of others."""
        return self(OTHERS.sub("", self._with_names(text)))

    def _with_names(self, text: str) -> str:
        for name, sign in self._named.items():
            text = text.replace(name, sign)
        return text

    def _process(self, number: str) -> str:
        return self._processes.setdefault(number, str(FIRST_PROCESS + len(self._processes)))

    @staticmethod
    def _numbered(known: dict[str, str], make: Callable[[int], str]) -> Callable[[re.Match[str]], str]:
        def sign(found: re.Match[str]) -> str:
            return known.setdefault(found[0], make(len(known) + 1))

        return sign


def escaped(folder: Path) -> str:
    """As it stands in the names of units."""
    return str(folder).strip("/").replace("/", "-")
