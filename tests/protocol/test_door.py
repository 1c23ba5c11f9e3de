"""The package's door: every name is there, and what is standard library only stays so."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cueloop_protocol

FAST = ("framing", "codes", "cursor", "error_words")


@pytest.mark.parametrize("name", cueloop_protocol.__all__)
def test_every_name_of_the_door_opens(name: str) -> None:
    assert getattr(cueloop_protocol, name) is not None
    assert name in dir(cueloop_protocol)


def test_the_table_and_the_list_agree() -> None:
    assert sorted(cueloop_protocol._MODULE_OF) == sorted(cueloop_protocol.__all__)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = cueloop_protocol.nothing  # type: ignore[attr-defined]  # that is the point


@pytest.mark.parametrize("module", FAST)
def test_the_fast_path_loads_the_standard_library_alone(module: str) -> None:
    code = f"import sys, cueloop_protocol.{module}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=30)
    loaded = set(done.stdout.split())
    assert f"cueloop_protocol.{module}" in loaded
    ours = {name for name in loaded if name.startswith("cueloop_")}
    assert ours <= {"cueloop_protocol", *(f"cueloop_protocol.{name}" for name in FAST)}
    assert not loaded & {"pydantic", "pydantic_core", "anyio", "typing", "dataclasses", "inspect"} - baseline()


def baseline() -> set[str]:
    """What an interpreter of this environment has loaded before it does anything."""
    code = "import sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=30)
    return set(done.stdout.split())
