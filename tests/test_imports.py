"""The arrows of the architecture: who may import whom, and what the fast path must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "cueloop_protocol": ROOT / "protocol" / "cueloop_protocol",
    "cueloop_client": ROOT / "client" / "cueloop_client",
    "cueloop_daemon": ROOT / "daemon" / "cueloop_daemon",
}
ALLOWED = {
    "cueloop_protocol": {"cueloop_protocol"},
    "cueloop_client": {"cueloop_protocol", "cueloop_client"},
    "cueloop_daemon": {"cueloop_protocol", "cueloop_daemon"},
}
THIRD_PARTY_ONLY_IN = {
    "jsonrpcserver": ("cueloop_daemon/server/dispatch.py",),
    "oslash": ("cueloop_daemon/server/dispatch.py",),
    "json5": ("cueloop_daemon/store/jsonc_text.py",),
    "watchfiles": ("cueloop_daemon/watch/fallback.py",),
}
IMPURE = {"os", "io", "time", "socket", "subprocess", "threading", "asyncio", "anyio", "random", "secrets", "tempfile", "sqlite3"}
CORE_MAY_IMPORT = {"cueloop_protocol", "cueloop_daemon.core", "pydantic", "pydantic_core"}


def files(package: str) -> Iterator[Path]:
    yield from sorted(PACKAGES[package].rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module


@pytest.mark.parametrize("package", PACKAGES)
def test_arrows_between_packages(package: str) -> None:
    for path in files(package):
        ours = {name.split(".")[0] for name in imported(path) if name.startswith("cueloop_")}
        assert ours <= ALLOWED[package], f"{path} imports {ours - ALLOWED[package]}"


def test_the_one_exception_is_by_name_and_at_run_time() -> None:
    naming = [path for path in files("cueloop_client") if "cueloop_daemon" in path.read_text()]
    dynamic = [path for path in naming if "import_module" in path.read_text()]
    assert len(dynamic) == 1, dynamic


def test_core_is_pure() -> None:
    for path in files("cueloop_daemon"):
        if "core" not in path.relative_to(PACKAGES["cueloop_daemon"]).parts:
            continue
        for name in imported(path):
            top = name.split(".")[0]
            assert top not in IMPURE, f"{path} imports {name}"
            if top in sys.stdlib_module_names:
                continue
            assert any(name == may or name.startswith(may + ".") for may in CORE_MAY_IMPORT), f"{path} imports {name}"


@pytest.mark.parametrize(("library", "places"), THIRD_PARTY_ONLY_IN.items())
def test_libraries_stand_behind_one_file(library: str, places: tuple[str, ...]) -> None:
    for package in PACKAGES:
        for path in files(package):
            if any(str(path).endswith(place) for place in places):
                continue
            assert library not in {name.split(".")[0] for name in imported(path)}, f"{path} imports {library}"


@pytest.mark.parametrize(
    "module",
    [
        "cueloop_client.main",
        "cueloop_client.fast",
        "cueloop_client.launch",
        "cueloop_client.passing",
        "cueloop_client.complete",
        "cueloop_client.complete_live",
        "cueloop_client.manual",
        "cueloop_protocol.build",
        "cueloop_protocol.framing",
        "cueloop_protocol.roots",
        "cueloop_protocol.place",
        "cueloop_protocol.codes",
        "cueloop_daemon.__main__",
        "cueloop_daemon.store.ownership",
    ],
)
def test_the_fast_path_is_standard_library_only(module: str) -> None:
    heavy = "pydantic", "pydantic_core", "anyio", "jsonrpcserver", "json5", "watchfiles", "asyncio"
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_following_a_run_loads_nothing_that_starts_a_daemon() -> None:
    """A warm `machine run one` is measured against the agent alone; starting processes and OpenSSL cost several milliseconds."""
    code = "import sys, cueloop_client.run_attached; print([one for one in ('subprocess', '_hashlib') if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
