"""The configuration's files, one by one: all that is wrong is told, not only what a run would meet first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from shlex import quote

from cueloop_daemon.core.layers import ConfigError, Layer, read_layer, resolve
from cueloop_daemon.core.model import Unusable
from cueloop_daemon.core.rules import RuleError
from cueloop_daemon.core.trust import gated_keys, instruction_files, is_trusted
from cueloop_daemon.doctor.kinds import found
from cueloop_daemon.doctor.sight import Sight
from cueloop_daemon.store.jsonc import JsoncError, read_json
from cueloop_daemon.store.plugins import find_plugins
from cueloop_daemon.store.settings import load_settings
from cueloop_daemon.workspace.files import read_regular
from cueloop_protocol.documents.doctor import Finding
from cueloop_protocol.roots import Caller, expand, global_config_path, shown


@dataclass(frozen=True, slots=True)
class _Broken:
    """A file that cannot be used: what is wrong in its own right, and what to do."""

    how: str
    """unreadable, not-json or invalid."""
    message: str
    fix: str | None = None


def config(sight: Sight) -> Iterator[Finding]:
    """Trust, global and project file; then what they make together."""
    trust_path, project_path = sight.seen(".cueloop", "trust.jsonc"), sight.seen(".cueloop", "config.jsonc")
    global_io = global_config_path(sight.caller)
    trust = _read(sight.root.join(".cueloop", "trust.jsonc"), trust_path, is_trusted) if sight.is_open else None
    own = _read(global_io, shown(global_io), lambda value: read_layer(shown(global_io), value))
    project = (
        None
        if not sight.is_open
        else _read(sight.root.join(".cueloop", "config.jsonc"), project_path, lambda value: read_layer(project_path, value))
    )
    if isinstance(trust, _Broken):
        yield found("trust-unusable", trust.message, path=trust_path)
    if isinstance(own, _Broken):
        yield found("global-config-unusable", own.message, fix=own.fix, path=shown(global_io))
    if isinstance(project, _Broken):
        yield found(f"config-{project.how}", project.message, fix=project.fix, path=project_path)
    if not any(isinstance(part, _Broken) for part in (trust, own, project)):
        layers = (own if isinstance(own, Layer) else None, project if isinstance(project, Layer) else None)
        yield from _together(sight, *layers, trusted=trust is True)


def _together(sight: Sight, own: Layer | None, project: Layer | None, *, trusted: bool) -> Iterator[Finding]:
    unusable = sight.facts.config
    if not isinstance(unusable, Unusable) or not sight.is_open:
        return
    if project is not None and not trusted:
        gated = gated_keys(project, own, _outside(sight, project))
        if gated:
            message = f"The repository is not trusted, so what {project.path} says of {', '.join(gated)} is refused."
            yield found("project-not-trusted", message, path=project.path)
            return
    try:
        resolve([layer for layer in (own, project) if layer is not None])
    except ConfigError as exc:
        fix = f"{exc.rule.remedy} Correct {exc.path}."
        yield found("config-invalid", f"{exc.path}: {exc.rule.place} {exc.rule.reason}.", fix=fix, path=exc.path)
        return
    yield found("instruction-file-unusable", unusable.message, path=unusable.path)


def _outside(sight: Sight, project: Layer) -> set[str]:
    """The project's instruction files that lie outside the repository once links are followed."""
    home = os.path.realpath(sight.root.base)
    places = {entry: expand(entry, sight.root, sight.caller).io for entry in instruction_files(project)}
    return {entry for entry, path in places.items() if os.path.commonpath((home, os.path.realpath(path))) != home}


def _read(path: str, seen: str, read: Callable[[object], object]) -> object:
    """What `read` makes of the file's value, None where there is no file, _Broken where it cannot be used."""
    try:
        data, _ = read_regular(path)
        return None if data is None else read(read_json(data))
    except PermissionError:
        return _Broken("unreadable", f"{seen} cannot be read: permission denied.", f"chmod u+r {quote(seen)}")
    except OSError as exc:
        return _Broken("unreadable", f"{seen} cannot be read: {exc.strerror or exc}.")
    except JsoncError as exc:
        fix = f"Correct line {exc.line}, column {exc.column} of {seen}."
        return _Broken("not-json", f"{seen} cannot be read: {exc.reason} (line {exc.line}, column {exc.column}).", fix)
    except ConfigError as exc:
        return _broken_rule(seen, exc.rule)
    except RuleError as exc:
        return _broken_rule(seen, exc)


def _broken_rule(seen: str, rule: RuleError) -> _Broken:
    return _Broken("invalid", f"{seen}: {rule.place} {rule.reason}.", f"{rule.remedy} Correct {seen}.")


def plugins(sight: Sight) -> Iterator[Finding]:
    """Broken, conflicting and missing plugins."""
    for diagnostic in sight.facts.controls.diagnostics or ():
        code = "plugin-conflict" if diagnostic.code == "plugin_runner_id_conflict" else "plugin-broken"
        yield found(code, f"{diagnostic.message} {diagnostic.detail or ''}".strip())
    if sight.config is None:
        return
    there = find_plugins(sight.root, sight.caller, lambda path: read_regular(path)[0], trusted=sight.facts.trusted).plugins
    if not isinstance(there, tuple):
        return
    ids = {plugin.id for plugin in there}
    for name, setting in sight.config.plugins.plugins.items():
        if setting.enabled and name not in ids:
            yield found("plugin-missing", f"The plugin {name} is enabled in the configuration and is not installed.")


def settings(sight: Sight) -> Iterator[Finding]:
    """The daemon's own settings, which are those of the user's home whatever the environment says."""
    state = load_settings(Caller(sight.passwd_home, None), lambda path: read_regular(path)[0])
    if isinstance(unusable := state.settings, Unusable):
        yield found("settings-unusable", unusable.message, fix=unusable.detail, path=unusable.path)
