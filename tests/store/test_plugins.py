"""Plugin folders: whose, in which order, what a manifest may say, and that one broken manifest spoils all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.core.controls import BrokenPlugins, Plugin, PluginRunner
from cueloop_daemon.store.plugins import FoundPlugins, find_plugins
from cueloop_protocol.roots import Caller, Root

GOOD: dict[str, Any] = {"api_version": 1, "id": "acme", "version": "1.0.0", "name": "Acme", "runner": {"bin": "run.sh"}}


class World:
    def __init__(self, folder: Path) -> None:
        self.repo, self.home = folder / "repo", folder / "home"
        self.own, self.project = self.home / ".config/cueloop/plugins", self.repo / ".cueloop/plugins"
        self.failures: dict[str, OSError] = {}
        self.read_paths: list[str] = []

    def add(self, folder: Path, name: str, manifest: Any) -> World:
        path = folder / name / "plugin.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(manifest if isinstance(manifest, str) else json.dumps(manifest))
        return self

    def read(self, path: str) -> bytes | None:
        self.read_paths.append(path)
        if path in self.failures:
            raise self.failures[path]
        return Path(path).read_bytes() if Path(path).exists() else None

    def find(self, *, trusted: bool = True, config_home: str | None = None) -> FoundPlugins:
        root, caller = Root("/seen", str(self.repo)), Caller(str(self.home), config_home)
        return find_plugins(root, caller, self.read, trusted=trusted)

    def plugins(self, *, trusted: bool = True) -> tuple[Plugin, ...]:
        found = self.find(trusted=trusted).plugins
        assert isinstance(found, tuple), found
        return found

    def broken(self) -> str:
        found = self.find().plugins
        assert isinstance(found, BrokenPlugins), found
        return found.detail


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_no_folders_no_plugins(world: World) -> None:
    assert world.find() == FoundPlugins((), (str(world.own), str(world.project)))


def test_both_folders_are_read_in_a_trusted_repository(world: World) -> None:
    world.add(world.own, "b", GOOD).add(world.project, "a", {**GOOD, "id": "other", "runner": {"bin": "x", "default_model": "m"}})
    assert world.plugins() == (
        Plugin("acme", "Acme", "global_plugin", PluginRunner(None)),
        Plugin("other", "Acme", "project_plugin", PluginRunner("m")),
    )


def test_a_project_plugin_replaces_a_global_one_of_the_same_id(world: World) -> None:
    world.add(world.own, "a", GOOD).add(world.project, "x", {**GOOD, "name": "Mine", "runner": None})
    assert world.plugins() == (Plugin("acme", "Mine", "project_plugin", None),)


def test_an_untrusted_repositorys_plugins_are_not_even_looked_at(world: World) -> None:
    world.add(world.own, "a", GOOD).add(world.project, "a", "{")
    assert [plugin.source for plugin in world.plugins(trusted=False)] == ["global_plugin"]
    found = world.find(trusted=False)
    assert found.inputs == (str(world.own), str(world.own / "a/plugin.json"))
    assert not any(str(world.repo) in path for path in world.read_paths)


def test_the_global_folder_does_not_follow_the_config_home(world: World) -> None:
    world.add(world.own, "a", GOOD)
    assert len(world.find(config_home="/elsewhere").plugins) == 1  # type: ignore[arg-type] # a tuple, since nothing is broken


def test_folders_without_a_manifest_and_files_are_passed_over(world: World) -> None:
    (world.own / "empty").mkdir(parents=True)
    (world.own / "file").write_text("x")
    world.add(world.own, "z", GOOD)
    (world.own / "link").symlink_to(world.own / "z")
    found = world.find()
    assert isinstance(found.plugins, tuple)
    assert [plugin.id for plugin in found.plugins] == ["acme", "acme"]
    assert [Path(path).parent.name for path in found.inputs if path.endswith("plugin.json")] == ["empty", "link", "z"]


def test_a_file_in_place_of_the_folder_is_no_plugin(world: World) -> None:
    world.own.parent.mkdir(parents=True)
    world.own.write_text("x")
    assert world.plugins() == ()


MANIFESTS: list[dict[str, Any]] = [
    {"description": "d"},
    {"description": None, "processors": None},
    {"runner": {"bin": "bin/run", "supports_resume": True, "default_model": None}},
    {"processors": {"bin": "p", "hooks": ["validate_task", "pre_prompt", "post_run"]}},
    {"processors": {"bin": "p", "hooks": []}},
    {"version": "", "name": ""},
]


@pytest.mark.parametrize("change", MANIFESTS)
def test_a_good_manifest(world: World, change: dict[str, Any]) -> None:
    assert len(world.add(world.own, "a", {**GOOD, **change}).plugins()) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"api_version": 2}, "api_version: is 2; allowed: 1"),
        ({"api_version": None}, "api_version: is missing"),
        ({"id": " "}, "id: "),
        ({"id": "a/b"}, "id: "),
        ({"id": "a\\b"}, "id: "),
        ({"id": 1}, "id: "),
        ({"version": None}, "version: is missing"),
        ({"name": 1}, "name: "),
        ({"x": 1}, "x: is no known key"),
        ({"$schema": "x"}, "$schema: is no known key"),
        ({"runner": {}}, "runner.bin: is missing"),
        ({"runner": {"bin": ""}}, "runner.bin: "),
        ({"runner": {"bin": "/bin/sh"}}, "runner.bin: "),
        ({"runner": {"bin": "../x"}}, "runner.bin: "),
        ({"runner": {"bin": "x", "supports_resume": 1}}, "runner.supports_resume: "),
        ({"runner": {"bin": "x", "y": 1}}, "runner.y: "),
        ({"runner": []}, "runner: "),
        ({"processors": {"bin": "x"}}, "processors.hooks: is missing"),
        ({"processors": {"bin": "../x", "hooks": []}}, "processors.bin: "),
        ({"processors": {"bin": "x", "hooks": ["boom"]}}, 'processors.hooks[0]: is "boom"'),
    ],
)
def test_a_bad_manifest_is_named_with_its_key(world: World, change: dict[str, Any], words: str) -> None:
    detail = world.add(world.own, "good", {**GOOD, "id": "fine"}).add(world.own, "a", {**GOOD, **change}).broken()
    assert detail.startswith(f"{world.own}/a/plugin.json: {words}")


@pytest.mark.parametrize("text", ["{", "", "// c\n{}", "[]", '{"api_version": 1, "api_version": 1}', '{"api_version": 1,}'])
def test_a_manifest_is_strict_json(world: World, text: str) -> None:
    assert f"{world.own}/a/plugin.json" in world.add(world.own, "a", text).broken()


def test_the_first_of_several_is_named_by_the_path_that_people_see(world: World) -> None:
    world.add(world.project, "b", "{").add(world.project, "a", "{")
    assert world.broken().startswith("/seen/.cueloop/plugins/a/plugin.json: ")
    assert len(world.find().inputs) == 4


def test_what_cannot_be_read_is_named(world: World) -> None:
    world.add(world.own, "a", GOOD)
    world.failures[str(world.own / "a/plugin.json")] = PermissionError(13, "Permission denied")
    assert world.broken() == f"{world.own}/a/plugin.json cannot be read: Permission denied."


def test_a_folder_that_cannot_be_listed_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> object:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("cueloop_daemon.store.plugins.os.scandir", refuse)
    assert world.broken() == f"{world.own} cannot be listed: Permission denied."
