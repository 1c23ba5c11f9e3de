"""Config, trust and instruction files on disk → what holds; what is said of files that cannot be used; what must be watched."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.core.model import Unusable
from cueloop_daemon.store.config_files import INSTRUCTION_LIMIT, ConfigState, load_config
from cueloop_protocol.documents.config import Config
from cueloop_protocol.roots import Caller, Root

TRUSTED = {".cueloop/trust.jsonc": '{"allow_project_commands": true}'}


class World:
    """A repository and a home on disk, read through a `ReadFile` that remembers, and that can be told to fail."""

    def __init__(self, folder: Path) -> None:
        self.repo, self.home = folder / "repo", folder / "home"
        self.repo.mkdir()
        self.home.mkdir()
        self.caller = Caller(str(self.home), None)
        self.failures: dict[str, OSError] = {}
        self.read_paths: list[str] = []

    def write(self, files: dict[str, Any], *, home: bool = False) -> World:
        for name, value in files.items():
            path = (self.home if home else self.repo) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(
                value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()
            )
        return self

    def project(self, config: Any) -> World:
        return self.write({".cueloop/config.jsonc": config})

    def own(self, config: Any) -> World:
        return self.write({".config/cueloop/config.jsonc": config}, home=True)

    def read(self, path: str) -> bytes | None:
        self.read_paths.append(path)
        if path in self.failures:
            raise self.failures[path]
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            return None

    def load(self, root: Root | None = None) -> ConfigState:
        return load_config(root or Root(str(self.repo), str(self.repo)), self.caller, self.read)

    def config(self) -> Config:
        found = self.load().config
        assert isinstance(found, Config), found
        return found

    def refusal(self, code: str = "config_incompatible") -> Unusable:
        found = self.load().config
        assert isinstance(found, Unusable)
        assert found.code == code
        return found

    def path(self, name: str) -> str:
        return str(self.repo / name)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path.resolve())


def test_nothing_there_gives_the_defaults(world: World) -> None:
    state = world.load()
    assert isinstance(state.config, Config)
    assert state.trusted is False
    assert state.paths.queue_path == world.path(".cueloop/queue.jsonc")
    assert state.paths.global_config_path == str(world.home / ".config/cueloop/config.jsonc")
    assert list(world.repo.iterdir()) == []


def test_the_project_wins_over_the_global_file(world: World) -> None:
    world.own({"agent": {"model": "g", "phases": 1}}).project({"agent": {"model": "p"}})
    assert (world.config().agent.model, world.config().agent.phases) == ("p", 1)


def test_the_callers_config_home_counts(world: World) -> None:
    world.write({"xdg/cueloop/config.jsonc": {"agent": {"model": "x"}}}, home=True)
    world.caller = Caller(str(world.home), str(world.home / "xdg"))
    assert world.config().agent.model == "x"


def test_a_repositorys_env_file_is_never_read(world: World) -> None:
    world.write({".env": f"XDG_CONFIG_HOME={world.repo}/evil\n", "evil/cueloop/config.jsonc": {"agent": {"model": "evil"}}})
    assert world.config().agent.model != "evil"
    assert not any("evil" in path or path.endswith(".env") for path in world.read_paths)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("tasks.jsonc", "{repo}/tasks.jsonc"),
        ("a/../b.jsonc", "{repo}/a/../b.jsonc"),
        ("~/q.jsonc", "{home}/q.jsonc"),
        ("/x/q.jsonc", "/x/q.jsonc"),
    ],
)
def test_paths_are_printed_as_joined(world: World, value: str, shown: str) -> None:
    world.project({"queue": {"file": value, "done_file": value}})
    wanted = shown.format(repo=world.repo, home=world.home)
    assert (world.load().paths.queue_path, world.load().paths.done_path) == (wanted, wanted)


def test_people_see_the_path_and_system_calls_get_the_base(world: World) -> None:
    world.project({"queue": {"file": "q.jsonc"}})
    state = world.load(Root("/long/path", str(world.repo)))
    assert state.paths.repo_root == "/long/path"
    assert state.paths.queue_path == "/long/path/q.jsonc"
    assert state.paths.project_config_path == "/long/path/.cueloop/config.jsonc"
    assert world.path(".cueloop/config.jsonc") in state.inputs
    assert not any(path.startswith("/long") for path in state.inputs)


BROKEN = [
    "",
    "// x",
    "null",
    "[]",
    '"x"',
    "{",
    "{}{}",
    '{"agent": {}, "agent": {}}',
    b"\xff\xfe{\0}\0",
    b'{"a": "\xb2"}',
    "[" * 9999,
]


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize("where", ["project", "global", "trust"])
def test_a_file_that_cannot_be_read_as_an_object_is_named(world: World, where: str, text: str | bytes) -> None:
    if where == "global":
        world.own(text)
    else:
        world.write({f".cueloop/{'config' if where == 'project' else 'trust'}.jsonc": text})
    found = world.refusal()
    assert found.path.endswith("trust.jsonc" if where == "trust" else "config.jsonc")
    assert found.path in found.message
    assert found.detail


def test_the_place_of_a_syntax_error_is_told(world: World) -> None:
    world.project('{\n  "agent": {"model" "m"}\n}')
    assert "line 2, column 21" in world.refusal().message


def test_a_bad_value_names_file_key_value_and_what_is_allowed(world: World) -> None:
    found = world.own({"agent": {"phases": 9}}).refusal()
    path = str(world.home / ".config/cueloop/config.jsonc")
    assert found == Unusable(
        "config_incompatible",
        f"The config {path} cannot be used: agent.phases is 9.",
        "Allowed: a whole number from 1 to 3.",
        path,
    )


def test_a_bad_trust_file_is_named_with_its_key(world: World) -> None:
    found = world.write({".cueloop/trust.jsonc": {"allow_project_commands": "yes"}}).refusal()
    assert found.message == f'The trust file {found.path} cannot be used: allow_project_commands is "yes".'
    assert (found.path, found.detail) == (world.path(".cueloop/trust.jsonc"), "Allowed: true or false.")
    assert world.load().trusted is False


def test_what_clashes_between_layers_is_told_of_the_file_that_did_it(world: World) -> None:
    world.write(TRUSTED).own({"agent": {"webhook": {"url": "ftp://x"}}}).project({"agent": {"webhook": {"enabled": True}}})
    assert "agent.webhook.url is no address of the web" in world.refusal().message


def test_an_unusable_config_leaves_default_paths_and_no_plugins(world: World) -> None:
    state = world.write(TRUSTED).project({"queue": {"file": "q"}, "x": 1}).load()
    assert state.paths.queue_path == world.path(".cueloop/queue.jsonc")
    assert state.trusted is True
    assert state.controls.diagnostics is None


FAILURES: list[tuple[OSError, str, str]] = [
    (PermissionError(13, "Permission denied"), "permission_denied", "permission denied"),
    (IsADirectoryError(21, "Is a directory"), "config_incompatible", "is a folder"),
    (OSError(5, "Input/output error"), "config_incompatible", "Input/output error"),
    (OSError("odd"), "config_incompatible", "odd"),
]


@pytest.mark.parametrize(("failure", "code", "words"), FAILURES)
@pytest.mark.parametrize("name", [".cueloop/config.jsonc", ".cueloop/trust.jsonc", "a.md"])
def test_a_file_without_access_is_told_from_a_broken_one(
    world: World, name: str, failure: OSError, code: str, words: str
) -> None:
    world.project({"agent": {"instruction_files": ["a.md"]}}).write({"a.md": "Be kind."})
    world.failures[world.path(name)] = failure
    found = world.refusal(code)
    assert words in found.message
    assert world.path(name) in found.message
    assert found.detail


def test_below_a_file_that_is_no_folder_there_is_nothing(world: World) -> None:
    world.failures[world.path(".cueloop/config.jsonc")] = NotADirectoryError(20, "Not a directory")
    assert world.config().agent.model == "openai-codex/gpt-5.4"


def test_a_real_folder_in_place_of_the_file(world: World) -> None:
    (world.repo / ".cueloop/config.jsonc").mkdir(parents=True)
    assert "is a folder" in world.refusal().message


def test_an_untrusted_project_is_refused_by_key_with_the_remedy(world: World) -> None:
    world.project({"agent": {"ci_gate": {"enabled": True}, "pi_bin": "x"}, "profiles": {"p": {"runner": "acme"}}})
    found = world.refusal()
    assert "agent.ci_gate, agent.pi_bin, profiles.p.runner" in found.message
    assert found.detail is not None
    assert world.path(".cueloop/trust.jsonc") in found.detail
    state = world.write(TRUSTED).load()
    assert (state.trusted, isinstance(state.config, Config)) == (True, True)


def test_trust_withdrawn_or_missing_is_no_trust(world: World) -> None:
    world.project({"agent": {"pi_bin": "x"}}).write({".cueloop/trust.jsonc": {"allow_project_commands": False}})
    world.refusal()


def test_the_global_file_needs_no_trust(world: World) -> None:
    world.own(
        {"agent": {"pi_bin": "x", "git_publish_mode": "commit", "webhook": {"enabled": True, "url": "https://example.com"}}}
    )
    assert world.config().agent.pi_bin == "x"


def test_a_project_may_not_redirect_a_webhook_that_the_user_enabled(world: World) -> None:
    world.project({"agent": {"webhook": {"url": "https://evil.example"}}})
    assert world.config().agent.webhook.url == "https://evil.example"
    world.own({"agent": {"webhook": {"enabled": True, "url": "https://mine.example"}}})
    assert "agent.webhook.url" in world.refusal().message


@pytest.mark.parametrize("entry", ["../home/i.md", "~/i.md", "{home}/i.md", "link.md", "folder/i.md"])
def test_instructions_from_outside_need_trust_also_by_a_link(world: World, entry: str) -> None:
    world.write({"i.md": "Be kind."}, home=True)
    (world.repo / "link.md").symlink_to(world.home / "i.md")
    (world.repo / "folder").symlink_to(world.home)
    world.project({"agent": {"instruction_files": [entry.format(home=world.home)]}})
    assert "agent.instruction_files[0]" in world.refusal().message
    assert world.write(TRUSTED).config().agent.instruction_files


@pytest.mark.parametrize("entry", ["a.md", "x/../a.md", "{repo}/a.md", "link.md"])
def test_instructions_from_inside_need_none(world: World, entry: str) -> None:
    world.write({"a.md": "Be kind.", "x/y": ""})
    (world.repo / "link.md").symlink_to("a.md")
    world.project({"agent": {"instruction_files": [entry.format(repo=world.repo)]}})
    assert world.config().agent.instruction_files


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "does not exist"),
        (" \n\t", "is blank"),
        (b"\xff", "is no UTF-8 text"),
        ("x" * (INSTRUCTION_LIMIT + 1), "is larger than 131072 bytes"),
    ],
)
def test_an_instruction_file_must_say_something(world: World, content: str | bytes | None, words: str) -> None:
    world.project({"agent": {"instruction_files": ["docs/ok.md", "docs/a.md"]}}).write({"docs/ok.md": "x" * INSTRUCTION_LIMIT})
    if content is not None:
        world.write({"docs/a.md": content})
    found = world.refusal()
    assert f"{world.path('docs/a.md')} {words}" in found.message
    assert "agent.instruction_files[1]" in found.message
    assert found.path == world.path(".cueloop/config.jsonc")


def test_the_list_that_holds_is_checked_and_its_file_is_named(world: World) -> None:
    world.own({"agent": {"instruction_files": ["gone.md"]}})
    assert world.refusal().path == str(world.home / ".config/cueloop/config.jsonc")
    assert world.project({"agent": {"instruction_files": []}}).config().agent.instruction_files == ()


def test_inputs_name_every_file_that_an_answer_depends_on(world: World) -> None:
    world.project({"agent": {"instruction_files": ["a.md", "b.md"]}}).write({"a.md": "x", **TRUSTED})
    (world.repo / ".cueloop/plugins/p").mkdir(parents=True)
    inputs = world.load().inputs
    expected = {
        world.path(".cueloop/trust.jsonc"),
        world.path(".cueloop/config.jsonc"),
        str(world.home / ".config/cueloop/config.jsonc"),
        world.path("a.md"),
        world.path("b.md"),
        str(world.home / ".config/cueloop/plugins"),
        world.path(".cueloop/plugins"),
        world.path(".cueloop/plugins/p/plugin.json"),
    }
    assert set(inputs) == expected
    assert len(inputs) == len(expected)
    assert set(world.read_paths) <= expected


def test_inputs_are_whole_even_if_the_first_file_is_bad(world: World) -> None:
    world.write({".cueloop/trust.jsonc": "{"})
    assert world.path(".cueloop/config.jsonc") in world.load().inputs


CHANGES: list[tuple[dict[str, Any], Callable[[World], object]]] = [
    ({".cueloop/config.jsonc": {"agent": {"model": "n"}}}, lambda world: world.config().agent.model),
    (TRUSTED, lambda world: world.load().trusted),
    ({".cueloop/config.jsonc": "{"}, lambda world: world.load().config),
]


@pytest.mark.parametrize(("files", "look"), CHANGES)
def test_each_load_looks_anew(world: World, files: dict[str, Any], look: Callable[[World], object]) -> None:
    before = look(world)
    assert look(world.write(files)) != before


def test_a_path_that_is_no_utf8_is_shown_with_a_mark(world: World) -> None:
    folder = os.fsdecode(os.fsencode(str(world.repo)) + b"/\xff")
    Path(folder).mkdir()
    state = world.load(Root(folder, folder))
    assert state.paths.repo_root == f"{world.repo}/\ufffd"
