"""Sdist and wheel: what is in them, that they are made alike everywhere, and that they work where they are put."""

from __future__ import annotations

import email
import json
import os
import runpy
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

from cueloop_protocol.version import __version__
from support.builds import COMMIT_DATE, ROOT, SECONDS, Build, environment, git, sources

Builds = tuple[Build, Build]
MADE = {"PKG-INFO", "protocol/cueloop_protocol/_build.py"}


@pytest.fixture(scope="session")
def unpacked(builds: Builds, folder: Path) -> Path:
    """The sdist, unpacked, and beside it `installed files`, the wheel's packages."""
    where = folder / "unpacked"
    with tarfile.open(builds[0].sdist) as archive:
        archive.extractall(where, filter="data")
    with zipfile.ZipFile(builds[0].wheel) as wheel:
        wheel.extractall(where / "installed files")
    return where


def called(unpacked: Path, *argv: str, cwd: Path | str = "/", **more: str) -> subprocess.CompletedProcess[str]:
    """A Python that finds the wheel's packages first, without a cache of compiled files and unable to make one."""
    environ = environment(PYTHONPATH=str(unpacked / "installed files"), PYTHONDONTWRITEBYTECODE="1", **more)
    command = [sys.executable, *argv]
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_the_same_bytes_whoever_builds_where_and_when(builds: Builds) -> None:
    """The second wheel comes straight from the tree, the first one from the sdist."""
    one, two = builds
    assert one.sdist.name == two.sdist.name == f"cueloopd-{__version__}.tar.gz"
    assert one.sdist.read_bytes() == two.sdist.read_bytes()
    assert one.wheel.read_bytes() == two.wheel.read_bytes()


def test_a_build_leaves_the_tree_as_it_was(builds: Builds) -> None:
    for built in builds:
        assert git(built.tree, "status", "--porcelain", "--ignored", "--", "protocol") == ""


def test_the_sdist_is_the_repository_and_what_was_made_for_it(builds: Builds) -> None:
    with tarfile.open(builds[1].sdist) as archive:
        members = archive.getmembers()
    names = [member.name.removeprefix(f"cueloopd-{__version__}/") for member in members]
    assert sorted(names) == sorted({*sources(), *MADE})
    assert all(member.isfile() and (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "") for member in members)
    assert {member.mode for member in members} <= {0o644, 0o755}


def templates_in_wheel() -> set[str]:
    """Where the wheel has the templates that are kept in folders of their own."""
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))
    found = [Path(path) for path in sources() if Path(path).parts[0] in hook["TEMPLATES"]]
    assert found
    return {f"{hook['TEMPLATES_IN_WHEEL']}/{path.name}" for path in found}


def test_the_wheel_has_the_three_packages_and_nothing_else(builds: Builds) -> None:
    with zipfile.ZipFile(builds[1].wheel) as wheel:
        infos = wheel.infolist()
    names = {info.filename for info in infos}
    packages = {path.split("/", 1)[1] for path in sources() if path.split("/", 1)[0] in ("protocol", "client", "daemon")}
    ours = {name for name in names if name.split("/")[0] in ("cueloop_protocol", "cueloop_client", "cueloop_daemon")}
    assert ours == packages | templates_in_wheel() | {"cueloop_protocol/_build.py"}
    others = {name.split("/", 1)[0] for name in names - ours}
    assert others <= {f"cueloopd-{__version__}.dist-info", f"cueloopd-{__version__}.data"}
    assert len(infos) == len(names)
    assert {stat.S_IMODE(info.external_attr >> 16) for info in infos} == {0o644}


def test_archives_are_dated_by_the_commit(builds: Builds) -> None:
    with zipfile.ZipFile(builds[0].wheel) as wheel:
        assert {info.date_time for info in wheel.infolist()} == {(2026, 2, 7, 10, 35, 0)}
    with tarfile.open(builds[0].sdist) as archive:
        assert {member.mtime for member in archive.getmembers()} == {1_770_460_500}


