"""Our own settings: defaults, every key's limits, and errors that name file, key and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.core.model import Unusable
from cueloop_daemon.store.settings import FIELDS, Settings, load_settings, parse_settings
from cueloop_protocol.base import dump
from cueloop_protocol.roots import Caller

DEFAULTS: dict[str, Any] = {
    "idle_exit_minutes": 30,
    "agent_idle_minutes": 15,
    "agent_wall_minutes": 0,
    "question_minutes": 60,
    "max_connections": 2048,
    "run_output_limit_mib": 256,
    "event_log_limit_mib": 64,
    "run_history_limit": 200,
    "log_level": "info",
    "log_limit_mib": 16,
    "fleet": None,
}


def parsed(text: str) -> Settings:
    found = parse_settings(text.encode(), "/h/cueloopd.jsonc")
    assert isinstance(found, Settings), found
    return found


def refused(text: str) -> Unusable:
    found = parse_settings(text.encode(), "/h/cueloopd.jsonc")
    assert isinstance(found, Unusable)
    assert (found.code, found.path) == ("config_incompatible", "/h/cueloopd.jsonc")
    assert "/h/cueloopd.jsonc" in found.message
    return found


def test_the_defaults_are_the_contracts() -> None:
    assert dump(parsed("{}")) == DEFAULTS
    assert list(FIELDS) == list(DEFAULTS) == list(Settings.model_fields)


def test_what_is_set_is_set_and_null_is_not() -> None:
    found = parsed(
        '{"$schema": "x", "idle_exit_minutes": 0, "log_level": "debug", "log_limit_mib": null, /* c */ "fleet": {"a": [1]},}'
    )
    assert dump(found) == {**DEFAULTS, "idle_exit_minutes": 0, "log_level": "debug", "fleet": {"a": [1]}}


@pytest.mark.parametrize("key", [key for key in DEFAULTS if key != "fleet"])
@pytest.mark.parametrize("value", ["-1", "true", '"x"', "1.5", "[]", str(2**32)])
def test_a_bad_value_is_named_with_its_key(key: str, value: str) -> None:
    found = refused(f'{{"{key}": {value}}}')
    assert f": {key} is {value}." in found.message
    assert found.detail is not None
    assert found.detail.startswith("Allowed: ")


@pytest.mark.parametrize(
    "key", ["max_connections", "run_output_limit_mib", "event_log_limit_mib", "run_history_limit", "log_limit_mib"]
)
def test_a_limit_of_nothing_is_refused(key: str) -> None:
    refused(f'{{"{key}": 0}}')
    assert dump(parsed(f'{{"{key}": 1}}'))[key] == 1


def test_an_unknown_key_is_named_with_its_neighbour() -> None:
    found = refused('{"idle_exit_minute": 1}')
    assert "idle_exit_minute is no known key (did you mean idle_exit_minutes?)" in found.message
    assert found.detail == f"Allowed: {', '.join(FIELDS)}."


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '{"fleet": 1, "fleet": 2}'])
def test_what_is_no_object_is_refused(text: str) -> None:
    refused(text)


def test_the_file_lies_beside_the_global_config(tmp_path: Path) -> None:
    file = tmp_path / ".config/cueloop/cueloopd.jsonc"
    state = load_settings(Caller(str(tmp_path), None), lambda path: b'{"log_limit_mib": 1}' if path == str(file) else None)
    assert state.path == str(file)
    assert isinstance(state.settings, Settings)
    assert state.settings.log_limit_mib == 1


def test_without_a_file_the_defaults_hold() -> None:
    def not_a_folder(path: str) -> bytes | None:
        raise NotADirectoryError(20, "Not a directory", path)

    assert load_settings(Caller("/h", None), lambda path: None).settings == Settings()
    assert load_settings(Caller("/h", None), not_a_folder).settings == Settings()


@pytest.mark.parametrize(
    ("failure", "code", "words"),
    [
        (PermissionError(13, "Permission denied"), "permission_denied", "permission denied"),
        (OSError(5, "Input/output error"), "config_incompatible", "Input/output error"),
        (OSError("odd"), "config_incompatible", "odd"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(failure: OSError, code: str, words: str) -> None:
    def fail(path: str) -> bytes | None:
        raise failure

    found = load_settings(Caller("/h", "/c"), fail).settings
    assert isinstance(found, Unusable)
    assert (found.code, found.path) == (code, "/c/cueloop/cueloopd.jsonc")
    assert words in found.message
