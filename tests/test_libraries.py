"""The daemon's libraries without what it never does, and that nobody is the poorer for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cueloop_daemon.lean import _import_if_it_can_be, absent, later

NEEDED = "lean_needed"
USER = "lean_user"


def output(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that others need, in a folder where more can be put."""
    (tmp_path / f"{NEEDED}.py").write_text("class Kind:\n    pass\ndef double(number):\n    return 2 * number\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in (NEEDED, USER, f"{USER}.part"):
        sys.modules.pop(name, None)


def test_a_daemon_loads_neither_openssl_nor_the_reader_of_installed_packages() -> None:
    heavy = ("ssl", "_ssl", "_hashlib", "importlib.metadata", "email.message", "zipfile")
    loads = "from cueloop_daemon.lean import import_libraries; import_libraries(); import cueloop_daemon.app"
    assert output(f"import sys; {loads}; print([name for name in {heavy!r} if name in sys.modules])") == "[]"


def test_who_loses_the_race_for_a_repository_has_loaded_no_openssl() -> None:
    heavy = ("ssl", "hashlib", "_hashlib", "secrets")
    assert output(f"import sys, cueloop_daemon.__main__; print([name for name in {heavy!r} if name in sys.modules])") == "[]"


def test_whoever_needs_them_later_has_them_whole() -> None:
    code = """
from cueloop_daemon.lean import import_libraries
import_libraries()
import anyio.streams.tls, hashlib, importlib, ssl
from pydantic import BaseModel
assert anyio.streams.tls.ssl.SSLContext is ssl.SSLContext and ssl.create_default_context().check_hostname
from importlib.metadata import version
assert version("pydantic") == importlib.metadata.version("pydantic")
assert hashlib.sha256(b"").hexdigest().startswith("e3b0c442")
assert type("M", (BaseModel,), {"__annotations__": {"n": int}})(n="1").n == 1
print("done")
"""
    assert output(code) == "done"


def test_a_name_taken_while_others_import_is_looked_up_when_it_is_called(modules: Path) -> None:
    (modules / f"{USER}.py").write_text(f"import {NEEDED} as needed\nfrom {NEEDED} import double, mine\n")
    with later(NEEDED, mine="given"):
        user = __import__(USER)
    assert NEEDED not in sys.modules
    assert user.mine == "given"
    assert user.double(4) == 8
    assert NEEDED in sys.modules
    assert user.needed.Kind is sys.modules[NEEDED].Kind


def test_a_module_that_is_there_stays_as_it_is(modules: Path) -> None:
    whole = __import__(NEEDED)
    with later(NEEDED), absent(NEEDED):
        assert __import__(NEEDED) is whole
    assert sys.modules[NEEDED] is whole


def test_an_absent_module_cannot_be_imported_and_can_be_afterwards(modules: Path) -> None:
    with absent(NEEDED), pytest.raises(ModuleNotFoundError):
        __import__(NEEDED)
    assert __import__(NEEDED).double(1) == 2


def test_a_library_that_needs_the_module_itself_is_imported_as_always(modules: Path) -> None:
    (modules / USER).mkdir()
    (modules / USER / "__init__.py").write_text("")
    (modules / USER / "part.py").write_text(f"from {NEEDED} import Kind\nclass Mine(Kind, object):\n    pass\n")
    with later(NEEDED):
        _import_if_it_can_be(USER, f"{USER}.part")
    assert USER not in sys.modules
    part = __import__(f"{USER}.part", fromlist=["Mine"])
    assert issubclass(part.Mine, sys.modules[NEEDED].Kind)
