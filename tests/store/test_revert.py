"""A revert returns the tree to what the task found, never further, and keeps everything that it undoes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cueloop_daemon.store import revert
from store.test_trees import git

Tree = dict[str, object]
"""Path → text; a tuple: where a link leads; an int: as text, executable."""


def tree_of(folder: Path) -> Tree:
    """Everything but `.git` and `.cueloop`."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.split("/")[0] in (".git", ".cueloop"):
            continue
        if path.is_symlink():
            found[name] = (os.readlink(path),)
        elif path.is_file():
            found[name] = path.read_text()
        elif path.is_dir() and not any(path.iterdir()):
            found[name + "/"] = ""
    return found


class Place:
    """A repository in which a task begins with `base`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        git(folder, "init", "-q", "-b", "main")
        self.put("same", "same\n")
        self.put("changed", "one\n")
        self.put("removed", "here\n")
        self.put("folder/deep", "deep\n")
        self.put("becomes-folder", "a file\n")
        (folder / "link").symlink_to("same")
        self.put(".cueloop/queue.jsonc", "{}")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "one")
        self.put("uncommitted", "a person's, never committed\n")
        self.put("same", "changed by a person, never committed\n")
        self.base = self.keep()
        self.before = tree_of(folder)

    def put(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def keep(self) -> str:
        """The commit that keeps the tree as it stands."""
        index = {"GIT_INDEX_FILE": str(self.folder / ".git/cueloop-index")}
        env = {"PATH": os.environ["PATH"], "HOME": "/nowhere", **index, **revert.IDENTITY}

        def run(*arguments: str) -> str:
            done = subprocess.run(["git", *arguments], cwd=self.folder, env=env, check=True, capture_output=True, text=True)
            return done.stdout.strip()

        run("add", "-A", "--", ".", ":(exclude).cueloop")
        return run("commit-tree", run("write-tree"), "-m", "base")

    def work(self) -> None:
        """What an agent does to it."""
        self.put("changed", "two\n")
        self.put("same", "by the agent\n")
        (self.folder / "removed").unlink()
        (self.folder / "folder/deep").unlink()
        (self.folder / "folder").rmdir()
        (self.folder / "link").unlink()
        (self.folder / "link").symlink_to("changed")
        (self.folder / "becomes-folder").unlink()
        self.put("becomes-folder/inside", "new\n")
        self.put("new/er/file", "new\n")
        self.put("bin/sh", "#!/bin/sh\n")
        self.put("with\nline", "odd\n")
        self.put("*", "odder\n")
        self.put("-rf", "oddest\n")
        (self.folder / "new-link").symlink_to("nowhere")

    def revert(self, monkeypatch: pytest.MonkeyPatch, *apart: str) -> list[str]:
        """What it prints."""
        monkeypatch.chdir(self.folder)
        monkeypatch.setenv("HOME", "/nowhere")
        printed: list[str] = []
        monkeypatch.setattr("builtins.print", lambda text, **more: printed.append(text))
        assert revert.main([self.base, *apart]) == 0
        return printed


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_everything_is_as_it_was_and_what_was_undone_is_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.work()
    done = tree_of(place.folder)
    printed = place.revert(monkeypatch)
    assert len(printed) == 1
    assert tree_of(place.folder) == place.before
    ref, _, commit = printed[0].partition(" ")
    assert ref.startswith("refs/cueloop/reverted/")
    assert git(place.folder, "rev-parse", ref) == commit.strip("()")
    names = git(place.folder, "-c", "core.quotepath=off", "ls-tree", "-r", "-z", "--name-only", ref).split("\0")
    assert set(done) <= {name.strip("\n") for name in names} | {"with\nline"}
    assert git(place.folder, "show", f"{ref}:changed") == "two"


def test_nothing_to_undo(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(place.revert(monkeypatch)) == 1
    assert tree_of(place.folder) == place.before


def test_never_further_than_the_task_found_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a person had not committed before is not gone, and neither are the agent's commits."""
    place.work()
    git(place.folder, "add", "-A")
    git(place.folder, "commit", "-qm", "by the agent")
    head = git(place.folder, "rev-parse", "HEAD")
    place.revert(monkeypatch)
    assert tree_of(place.folder) == place.before
    assert git(place.folder, "rev-parse", "HEAD") == head


