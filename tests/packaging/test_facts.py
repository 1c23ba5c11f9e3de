"""What a build writes down about the tree it was made from, and what a checkout says of itself."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cueloop_protocol.build import Build, build, commit_of
from support.builds import COMMIT_DATE, ROOT, committed, git

facts_of: Callable[[Path], bytes] = runpy.run_path(str(ROOT / "hatch_build.py"))["build_facts"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def facts(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(facts_of(folder), found)
    return {name: found[name] for name in ("COMMIT", "COMMIT_DATE", "CHANGED")}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a tree").mkdir()
    (tmp_path / "a tree" / ".gitignore").write_text("*.pyc\n")
    return committed(tmp_path / "a tree")


def test_a_clean_tree(tree: Path) -> None:
    (tree / "x.pyc").write_text("ignored")
    assert facts(tree) == {"COMMIT": git(tree, "rev-parse", "HEAD"), "COMMIT_DATE": COMMIT_DATE, "CHANGED": False}


@pytest.mark.parametrize("name", [".gitignore", "new.py"])
def test_a_tree_that_is_not_the_commits(tree: Path, name: str) -> None:
    (tree / name).write_text("something else\n")
    assert facts(tree)["CHANGED"] is True


def test_a_folder_inside_of_somebody_elses_repository(tree: Path) -> None:
    (tree / "vendored").mkdir()
    assert facts(tree / "vendored") == {"COMMIT": None, "COMMIT_DATE": None, "CHANGED": False}


def test_a_repository_without_a_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(tmp_path, "init", "-q")
    assert facts(tmp_path)["COMMIT"] is None
    assert "the commit of this build is unknown" in capsys.readouterr().err


def test_a_build_without_git(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert facts(tree)["COMMIT"] is None


def test_a_build_in_a_hook_of_another_repository(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "no index"))
    found = facts(tree)
    monkeypatch.delenv("GIT_DIR")
    assert (found["COMMIT"], found["CHANGED"]) == (git(tree, "rev-parse", "HEAD"), False)


def test_an_sdist_says_what_it_was_made_from(tree: Path) -> None:
    (tree / "protocol/cueloop_protocol").mkdir(parents=True)
    (tree / "protocol/cueloop_protocol/_build.py").write_text(f'COMMIT, COMMIT_DATE, CHANGED = "{COMMIT}", None, True\n')
    assert facts(tree)["COMMIT"] != COMMIT
    (tree / "PKG-INFO").write_text("Name: cueloopd\n")
    assert facts(tree)["COMMIT"] == COMMIT


class TestCheckout:
    def test_on_a_branch(self, tree: Path) -> None:
        assert commit_of(str(tree)) == git(tree, "rev-parse", "HEAD")

    def test_with_packed_refs_and_a_branch_whose_name_ends_like_another(self, tree: Path) -> None:
        git(tree, "branch", "x/main")
        git(tree, "commit", "-q", "--allow-empty", "-m", "Another one")
        git(tree, "pack-refs", "--all")
        assert commit_of(str(tree)) == git(tree, "rev-parse", "HEAD")

    def test_with_a_detached_head(self, tree: Path) -> None:
        git(tree, "checkout", "-q", "--detach")
        assert commit_of(str(tree)) == git(tree, "rev-parse", "HEAD")

    def test_in_a_linked_work_tree(self, tree: Path, tmp_path: Path) -> None:
        git(tree, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
        git(tmp_path / "linked", "commit", "-q", "--allow-empty", "-m", "Aside")
        assert commit_of(str(tmp_path / "linked")) == git(tmp_path / "linked", "rev-parse", "HEAD") != commit_of(str(tree))

    @pytest.mark.parametrize("head", [None, "ref: refs/heads/unborn", "ref: refs/heads/.invalid", "x" * 40, "", "\udcff"])
    def test_nothing_is_guessed(self, tmp_path: Path, head: str | None) -> None:
        if head is not None:
            (tmp_path / ".git").mkdir()
            (tmp_path / ".git/HEAD").write_bytes(head.encode("utf-8", "surrogateescape"))
        assert commit_of(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (Build("1.2", "built", COMMIT, COMMIT_DATE, False), "1.2 (commit 0123456789ab of 2026-02-07, Python "),
        (Build("1.2", "built", COMMIT, COMMIT_DATE, True), "1.2 (commit 0123456789ab of 2026-02-07, changed, Python "),
        (Build("1.2", "built", None, None, False), "1.2 (unknown commit, Python "),
        (Build("1.2", "checkout", COMMIT, None, None), "1.2 (source checkout at 0123456789ab, Python "),
        (Build("1.2", "checkout", None, None, None), "1.2 (source checkout, Python "),
    ],
)
def test_the_line(found: Build, line: str) -> None:
    assert found.line(7).startswith(line)
    assert found.line(7).endswith(", protocol 7)")
    assert found.document(7)["commit"] == found.commit


def test_what_runs_here_is_a_checkout_or_built() -> None:
    assert build().source in ("checkout", "built")
