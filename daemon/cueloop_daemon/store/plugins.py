"""Which plugins there are: folders with a `plugin.json`, the caller's and, where trusted, the project's (contract section 5)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Literal

from cueloop_daemon.core.controls import BrokenPlugins, Plugin, PluginRunner, Plugins
from cueloop_daemon.core.layers import dig
from cueloop_daemon.core.rules import Key, Rule, RuleError, boolean, integer, items, one_of, refused, table, text, words
from cueloop_daemon.store.jsonc import JsoncError, read_strict_json
from cueloop_protocol.roots import Caller, Root, shown
from cueloop_protocol.values import dataclass

ReadFile = Callable[[str], bytes | None]
"""The bytes of a file for its path; None if there is none; OSError for everything else."""

Source = Literal["global_plugin", "project_plugin"]


@dataclass(frozen=True, slots=True)
class FoundPlugins:
    """The plugins, and every path that must be as it was for them to be current (missing ones too)."""

    plugins: Plugins
    inputs: tuple[str, ...]


def plugin_id(value: object, key: Key) -> object:
    """An id that is no path."""
    found = str(words(value, key))
    if "/" in found or "\\" in found:
        raise refused(value, key, "an id without / and \\")
    return found


def plugin_program(value: object, key: Key) -> object:
    """A program inside the plugin's folder."""
    path = PurePosixPath(str(words(value, key)))
    if path.is_absolute() or ".." in path.parts:
        raise refused(value, key, "a path inside the plugin's folder")
    return value


MANIFEST: Rule = table(
    {
        "api_version": integer(1, 1),
        "id": plugin_id,
        "version": text,
        "name": text,
        "description": text,
        "runner": table({"bin": plugin_program, "supports_resume": boolean, "default_model": text}, required=("bin",)),
        "processors": table(
            {"bin": plugin_program, "hooks": items(one_of("validate_task", "pre_prompt", "post_run"))},
            required=("bin", "hooks"),
        ),
    },
    required=("api_version", "id", "version", "name"),
)


def find_plugins(root: Root, caller: Caller, read: ReadFile, *, trusted: bool) -> FoundPlugins:
    """All plugins by id; a project's replaces a global one of the same id. One that cannot be read makes all of them unusable.

    The folder of the global ones does not follow `XDG_CONFIG_HOME`, as in the other tools. Never raises for what the files are.
    """
    folders: list[tuple[Source, str, str]] = []
    own = os.path.join(caller.home, ".config", "cueloop", "plugins")
    folders.append(("global_plugin", own, own))
    if trusted:
        parts = (".cueloop", "plugins")
        folders.append(("project_plugin", root.join(*parts), os.path.join(root.path, *parts)))
    inputs: list[str] = []
    found: list[Plugin] = []
    broken: str | None = None
    for source, folder, seen in folders:
        inputs.append(folder)
        try:
            names = _names(folder)
        except OSError as exc:
            broken = broken or f"{shown(seen)} cannot be listed: {exc.strerror}."
            continue
        for name in names:
            path = os.path.join(folder, name, "plugin.json")
            inputs.append(path)
            try:
                data = read(path)
                found += [] if data is None else [_plugin(data, source)]
            except OSError as exc:
                broken = broken or f"{_manifest(seen, name)} cannot be read: {exc.strerror}."
            except (JsoncError, RuleError) as exc:
                broken = broken or f"{_manifest(seen, name)}: {exc}."
    return FoundPlugins(BrokenPlugins(broken) if broken else _replaced(found), tuple(inputs))


def _names(folder: str) -> list[str]:
    """The folders in a folder, in order; none where it does not exist or is no folder itself."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _manifest(folder: str, name: str) -> str:
    return shown(os.path.join(folder, name, "plugin.json"))


def _plugin(data: bytes, source: Source) -> Plugin:
    values = MANIFEST(read_strict_json(data), ())
    model = dig(values, "runner", "default_model")
    return Plugin(
        id=str(dig(values, "id")),
        name=str(dig(values, "name")),
        source=source,
        runner=None if dig(values, "runner") is None else PluginRunner(None if model is None else str(model)),
    )


def _replaced(found: list[Plugin]) -> tuple[Plugin, ...]:
    own = {plugin.id for plugin in found if plugin.source == "project_plugin"}
    return tuple(plugin for plugin in found if plugin.source == "project_plugin" or plugin.id not in own)
