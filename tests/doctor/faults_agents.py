"""Faults of the agents that the configuration uses, and how to mend them. Every program is played; none is really called."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

from doctor.fault import Fault
from doctor.lab import Lab


def _play(name: str, source: str) -> Callable[[Lab], None]:
    def make(lab: Lab) -> None:
        lab.asked["with_agents"] = True
        lab.changed["seconds"] = 5.0
        lab.play(name, source)

    return make


def _silent(lab: Lab) -> None:
    _play("pi", "#!/bin/sh\nexec /bin/sleep 600\n")(lab)
    lab.changed["seconds"] = 0.2


def _use(runner: str, **agent: object) -> Callable[[Lab], None]:
    """The person's configuration uses this runner for everything."""
    phases = {f"phase{number}": {"runner": runner, "model": None} for number in (1, 2, 3)}
    return lambda lab: lab.configure(agent={"runner": runner, "phase_overrides": phases, **agent})


def _kimi(version: str) -> Callable[[Lab], None]:
    def make(lab: Lab) -> None:
        _play("kimi", f"#!/bin/sh\necho 'kimi, version {version}'\n")(lab)
        _use("kimi")(lab)

    return make


def _cursor(lab: Lab) -> None:
    _play("node", "#!/bin/sh\necho v22.19.0\n")(lab)
    _use("cursor")(lab)


def _sdk(lab: Lab) -> None:
    folder = lab.world.folder / "lib/node_modules/@cursor/sdk"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"name": "@cursor/sdk", "version": "1.0.32"}))


def _old_node(lab: Lab) -> None:
    node = lab.play("node", '#!/bin/sh\ncase "$1" in --version) echo v20.1.0;; *) echo 1.6.0;; esac\n')
    _play("pi", f"#!{node}\n")(lab)


def _root(lab: Lab) -> None:
    lab.uid = 0
    lab.environ.pop("XDG_RUNTIME_DIR")
    _use("claude", claude_permission_mode="bypass_permissions")(lab)


def _without_git(lab: Lab) -> None:
    shutil.rmtree(lab.repository.path / ".git")
    _use("codex")(lab)


PI = _play("pi", "#!/bin/sh\necho 1.6.0\n")
FAULTS = (
    Fault(
        "missing", "agent-missing", lambda lab: (lab.bin / "pi").unlink(), PI, ("pi", "PATH", "npm install -g @earendil-works")
    ),
    Fault(
        "missing at its path",
        "agent-missing",
        lambda lab: lab.configure(agent={"pi_bin": "/opt/pi"}),
        lambda lab: lab.configure(),
        ("/opt/pi",),
    ),
    Fault("not executable", "agent-not-executable", lambda lab: (lab.bin / "pi").chmod(0o644), PI, ("chmod +x",)),
    Fault("no interpreter", "agent-broken", _play("pi", "#!/no/such/node\n"), PI, ("No such file",)),
    Fault(
        "fails", "agent-broken", _play("pi", "#!/bin/sh\necho broken module >&2\nexit 3\n"), PI, ("ends with 3", "broken module")
    ),
    Fault("silent", "agent-silent", _silent, PI, ("pi",)),
    Fault(
        "retired", "agent-retired", _kimi("1.52.0"), _kimi("2.1.0"), ("1.52.0", "notice", "npm install -g @moonshot-ai/kimi-code")
    ),
    Fault("untried", "agent-version-untried", _kimi("2.9.0"), _kimi("2.1.0"), ("2.9.0", "2.1.0")),
    Fault("unknown", "agent-unknown", _use("nobody"), _use("claude"), ("nobody", "claude, codex")),
    Fault(
        "refused",
        "agent-refused",
        _use("pi", runner_cli={"defaults": {"sandbox": "enabled", "unsupported_option_policy": "error"}}),
        _use("pi"),
        ("sandbox",),
    ),
    Fault("wants git", "agent-needs-git", _without_git, _use("claude"), ("codex", "git init")),
    Fault("root", "agent-refuses-root", _root, lambda lab: lab.environ.update(IS_SANDBOX="1"), ("root", "IS_SANDBOX")),
    Fault("Node", "node-too-old", _old_node, PI, ("22.19", "20.1.0")),
    Fault("SDK", "agent-sdk-missing", _cursor, _sdk, ("@cursor/sdk", "npm install @cursor/sdk")),
)
