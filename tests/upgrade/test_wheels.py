"""Two versions against each other, from wheels; `python tests/upgrade/wheels.py OLD NEW` does it for any two commits, and does all."""

from __future__ import annotations

from pathlib import Path

from upgrade.installs import Asked, install, variant
from upgrade.wheels import drive

APART = (
    "old daemon, no run: a new client asks",
    "old daemon, a run: a new client asks",
    "new daemon, no run: an old client asks",
)
TOGETHER = ("new daemon, a run: the old one replaces it",)


def test_d12_a_newer_version_meets_an_older_one(tmp_path: Path) -> None:
    old = install(Asked.read("tree@0.0.1"), tmp_path / "old")
    near = variant(tmp_path / "old", Asked.read("tree@0.0.2:1-2"), tmp_path / "near")
    far = variant(tmp_path / "old", Asked.read("tree@9.0.0:2-3"), tmp_path / "far")
    assert (old.shares_protocol(near), old.shares_protocol(far)) == (True, False)
    tried = drive(old, far, APART.__contains__).tried + drive(old, near, TOGETHER.__contains__).tried
    assert [(name, wrong) for name, wrong in tried if wrong] == []
    assert len(tried) == len(APART + TOGETHER)
