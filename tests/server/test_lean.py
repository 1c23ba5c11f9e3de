"""Parts of a package without its door, and that the daemon's dispatcher stays without the library's heavy parts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cueloop_daemon.server.lean import without_door


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package whose door sets a mark and takes a name from one of its two modules."""
    name = "leanly_imported"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("from .part import VALUE\nOPENED = True\n")
    (folder / "part.py").write_text("VALUE = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    for loaded in [module for module in sys.modules if module.split(".")[0] == name]:
        del sys.modules[loaded]


def test_a_module_is_imported_and_the_door_is_not(package: str) -> None:
    with without_door(package):
        part = __import__(f"{package}.part", fromlist=["VALUE"])
        assert not hasattr(sys.modules[package], "OPENED")
    assert package not in sys.modules
    assert part.VALUE is not None


def test_whoever_imports_the_package_afterwards_gets_it_whole_and_of_the_same_modules(package: str) -> None:
    with without_door(package):
        part = __import__(f"{package}.part", fromlist=["VALUE"])
    whole = __import__(package)
    assert whole.OPENED
    assert whole.VALUE is part.VALUE


def test_a_package_that_is_imported_already_stays_as_it_is(package: str) -> None:
    whole = __import__(package)
    with without_door(package):
        assert sys.modules[package] is whole
    assert sys.modules[package] is whole


def test_the_package_is_not_left_hollow_when_an_import_fails(package: str) -> None:
    with pytest.raises(ModuleNotFoundError), without_door(package):
        __import__(f"{package}.missing")
    assert __import__(package).OPENED


def test_a_package_that_is_not_installed() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package"), without_door("no_such_package"):
        raise AssertionError("not reached")


def test_the_daemon_loads_neither_the_validator_nor_the_http_server_of_the_library_nor_what_is_seldom_needed() -> None:
    heavy = ("jsonschema", "referencing", "attrs", "http.server", "json5", "watchfiles", "trio")
    code = f"import sys, cueloop_daemon.app; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
