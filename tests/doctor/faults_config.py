"""Faults of the configuration, and how to mend them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from doctor.fault import Act, Fault
from doctor.lab import Lab


def _put_config(text: str) -> Act:
    return lambda lab: lab.repository.config.write_text(text)


def _no_config(lab: Lab) -> None:
    lab.repository.config.unlink()


def _trust(lab: Lab) -> None:
    (lab.repository.folder / "trust.jsonc").write_text('{"allow_project_commands": true}')


def _plugin(lab: Lab, text: str) -> Path:
    folder = lab.world.home / ".config/cueloop/plugins/one"
    folder.mkdir(parents=True)
    (folder / "plugin.json").write_text(text)
    return folder


def _conflict(lab: Lab) -> None:
    manifest = {"api_version": 1, "id": "Claude", "version": "1", "name": "Mine", "runner": {"bin": "run"}}
    _plugin(lab, json.dumps(manifest))
    lab.configure(plugins={"plugins": {"Claude": {"enabled": True}}})


def _settings(lab: Lab, text: str) -> Path:
    path = lab.world.home / ".config/cueloop/cueloopd.jsonc"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


FAULTS = (
    Fault("not JSON", "config-not-json", _put_config('{"agent": {"phases" 2}}'), _no_config, ("line 1", "config.jsonc")),
    Fault("unknown key", "config-invalid", _put_config('{"agent": {"phase": 2}}'), _no_config, ("agent.phase",)),
    Fault("wrong value", "config-invalid", _put_config('{"agent": {"phases": 4}}'), _no_config, ("agent.phases", "4", "1 to 3")),
    Fault(
        "contradiction",
        "config-invalid",
        lambda lab: (_trust(lab), lab.repository.config.write_text('{"agent": {"webhook": {"enabled": true}}}')),
        _no_config,
        ("agent.webhook.url",),
    ),
    Fault(
        "no access",
        "config-unreadable",
        lambda lab: (lab.repository.config.write_text("{}"), lab.repository.config.chmod(0)),
        lambda lab: lab.repository.config.chmod(0o644),
        ("chmod u+r",),
        is_command=True,
    ),
    Fault(
        "global",
        "global-config-unusable",
        lambda lab: lab.configure(agent={"iterations": 0}),
        lambda lab: lab.configure(),
        ("agent.iterations",),
    ),
    Fault(
        "trust",
        "trust-unusable",
        lambda lab: (lab.repository.folder / "trust.jsonc").write_text('{"allow_project_commands": 1}'),
        _trust,
        ("allow_project_commands",),
    ),
    Fault(
        "untrusted",
        "project-not-trusted",
        _put_config('{"agent": {"ci_gate": {"enabled": true}}}'),
        _trust,
        ("agent.ci_gate", "trust.jsonc"),
    ),
    Fault(
        "instructions",
        "instruction-file-unusable",
        _put_config('{"agent": {"instruction_files": ["AGENTS.md"]}}'),
        lambda lab: (lab.repository.path / "AGENTS.md").write_text("Be kind."),
        ("AGENTS.md", "does not exist"),
    ),
    Fault(
        "plugin",
        "plugin-broken",
        lambda lab: _plugin(lab, '{"api_version": 2, "id": "one", "version": "1", "name": "One"}'),
        lambda lab: shutil.rmtree(lab.world.home / ".config/cueloop/plugins"),
        ("plugin.json", "api_version"),
    ),
    Fault("plugin's id", "plugin-conflict", _conflict, lambda lab: lab.configure(), ("Claude",)),
    Fault(
        "plugin gone",
        "plugin-missing",
        lambda lab: lab.configure(plugins={"plugins": {"two": {"enabled": True}}}),
        lambda lab: lab.configure(),
        ("two",),
    ),
    Fault(
        "settings",
        "settings-unusable",
        lambda lab: _settings(lab, '{"idle_exit_minutes": "x"}'),
        lambda lab: _settings(lab, "{}"),
        ("idle_exit_minutes", "cueloopd.jsonc"),
    ),
)
