"""Config, trust, instruction files and plugins of a repository for one caller → what holds (contract sections 4 and 5)."""

from __future__ import annotations

import os

from cueloop_daemon.core.controls import execution_controls
from cueloop_daemon.core.layers import ConfigError, Layer, read_layer, resolve
from cueloop_daemon.core.model import Paths, Unusable
from cueloop_daemon.core.rules import RuleError
from cueloop_daemon.core.trust import gated_keys, instruction_files, is_trusted
from cueloop_daemon.store.jsonc import JsoncError, read_json
from cueloop_daemon.store.plugins import ReadFile, find_plugins
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.controls import ExecutionControls
from cueloop_protocol.roots import Caller, Root, expand, global_config_path, shown
from cueloop_protocol.values import dataclass

INSTRUCTION_LIMIT = 128 * 1024
"""Bytes that an instruction file may have; it is put in front of every prompt."""

DEFAULT_QUEUE, DEFAULT_DONE = ".cueloop/queue.jsonc", ".cueloop/done.jsonc"


@dataclass(frozen=True, slots=True)
class ConfigState:
    """What the files make together. While `config` is Unusable, no plugin is enabled and the paths are the defaults."""

    config: Config | Unusable
    trusted: bool
    controls: ExecutionControls
    paths: Paths
    inputs: tuple[str, ...]
    """Every path (for system calls) that must be as it was for this to be current: missing files and plugin folders too."""


class _Refused(Exception):
    def __init__(self, unusable: Unusable) -> None:
        super().__init__(unusable.message)
        self.unusable = unusable


class _Reading:
    """One pass over the files: reads through the caller's `ReadFile` and remembers what was asked for."""

    def __init__(self, root: Root, caller: Caller, files: ReadFile) -> None:
        self.root = root
        self.caller = caller
        self.inputs: list[str] = []
        self._files = files

    def read(self, path: str) -> bytes | None:
        """Like `ReadFile`; what stands below a file that is no folder does not exist either."""
        if path not in self.inputs:
            self.inputs.append(path)
        try:
            return self._files(path)
        except NotADirectoryError:
            return None

    def document(self, path: str, seen: str, what: str) -> object:
        """The value of a config or trust file, None if there is none. Raises _Refused."""
        try:
            data = self.read(path)
        except OSError as exc:
            raise _Refused(_unreadable(what, seen, exc)) from exc
        if data is None:
            return None
        try:
            value = read_json(data)
        except JsoncError as exc:
            raise _Refused(_incompatible(f"{what} {seen} cannot be read: {exc}.", f"Correct {seen}.", seen)) from exc
        if not isinstance(value, dict):
            raise _Refused(_incompatible(f"{what} {seen} holds no object.", f"Put braces around its settings in {seen}.", seen))
        return value


def load_config(root: Root, caller: Caller, files: ReadFile) -> ConfigState:
    """Read what a caller's configuration depends on. Blocking. Never raises for what the files are."""
    reading = _Reading(root, caller, files)
    trusted = False
    config: Config | Unusable
    # Each file is asked for even if an earlier one is bad, so that `inputs` covers whatever a correction may bring to light.
    for path in (_trust_path(root), global_config_path(caller), _project_path(root)):
        reading.inputs.append(path)
    try:
        trusted = _trust(reading)
        config = _config(reading, trusted=trusted)
    except _Refused as exc:
        config = exc.unusable
    found = find_plugins(root, caller, reading.read, trusted=trusted)
    usable = config if isinstance(config, Config) else None
    inputs = dict.fromkeys((*reading.inputs, *found.inputs))
    return ConfigState(config, trusted, execution_controls(usable, found.plugins), _paths(root, caller, usable), tuple(inputs))


def _trust_path(root: Root) -> str:
    return root.join(".cueloop", "trust.jsonc")


def _project_path(root: Root) -> str:
    return root.join(".cueloop", "config.jsonc")


def _seen(root: Root, name: str) -> str:
    return shown(os.path.join(root.path, ".cueloop", name))


def _trust(reading: _Reading) -> bool:
    seen = _seen(reading.root, "trust.jsonc")
    document = reading.document(_trust_path(reading.root), seen, "The trust file")
    try:
        return document is not None and is_trusted(document)
    except RuleError as exc:
        raise _Refused(_broken_rule("The trust file", seen, exc)) from exc


