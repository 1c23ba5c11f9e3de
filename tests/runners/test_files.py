"""What is looked for on disk: pi's session files, and the manifests of plugins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cueloop_daemon.runners import Conversation, PluginFacts, plugin_runners
from cueloop_protocol.documents.config import Config, Plugins, PluginSetting
from cueloop_protocol.roots import Caller, Root
from decision_world import config
from runners.streams import UUID, built_in


def keep(folder: Path, id_: str = UUID, stamp: str = "2026-11-01T10-00-00-000Z") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{stamp}_{id_}.jsonl"
    file.write_text("{}\n")
    return str(file)


def located(home: Path, cwd: str = "/r/my.repo", **env: str) -> str | None:
    found = built_in("pi").locate(Conversation(UUID), cwd, {"HOME": str(home), **env})
    return found.file if found else None


def test_pi_s_file_is_found_where_pi_keeps_it(tmp_path: Path) -> None:
    assert located(tmp_path) is None
    elsewhere = keep(tmp_path / ".pi/agent/sessions/--other--")
    assert located(tmp_path) == elsewhere, "it works from any folder"
    own = keep(tmp_path / ".pi/agent/sessions/--r-my.repo--")
    assert located(tmp_path) == own
    newer = keep(tmp_path / ".pi/agent/sessions/--r-my.repo--", stamp="2026-11-02T10-00-00-000Z")
    assert located(tmp_path) == newer
    assert located(tmp_path, "/r/another") in (elsewhere, own, newer)


@pytest.mark.parametrize("as_home", [True, False])
def test_pi_s_own_variables(tmp_path: Path, as_home: bool) -> None:
    shown = "~/pi" if as_home else str(tmp_path / "pi")
    file = keep(tmp_path / "pi/sessions/--r--")
    assert located(tmp_path, "/r", PI_CODING_AGENT_DIR=shown) == file
    flat = keep(tmp_path / "flat")
    assert located(tmp_path, "/r", PI_CODING_AGENT_SESSION_DIR=str(tmp_path / "flat")) == flat


def test_what_is_no_session_file(tmp_path: Path) -> None:
    folder = tmp_path / ".pi/agent/sessions/--r--"
    (folder / f"x_{UUID}.jsonl").mkdir(parents=True)
    (folder / f"x_{UUID}.json").write_text("")
    (folder / "x_other.jsonl").write_text("")
    (tmp_path / ".pi/agent/sessions/file").write_text("")
    assert located(tmp_path, "/r") is None
    assert built_in("pi").locate(Conversation(UUID), "/r", {}) is None
    assert built_in("pi").locate(Conversation(UUID), "/r", {"HOME": "relative"}) is None


def test_the_located_conversation_is_otherwise_the_same(tmp_path: Path) -> None:
    file = keep(tmp_path / ".pi/agent/sessions/--r--")
    found = built_in("pi").locate(Conversation(UUID, is_ours=True), "/r", {"HOME": str(tmp_path)})
    assert found == Conversation(UUID, is_ours=True, file=file)


def read(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None


def enabled(**settings: bool) -> Config:
    plugins = {id_: PluginSetting(enabled=is_on, config={"key": id_}) for id_, is_on in settings.items()}
    return config().model_copy(update={"plugins": Plugins(plugins=plugins)})


def manifest(folder: Path, id_: str, **runner: object) -> None:
    folder.mkdir(parents=True)
    doc = {"api_version": 1, "id": id_, "version": "1", "name": id_, **({"runner": runner} if runner else {})}
    (folder / "plugin.json").write_text(json.dumps(doc))


@pytest.fixture
def world(tmp_path: Path) -> tuple[Root, Caller, Path, Path]:
    root, home = tmp_path / "repo", tmp_path / "home"
    root.mkdir()
    own, project = home / ".config/cueloop/plugins", root / ".cueloop/plugins"
    manifest(own / "a", "mine", bin="bin/run", supports_resume=True, default_model="m1")
    manifest(own / "b", "off", bin="run")
    manifest(own / "c", "no-runner")
    manifest(own / "d", "Claude", bin="run")
    manifest(project / "a", "theirs", bin="run")
    return Root(str(root), str(root)), Caller(str(home), None), own, project


ALL = enabled(mine=True, off=False, theirs=True, Claude=True, **{"no-runner": True})


def test_enabled_plugins_with_a_runner(world: tuple[Root, Caller, Path, Path]) -> None:
    root, caller, own, project = world
    assert plugin_runners(root, caller, ALL, read, trusted=True) == {
        "mine": PluginFacts("mine", f"{own}/a/bin/run", True, "m1", '{"key": "mine"}'),
        "theirs": PluginFacts("theirs", f"{project}/a/run", False, None, '{"key": "theirs"}'),
    }
    assert set(plugin_runners(root, caller, ALL, read, trusted=False)) == {"mine"}
    assert plugin_runners(root, caller, config(), read, trusted=True) == {}


def test_a_project_s_plugin_replaces_the_caller_s(world: tuple[Root, Caller, Path, Path]) -> None:
    root, caller, _, project = world
    manifest(project / "z", "mine", bin="mine2")
    assert plugin_runners(root, caller, ALL, read, trusted=True)["mine"].bin == f"{project}/z/mine2"
    assert plugin_runners(root, caller, ALL, read, trusted=False)["mine"].supports_resume


def test_a_project_s_plugin_without_a_runner_leaves_none(world: tuple[Root, Caller, Path, Path]) -> None:
    root, caller, _, project = world
    manifest(project / "z", "mine")
    assert "mine" not in plugin_runners(root, caller, ALL, read, trusted=True)


def test_the_program_s_path_is_the_shown_one(world: tuple[Root, Caller, Path, Path], tmp_path: Path) -> None:
    root, caller, _, _ = world
    base = tmp_path / "descriptor"
    base.symlink_to(root.path)
    found = plugin_runners(Root(root.path, str(base)), caller, ALL, read, trusted=True)
    assert found["theirs"].bin == f"{root.path}/.cueloop/plugins/a/run"


def test_one_broken_manifest_leaves_none_as_the_controls_say(world: tuple[Root, Caller, Path, Path]) -> None:
    root, caller, own, _ = world
    (own / "c/plugin.json").write_text("{")
    assert plugin_runners(root, caller, ALL, read, trusted=True) == {}


def test_a_manifest_that_goes_while_it_is_read(world: tuple[Root, Caller, Path, Path]) -> None:
    root, caller, own, _ = world
    seen: set[str] = set()

    def once(path: str) -> bytes | None:
        is_again = path in seen
        seen.add(path)
        if is_again and path.startswith(str(own / "a")):
            raise PermissionError(path)
        return read(path)

    assert set(plugin_runners(root, caller, ALL, once, trusted=True)) == {"theirs"}


def test_a_session_of_the_older_kimi_is_looked_for_where_it_keeps_them(tmp_path: Path) -> None:
    old, new = built_in("kimi").with_version("1.51.0"), built_in("kimi")
    ours, env = Conversation("RQ-0001-p2-1704153600", is_ours=True), {"HOME": str(tmp_path)}
    assert old.locate(ours, "/r", env) == ours, "nothing is known of a kimi without a folder"
    (tmp_path / ".kimi").mkdir()
    assert old.locate(ours, "/r", env) is None
    (tmp_path / ".kimi/sessions/0a1b/RQ-0001-p2-1704153600").mkdir(parents=True)
    assert old.locate(ours, "/r", env) == ours
    assert old.locate(ours, "/r", env | {"KIMI_SHARE_DIR": str(tmp_path / "other")}) == ours
    (tmp_path / "other").mkdir()
    assert old.locate(ours, "/r", env | {"KIMI_SHARE_DIR": str(tmp_path / "other")}) is None
    assert new.locate(Conversation("session_1"), "/r", env) == Conversation("session_1")
