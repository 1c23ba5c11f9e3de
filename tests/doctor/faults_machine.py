"""Faults of service and machine, and how to mend them."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta

from doctor.fault import Fault
from doctor.lab import Lab


def _dirty(lab: Lab) -> None:
    (lab.repository.path / "new.py").write_text("")
    lab.repository.queue.write_bytes(lab.repository.queue.read_bytes().replace(b"doing", b"todo"))


def _another_first(lab: Lab) -> None:
    ours = lab.world.folder / "cueloop"
    ours.write_text("#!/bin/sh\n")
    lab.play("cueloop", "#!/opt/other/bin/python\nfrom cueloop_client.main import main\n")
    lab.asked.update(program=str(ours), rust_tool="/opt/rust/cueloop")


def _compiled_first(lab: Lab) -> None:
    _another_first(lab)
    (lab.bin / "cueloop").write_bytes(b"\x7fELF and so on")


def _two(lab: Lab) -> None:
    path = lab.play("cueloop", "#!/bin/sh\n")
    other = lab.world.folder / "other"
    other.mkdir()
    shutil.copy(path, other / "cueloop")
    lab.environ["PATH"] += f":{other}"
    lab.asked.update(program=str(path), rust_tool=str(other / "cueloop"))


def _break(lab: Lab) -> None:
    def broken(path: str) -> os.statvfs_result:
        raise RuntimeError("the disk says nonsense")

    lab.changed["statvfs"] = broken


FAULTS = (
    Fault(
        "service",
        "service-failed",
        lambda lab: lab.asked.update(
            service=[{"unit": "cueloopd@x.service", "problem": "It failed (exit code 1).", "remedy": "cueloop service logs"}]
        ),
        lambda lab: lab.asked.pop("service"),
        ("cueloopd@x.service", "exit code 1", "cueloop service logs"),
    ),
    Fault("no git", "git-missing", lambda lab: (lab.bin / "git").unlink(), None, ("PATH",)),
    Fault("no work tree", "not-a-work-tree", lambda lab: shutil.rmtree(lab.repository.path / ".git"), None, ("git init",)),
    Fault("dirty", "tree-dirty", _dirty, lambda lab: (lab.repository.path / "new.py").unlink(), ("Commit or stash",)),
    Fault(
        "HOME unset",
        "home-ignored",
        lambda lab: lab.environ.pop("HOME"),
        lambda lab: lab.environ.update(HOME=str(lab.world.home)),
        ("HOME is not set",),
    ),
    Fault(
        "HOME relative",
        "home-ignored",
        lambda lab: lab.environ.update(HOME="here"),
        lambda lab: lab.environ.update(HOME=str(lab.world.home)),
        ("'here'",),
    ),
    Fault(
        "HOME gone",
        "home-missing",
        lambda lab: lab.environ.update(HOME="/nowhere/at/all"),
        lambda lab: lab.environ.update(HOME=str(lab.world.home)),
        ("/nowhere/at/all",),
    ),
    Fault(
        "clock",
        "clock-behind",
        lambda lab: lab.changed.update(now=datetime.now(UTC) - timedelta(hours=1)),
        lambda lab: lab.changed.pop("now"),
        ("1:0",),
    ),
    Fault(
        "few files",
        "few-open-files",
        lambda lab: lab.changed.update(open_files=lambda: 64),
        lambda lab: lab.changed.pop("open_files"),
        ("64", "ulimit -n"),
    ),
    Fault("compiled first", "cueloop-shadowed", _compiled_first, lambda lab: (lab.bin / "cueloop").unlink(), ("PATH",)),
    Fault(
        "another first",
        "cueloop-shadowed",
        _another_first,
        lambda lab: (lab.bin / "cueloop").unlink(),
        ("bin/cueloop, not this one",),
    ),
    Fault("two", "several-cueloops", _two, lambda lab: (lab.bin / "cueloop").unlink(), ("in this order",)),
    Fault(
        "no Rust tool",
        "rust-tool-missing",
        lambda lab: lab.asked.update(program="/opt/cueloop"),
        lambda lab: lab.asked.update(rust_tool="/opt/rust"),
        ("CUELOOP_RUST_BIN",),
    ),
    Fault(
        "a broken check", "check-failed", _break, lambda lab: lab.changed.pop("statvfs"), ("place.room", "the disk says nonsense")
    ),
)