def _config(reading: _Reading, *, trusted: bool) -> Config:
    root = reading.root
    try:
        own = _layer(reading, global_config_path(reading.caller), shown(global_config_path(reading.caller)))
        project = _layer(reading, _project_path(root), _seen(root, "config.jsonc"))
        if project is not None and not trusted:
            _require_no_trust(reading, project, own)
        layers = [layer for layer in (own, project) if layer is not None]
        config = resolve(layers)
    except ConfigError as exc:
        raise _Refused(_broken_rule("The config", exc.path, exc.rule)) from exc
    source = next((layer for layer in reversed(layers) if layer.get("agent", "instruction_files") is not None), None)
    if source is not None:
        _check_instructions(reading, config.agent.instruction_files or (), source.path)
    return config


def _layer(reading: _Reading, path: str, seen: str) -> Layer | None:
    document = reading.document(path, seen, "The config")
    return None if document is None else read_layer(seen, document)


def _require_no_trust(reading: _Reading, project: Layer, own: Layer | None) -> None:
    gated = gated_keys(project, own, _outside(reading, instruction_files(project)))
    if gated:
        trust = _seen(reading.root, "trust.jsonc")
        message = f"The config {project.path} sets {', '.join(gated)}, and this repository is not trusted."
        remedy = (
            f'Look at what it says, then trust it by {{"allow_project_commands": true}} in {trust}; or use the global config.'
        )
        raise _Refused(_incompatible(message, remedy, project.path))


def _outside(reading: _Reading, entries: tuple[str, ...]) -> set[str]:
    """The instruction files that are not in the repository once links are followed: one of them could be anybody's secret."""
    home = os.path.realpath(reading.root.base)
    places = {entry: expand(entry, reading.root, reading.caller).io for entry in entries}
    reading.inputs += places.values()
    return {entry for entry, path in places.items() if os.path.commonpath((home, os.path.realpath(path))) != home}


def _check_instructions(reading: _Reading, entries: tuple[str, ...], config_path: str) -> None:
    for position, entry in enumerate(entries):
        place = expand(entry, reading.root, reading.caller)
        key = f"agent.instruction_files[{position}]"
        try:
            data = reading.read(place.io)
        except OSError as exc:
            raise _Refused(_unreadable(f"The instruction file of {key} in {config_path},", place.shown, exc)) from exc
        if problem := _instruction_problem(data):
            message = f"{key} in {config_path}: the instruction file {place.shown} {problem}."
            raise _Refused(_incompatible(message, "Correct the file, or take it off the list.", config_path))


def _instruction_problem(data: bytes | None) -> str | None:
    if data is None:
        return "does not exist"
    if len(data) > INSTRUCTION_LIMIT:
        return f"is larger than {INSTRUCTION_LIMIT} bytes"
    try:
        return None if data.decode().strip() else "is blank"
    except UnicodeDecodeError:
        return "is no UTF-8 text"


def _paths(root: Root, caller: Caller, config: Config | None) -> Paths:
    queue, done = (DEFAULT_QUEUE, DEFAULT_DONE) if config is None else (config.queue.file, config.queue.done_file)
    return Paths(
        repo_root=shown(root.path),
        queue_path=expand(queue, root, caller).shown,
        done_path=expand(done, root, caller).shown,
        project_config_path=_seen(root, "config.jsonc"),
        global_config_path=shown(global_config_path(caller)),
    )


def _unreadable(what: str, seen: str, error: OSError) -> Unusable:
    if isinstance(error, PermissionError):
        remedy = f"Give yourself access to it, for example with chmod u+r {seen}."
        return Unusable("permission_denied", f"{what} {seen} cannot be read: permission denied.", remedy, seen)
    if isinstance(error, IsADirectoryError):
        return _incompatible(f"{what} {seen} is a folder.", "Move the folder away.", seen)
    return _incompatible(f"{what} {seen} cannot be read: {error.strerror or error}.", f"Look what {seen} is.", seen)


def _broken_rule(what: str, seen: str, rule: RuleError) -> Unusable:
    return _incompatible(f"{what} {seen} cannot be used: {rule.place} {rule.reason}.", rule.remedy, seen)


def _incompatible(message: str, detail: str, seen: str) -> Unusable:
    return Unusable("config_incompatible", message, detail, seen)
