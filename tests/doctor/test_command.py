"""`cueloop doctor` as people call it: what it prints, its exit codes, and that it touches nothing."""

from __future__ import annotations

import glob
import json
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cueloop_client import doctor_text
from cueloop_daemon.doctor.kinds import KINDS
from cueloop_daemon.doctor.page import AREAS, main, page
from cueloop_protocol.documents.doctor import DoctorDocument
from cueloop_protocol.example_doctor import DOCTOR
from cueloop_protocol.place import local_folder, root_hash
from doctor.lab import Lab, codes, laboratory
from support.repository import session
from support.world import without_privileges

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


@pytest.fixture
def lab() -> Iterator[Lab]:
    with laboratory() as lab:
        yield lab


def contents(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Everything below the folder: mode, inode, time of the last change, content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path)] = (status.st_mode, status.st_ino, status.st_mtime_ns, data)
    return found


def document_of(output: bytes) -> DoctorDocument:
    return DoctorDocument.model_validate(json.loads(output))


def test_a_healthy_repository_in_words(lab: Lab) -> None:
    lab.repository.session.write_bytes(session())
    done = lab.world.run("doctor")
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert text.startswith(f"The repository {lab.repository.path}\n\nA session of task RQ-0001 was interrupted 5 minutes")
    assert "cueloop run one     asks you first; where nobody can be asked it refuses (RQ-0001)" in text
    assert "cueloop run resume  goes on with RQ-0001" in text
    assert "resume  cueloop run resume" in text
    assert f"pi         1.6.0  {lab.bin}/pi  for plan, implement, review" in text
    assert "gemini     not installed\n" in text
    assert text.endswith("Nothing is wrong here.\n")
    assert all(len(line) <= 130 for line in text.splitlines())


def test_an_ill_one_in_words_and_by_its_exit_code(lab: Lab) -> None:
    lab.repository.queue.write_text('{"version": 1,\n "tasks": [}')
    done = lab.world.run("doctor", "--no-versions")
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (1, b"")
    assert "Errors\n" in text
    assert "[queue-not-json]" in text
    assert "  claude     installed  " in text  # it was not asked which
    assert "do: Correct line 2, column" in " ".join(text.split())
    assert text.endswith("1 error and no warnings: not everything works here.\n")


def test_wrong_usage(lab: Lab) -> None:
    assert lab.world.run("doctor", "--fix").returncode == 2
    assert lab.world.run("doctor", "now").returncode == 2


def test_it_touches_nothing_and_starts_nothing(lab: Lab) -> None:
    lab.world.start(at_home=True).kill()  # all that a daemon leaves when it is killed
    lab.repository.session.write_bytes(session())
    before = contents(lab.world.folder)
    local = sorted(glob.glob(f"{local_folder(os.getuid())}/{root_hash(lab.root)}*"))
    assert lab.world.run("doctor", "--json").returncode == 0
    assert contents(lab.world.folder) == before
    assert sorted(glob.glob(f"{local_folder(os.getuid())}/{root_hash(lab.root)}*")) == local
    assert lab.world.daemons() == []


def test_without_a_repository(lab: Lab) -> None:
    empty = lab.world.folder / "empty"
    empty.mkdir()
    done = lab.world.run("doctor", "--json", "--no-versions", cwd=empty)
    document = document_of(done.stdout)
    assert (done.returncode, codes(document, "error")) == (1, ["no-cueloop-folder"])
    assert not document.repository.is_repository
    assert str(empty) in document.findings[0].message
    assert list(empty.iterdir()) == []


def test_where_nothing_can_be_read(lab: Lab) -> None:
    lab.repository.folder.chmod(0)
    try:
        done = lab.world.run("doctor", "--json", "--no-versions", before=without_privileges)
    finally:
        lab.repository.folder.chmod(0o755)
    assert (done.returncode, codes(document_of(done.stdout), "error")) == (1, ["folder-not-writable"])
    assert done.stderr == b""


def test_where_nothing_can_be_written(lab: Lab) -> None:
    """Not even the copy of a database that it would look into."""
    lab.world.start(at_home=True).kill()

    def no_bytes() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    done = lab.world.run("doctor", "--json", "--no-versions", before=no_bytes)
    assert (done.returncode, done.stderr) == (0, b"")
    assert codes(document_of(done.stdout), "error", "warning") == []


def test_a_daemon_that_runs_is_asked_unless_it_shall_not_be(lab: Lab) -> None:
    daemon = lab.world.start(at_home=True)
    asked = document_of(lab.world.run("doctor", "--json", "--no-versions").stdout)
    assert (asked.repository.daemon.state, asked.repository.daemon.pid) == ("running", daemon.pid)
    without = document_of(lab.world.run("doctor", "--json", "--no-versions", "--no-daemon").stdout)
    assert without.repository.daemon.state == "not_asked"
    assert codes(without, "error", "warning") == []
    assert lab.world.daemons() == [daemon.pid]


@pytest.mark.parametrize(
    "head", ["#!/bin/sh\nexec pyenv exec cueloop", f"#!{sys.prefix}/bin/python\nfrom cueloop_client.main import main"]
)
def test_a_wrapper_and_a_second_script_of_ours_are_no_other_tool(lab: Lab, head: str) -> None:
    ours = lab.world.folder / "cueloop"
    ours.write_text("#!/bin/sh\n")
    lab.play("cueloop", head)
    lab.asked.update(program=str(ours), rust_tool="/opt/rust/cueloop")
    assert codes(lab.visit()) == []


@pytest.mark.parametrize("deep", ["größe with\nblank and line", "/".join(["d" * 200] * 22)])
def test_paths_of_any_kind(lab: Lab, deep: str) -> None:
    """Also one that no system call takes."""
    here = os.getcwd()
    os.chdir(lab.world.folder)
    try:
        for name in deep.split("/"):
            os.mkdir(name)
            os.chdir(name)
        os.mkdir(".cueloop")
        Path(".cueloop/queue.jsonc").write_text('{"version": 1, "tasks": []}')
        program = [sys.executable, "-P", "-m", "cueloop_client", "doctor", "--json", "--no-versions"]
        done = subprocess.run(program, env=lab.environ, capture_output=True, check=False)
    finally:
        os.chdir(here)
    assert (done.returncode, done.stderr) == (0, b"")
    assert codes(document_of(done.stdout), "error", "warning") == []


def test_the_words_are_of_one_line_each_and_say_everything() -> None:
    text = "\n".join(line for section in doctor_text.SECTIONS for line in section(DOCTOR))
    document = DoctorDocument.model_validate(DOCTOR)
    for finding in document.findings:
        for told in (finding.message, finding.cause, finding.fix, finding.code):
            assert told in " ".join(text.split())
    assert "1 error and no warnings" in text


def test_the_page_is_current() -> None:
    assert main(["--check", str(DOCS / "doctor.md")]) == 0
    assert all(f"| `{code}` | {kind.severity} |" in page() for code, kind in KINDS.items())
    assert {kind.area for kind in KINDS.values()} == set(AREAS)


def test_every_command_that_a_fix_names_exists() -> None:
    import re

    from cueloop_client.argv import Ours, PassedOn, meaning

    named = [words for kind in KINDS.values() for words in re.findall(r"`cueloop ([^`…]+)`", f"{kind.cause} {kind.fix}")]
    assert len(named) > 20
    later = {"service status", "service logs"}
    for words in named:
        assert words in later or isinstance(meaning(words.split()), Ours | PassedOn), words