def test_nothing_tells_where_it_was_built(builds: Builds, unpacked: Path, folder: Path) -> None:
    made = [*unpacked.glob("installed files/*.dist-info/**/*"), *unpacked.glob("installed files/*.data/**/*")]
    made += [unpacked / "installed files/cueloop_protocol/_build.py", unpacked / f"cueloopd-{__version__}/PKG-INFO"]
    private = (str(folder), str(Path.home()) + "/", f"@{os.uname().nodename}", f"/{os.uname().nodename}")
    for path in filter(Path.is_file, made):
        assert not [word for word in private if word in path.read_text()], path


def test_the_metadata(unpacked: Path) -> None:
    (path,) = unpacked.glob("installed files/*.dist-info/METADATA")
    told = email.message_from_string(path.read_text())
    assert (told["Name"], told["Version"], told["Requires-Python"], told["License-Expression"]) == (
        "cueloopd",
        __version__,
        ">=3.11",
        "MIT",
    )
    assert told["Description-Content-Type"] == "text/markdown"
    assert "# cueloopd" in str(told.get_payload())
    hosts = [url.split("/")[2] for line in told.get_all("Project-URL", []) for url in [line.split(", ", 1)[1]]]
    assert all("." in host and not host[-1].isdigit() and not host.endswith((".local", ".internal", ".lan")) for host in hosts)


def test_a_wheel_knows_its_commit(builds: Builds, unpacked: Path) -> None:
    done = called(unpacked, "-P", "-m", "cueloop_client", "--version", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["version"], told["source"], told["changed"]) == (__version__, "built", False)
    assert (told["commit"], told["commit_date"]) == (git(builds[0].tree, "rev-parse", "HEAD"), COMMIT_DATE)
    for module, program in (("cueloop_client", "cueloop"), ("cueloop_daemon", "cueloopd")):
        line = called(unpacked, "-P", "-m", module, "--version").stdout
        assert line.startswith(f"{program} {__version__} (commit {told['commit'][:12]} of 2026-02-07, Python ")


def test_a_wheel_on_the_pythonpath_starts_its_own_daemon(unpacked: Path) -> None:
    runtime = Path(tempfile.mkdtemp(prefix="clp"))  # short: a socket is in it
    repository = unpacked / "a repository"
    (repository / ".cueloop").mkdir(parents=True)
    (repository / ".cueloop/queue.jsonc").write_text('{"version": 1, "tasks": []}')
    argv = ("-P", "-m", "cueloop_client")
    try:
        shown = called(unpacked, *argv, "session", "show", cwd=repository, XDG_RUNTIME_DIR=str(runtime))
        status = called(unpacked, *argv, "daemon", "status", "--json", cwd=repository, XDG_RUNTIME_DIR=str(runtime))
    finally:
        stopped = called(unpacked, *argv, "daemon", "stop", cwd=repository, XDG_RUNTIME_DIR=str(runtime))
        shutil.rmtree(runtime)
    assert (shown.returncode, shown.stderr, stopped.returncode) == (0, "", 0)
    assert json.loads(status.stdout)["running"] is True


def test_the_manual_page_is_where_man_looks(unpacked: Path) -> None:
    page = (unpacked / f"installed files/cueloopd-{__version__}.data/data/share/man/man1/cueloop.1").read_text()
    assert page.startswith(f'.TH CUELOOP 1 "2026\\-02\\-07" "cueloop {__version__}"')


def test_the_tests_run_from_the_sdist(unpacked: Path) -> None:
    """Against the installed packages; one of them reads the data that tests need."""
    chosen = ("tests/client/test_flags.py", "tests/core/test_vectors_decision.py")
    done = called(
        unpacked, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *chosen, cwd=unpacked / f"cueloopd-{__version__}"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    where = called(unpacked, "-c", "import cueloop_client; print(cueloop_client.__file__)").stdout
    assert where.startswith(str(unpacked / "installed files"))
