"""Which folders are watched for which paths."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cueloop_daemon.watch.chain import Level, Names, Spot, spots
from cueloop_daemon.watch.sweep import ENTRIES_LIMIT, look
from cueloop_daemon.watch.watcher import Wanted

SELF, ENTRIES, CONTENT = Level


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def chain(top: Path, folders: list[str] | None = None, files: list[str] | None = None) -> dict[str, tuple[Level, Names]]:
    """The spots at and below the folder above `top`, by path relative to `top`."""
    wanted = Wanted(frozenset(f"{top}/{one}" for one in folders or ()), frozenset(f"{top}/{one}" for one in files or ()))
    found = spots(wanted).values()
    return {os.path.relpath(one.path, top): (one.level, one.names) for one in found if len(one.path) >= len(str(top.parent))}


def test_a_file_is_watched_in_its_folder_and_the_folder_in_its_parent(top: Path) -> None:
    (top / "a" / "b").mkdir(parents=True)
    assert chain(top, files=["a/b/f"]) == {
        "a/b": (CONTENT, {"f"}),
        "a": (ENTRIES, {"b"}),
        ".": (SELF, set()),
        "..": (SELF, set()),
    }


def test_what_is_missing_is_awaited_in_the_nearest_folder_above(top: Path) -> None:
    assert chain(top, ["x"], ["a/b/f", "a/g", "h"]) == {".": (CONTENT, {"a", "h", "x"}), "..": (ENTRIES, {top.name})}
    (top / "a").write_text("a file stands where a folder should")
    assert chain(top, files=["a/b/f"])["."] == (ENTRIES, {"a"})


def test_several_paths_share_their_folders(top: Path) -> None:
    (top / "a").mkdir()
    assert chain(top, ["a"], ["a/f", "g"]) == {
        "a": (CONTENT, None),
        ".": (CONTENT, {"a", "g"}),
        "..": (ENTRIES, {top.name}),
    }


def test_a_link_is_watched_at_both_ends_and_one_folder_is_watched_once(top: Path) -> None:
    (top / "real" / "deep").mkdir(parents=True)
    (top / "repo").mkdir()
    (top / "repo" / "link").symlink_to("../real/deep")
    (top / "repo" / "file").symlink_to("../real/target")
    found = chain(top, files=["repo/link/f", "repo/file"])
    deep = found.get("repo/link") or found.get("real/deep")
    assert deep == (CONTENT, {"f"})
    assert found["repo"] == (CONTENT, {"link", "file"})
    assert found["real"] == (CONTENT, {"deep", "target"})


def test_climbing_ends_at_a_descriptor(top: Path) -> None:
    (top / ".cueloop").mkdir()
    fd = os.open(top, os.O_RDONLY)
    try:
        found = spots(Wanted(frozenset(), frozenset({f"/proc/self/fd/{fd}/.cueloop/queue.jsonc"})))
        assert {spot.path: (spot.level, spot.names) for spot in found.values()} == {
            f"/proc/self/fd/{fd}/.cueloop": (CONTENT, {"queue.jsonc"}),
            f"/proc/self/fd/{fd}": (ENTRIES, {".cueloop"}),
        }
    finally:
        os.close(fd)


def test_the_root_folder_and_a_loop_end(top: Path) -> None:
    (top / "loop").symlink_to("loop")
    assert list(spots(Wanted(frozenset({"/"}))).values()) == [Spot("/", CONTENT, None)]
    assert chain(top, files=["loop/f"])["."] == (ENTRIES, {"loop"})


def test_a_look_shows_every_kind_of_change(top: Path) -> None:
    wanted = Wanted(frozenset({str(top / "d")}), frozenset({str(top / "f")}))
    looks = [look(wanted)]

    def changed() -> bool:
        looks.append(look(wanted))
        return looks[-1] != looks[-2]

    assert not changed()
    (top / "f").write_text("1")
    assert changed()
    (top / "g").write_text("1")
    assert not changed()
    os.utime(top / "g", ns=(1, os.stat(top / "f").st_mtime_ns))
    (top / "g").rename(top / "f")
    assert changed()
    before = (top / "f").stat()
    (top / "f").write_text("2")
    os.utime(top / "f", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert changed()
    (top / "f").chmod(0o600)
    assert changed()
    (top / "f").read_text()
    assert not changed()
    (top / "d").mkdir()
    (top / "d" / "e").write_text("")
    assert changed()
    (top / "d" / "e").write_text("in place")
    assert changed()
    (top / "f").unlink()
    assert changed()
    (top / "f").symlink_to("f")
    assert changed()


def test_a_look_at_a_huge_folder_is_short(top: Path) -> None:
    for number in range(ENTRIES_LIMIT + 1):
        (top / f"{number}").touch()
    wanted = Wanted(frozenset({str(top)}))
    before = look(wanted)
    assert len(before) == 1
    (top / "0").unlink()
    after = look(wanted)
    assert len(after) == ENTRIES_LIMIT + 1
