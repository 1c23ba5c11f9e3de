"""The dump put together, made clean, and kept within its bound. Blocking: for a worker thread."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from pydantic_core import to_json

from cueloop_daemon.dump.files import file_facts
from cueloop_daemon.dump.log_tail import recent_log, stacks_text
from cueloop_daemon.dump.private_texts import private_texts
from cueloop_daemon.dump.scrub import Scrubber
from cueloop_daemon.dump.signalled import STACKS
from cueloop_daemon.store.settings import Settings
from cueloop_protocol.base import dump
from cueloop_protocol.dump_results import DumpResult, EventFact, RunFact, TaskStack, ThreadStack
from cueloop_protocol.place import FOLDER
from cueloop_protocol.private import secret_values
from cueloop_protocol.results import StatusResult
from cueloop_protocol.roots import Caller, Root, open_root
from cueloop_protocol.values import dataclass
from cueloop_protocol.version import __version__

MOST_BYTES = 1024 * 1024
SHRINKING = ("log", "events", "tasks", "runs", "threads", "files", "environment")
"""What is cut, in this order, until the whole fits; the older half of each goes first."""

MOST_TEXT = 64 * 1024
"""Characters of one text."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known beforehand. `homes` are folders that are shown as `~`; of `environ` names alone are told."""

    root: Root
    caller: Caller
    homes: tuple[str, ...]
    environ: Mapping[str, str]
    made_at: str
    settings: Settings | None
    status: StatusResult | None = None
    tasks: Sequence[TaskStack] = ()
    threads: Sequence[ThreadStack] = ()
    runs: Sequence[RunFact] = ()
    events: Sequence[EventFact] = ()
    notes: Sequence[str] = field(default_factory=tuple)


def dump_bytes(known: Known) -> bytes:
    """The whole dump as JSON, at most `MOST_BYTES`. Never raises for what the repository is."""
    log, notes = recent_log(known.root.join(FOLDER, "daemon.log"))
    result = DumpResult(
        made_at=known.made_at,
        daemon_version=__version__,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        status=known.status,
        tasks=tuple(known.tasks),
        threads=tuple(known.threads),
        stacks=stacks_text(known.root.join(FOLDER, STACKS)),
        settings=_settings(known.settings),
        environment=tuple(sorted(known.environ)),
        files=tuple(file_facts(known.root, known.caller)),
        runs=tuple(known.runs),
        events=tuple(known.events),
        log=tuple(log),
        notes=(*known.notes, *notes),
    )
    texts = [*secret_values(known.environ), *private_texts(known.root, known.caller)]
    clean: Any = Scrubber.of(known.homes, texts).value(dump(result))
    return bounded(clean)


def dump_elsewhere(known: Known) -> bytes:
    """`dump_bytes` in another process than the one in which `known` was made: a root that is a descriptor is opened anew."""
    root = known.root
    return dump_bytes(known if root.base == root.path else replace(known, root=open_root(root.path)))


def bounded(document: dict[str, Any]) -> bytes:
    """The document as JSON within the bound; what was cut is noted."""
    shown = {key: _shortened(value) for key, value in document.items()}
    data = to_json(shown)
    for name in SHRINKING:
        before = len(shown[name])
        while len(data) > MOST_BYTES - 4096 and shown[name]:
            shown[name] = shown[name][len(shown[name]) // 2 + 1 :]
            data = to_json(shown)
        if len(shown[name]) < before:
            shown["notes"] = [*shown["notes"], f"Of {before} entries of {name} the last {len(shown[name])} are told."]
            data = to_json(shown)
    return data


def _settings(settings: Settings | None) -> dict[str, Any]:
    """The settings in force; of what the fleet commands keep there, only that there is something."""
    if settings is None:
        return {}
    found = dump(settings)
    return {**found, "fleet": None if settings.fleet is None else "(set)"}


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= MOST_TEXT else f"… {value[-MOST_TEXT:]}"
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    return {key: _shortened(item) for key, item in value.items()} if isinstance(value, dict) else value