def test_the_index_forgets_what_was_put_back_and_nothing_else(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.put("staged", "by a person\n")
    git(place.folder, "add", "staged")
    place.base, place.before = place.keep(), tree_of(place.folder)
    place.work()
    git(place.folder, "add", "-A")
    place.revert(monkeypatch)
    status = git(place.folder, "status", "--porcelain", "--", ".", ":(exclude).cueloop").splitlines()
    assert {line.split()[-1] for line in status} == {"same", "staged", "uncommitted"}
    assert "A  staged" in status


def test_f08_a_lock_on_the_index_stays_and_is_no_obstacle(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.work()
    (place.folder / ".git/index.lock").touch()
    place.revert(monkeypatch)
    assert tree_of(place.folder) == place.before
    assert (place.folder / ".git/index.lock").exists()


def test_queue_done_file_and_our_folder_do_not_take_part(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.put("tasks.jsonc", "before")
    place.base = place.keep()
    place.work()
    place.put("tasks.jsonc", "after")
    place.put(".cueloop/queue.jsonc", "after")
    place.revert(monkeypatch, "tasks.jsonc")
    assert (place.folder / "tasks.jsonc").read_text() == "after"
    assert (place.folder / ".cueloop/queue.jsonc").read_text() == "after"


def test_ignored_files_are_not_touched(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.put(".git/info/exclude", "*.log\n")
    place.base = place.keep()
    place.put("build.log", "made by the agent's build\n")
    place.work()
    place.revert(monkeypatch)
    assert (place.folder / "build.log").exists()


def test_what_somebody_writes_meanwhile_stays_and_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.work()
    real = revert.present_tree

    def then_somebody_writes(paths: list[str]) -> str:
        tree = real(paths)
        place.put("changed", "by a person, just now\n")
        place.put("new/er/file", "by a person, just now\n")
        place.put("removed", "by a person, just now\n")
        return tree

    monkeypatch.setattr(revert, "present_tree", then_somebody_writes)
    printed = place.revert(monkeypatch)
    assert sorted(printed[:-1]) == [f"{name} stays as it is" for name in ("changed", "new/er/file", "removed")]
    for name in ("changed", "new/er/file", "removed"):
        assert (place.folder / name).read_text() == "by a person, just now\n"
    assert (place.folder / "same").read_text() == place.before["same"]


def test_a_folder_in_place_of_a_file_stays_and_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody makes a folder where a file is to be put back."""
    place.work()
    act: Callable[[list[bytes]], None] = revert.remove

    def then_somebody_makes_a_folder(paths: list[bytes]) -> None:
        act(paths)
        if not (place.folder / "removed").exists():
            place.put("removed/inside", "x")

    monkeypatch.setattr(revert, "remove", then_somebody_makes_a_folder)
    assert "removed stays as it is" in place.revert(monkeypatch)
    assert (place.folder / "removed/inside").read_text() == "x"


def test_another_repository_inside_is_not_touched(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = place.folder / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    git(inner, "commit", "-q", "--allow-empty", "-m", "x")
    (inner / "file").write_text("x")
    place.work()
    printed = place.revert(monkeypatch)
    assert "inner stays as it is" in printed
    assert (inner / "file").exists()


def test_before_the_first_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place.__new__(Place)
    place.folder = tmp_path
    git(tmp_path, "init", "-q")
    place.put("file", "one\n")
    place.base = place.keep()
    place.put("file", "two\n")
    place.put("new", "new\n")
    place.revert(monkeypatch)
    assert tree_of(tmp_path) == {"file": "one\n"}


def test_many_files(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(revert.AT_ONCE * 2 + 1):
        place.put(f"many/{number}", f"{number}\n")
    place.revert(monkeypatch)
    assert tree_of(place.folder) == place.before


def test_the_mode_of_a_file_comes_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.folder / "changed").chmod(0o755)
    place.revert(monkeypatch)
    assert (place.folder / "changed").stat().st_mode & 0o111 == 0


def test_a_root_below_the_top_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "outside").write_text("one\n")
    place = Place.__new__(Place)
    place.folder = tmp_path / "inner"
    place.put("file", "one\n")
    place.base = _kept_below(tmp_path)
    (tmp_path / "outside").write_text("two\n")
    place.put("file", "two\n")
    place.put("new", "new\n")
    place.revert(monkeypatch)
    assert tree_of(place.folder) == {"file": "one\n"}
    assert (tmp_path / "outside").read_text() == "two\n"


def _kept_below(top: Path) -> str:
    place = Place.__new__(Place)
    place.folder = top
    return place.keep()


@pytest.mark.parametrize("argv", [["0" * 40], ["no such commit"]])
def test_a_base_that_is_gone_changes_nothing(argv: list[str], place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.work()
    done = tree_of(place.folder)
    monkeypatch.chdir(place.folder)
    with pytest.raises(subprocess.CalledProcessError):
        revert.main(argv)
    assert tree_of(place.folder) == done
