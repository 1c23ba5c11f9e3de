"""What a lock says of its owner: paths of any bytes, and only processes that live."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_protocol.identity import boot_id, process_start_time
from cueloop_protocol.owners import is_key, live_owners, path_word, read_owner, word_path

KEY = "0123456789abcdef"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tmp_path.chmod(0o700)
    monkeypatch.setattr("cueloop_protocol.owners.local_folder", lambda uid: str(tmp_path))
    return tmp_path


def signed(**changed: str) -> str:
    """The text of a lock that this process signed."""
    lines = {
        "pid": str(os.getpid()),
        "start": process_start_time(os.getpid()) or "",
        "boot": boot_id(),
        "host": os.uname().nodename,
        "file": "1-2",
        "folder": "3-4",
        "root": "/a%20b",
    }
    return "".join(f"{name}: {value}\n" for name, value in {**lines, **changed}.items() if value)


@given(st.binary(max_size=40).map(lambda data: "/" + os.fsdecode(data.replace(b"\0", b""))))
def test_any_path_is_one_word_and_comes_back(path: str) -> None:
    word = path_word(path)
    assert word.isascii()
    assert word.isprintable()
    assert " " not in word
    assert word_path(word) == path


@pytest.mark.parametrize("word", ["", "relative", "/a%", "/a%4", "/a%zz", "/a b", "/a%41", "/\u00e9", "/a%2f", "%"])
def test_what_was_not_made_so_is_no_path(word: str) -> None:
    assert word_path(word) is None


def test_a_live_owner_is_told_with_its_root(folder: Path) -> None:
    (folder / f"{KEY}.lock").write_text(signed())
    (owner,) = live_owners(os.getuid())
    assert (owner.key, owner.pid, owner.root, owner.folder) == (KEY, os.getpid(), "/a b", "3-4")


def test_one_that_did_not_name_its_root_is_told_without(folder: Path) -> None:
    (folder / f"{KEY}.lock").write_text(signed(root="", folder=""))
    (owner,) = live_owners(os.getuid())
    assert (owner.root, owner.folder) == (None, None)


@pytest.mark.parametrize(
    "changed", [{"pid": "1"}, {"pid": "x"}, {"start": "1"}, {"start": ""}, {"boot": "another"}, {"host": "elsewhere"}]
)
def test_who_does_not_live_here_and_now_is_no_owner(folder: Path, changed: dict[str, str]) -> None:
    (folder / f"{KEY}.lock").write_text(signed(**changed))
    assert live_owners(os.getuid()) == []


def test_links_pipes_folders_and_other_names_are_no_locks(folder: Path) -> None:
    (folder / "text").write_text(signed())
    (folder / f"{KEY}.lock").symlink_to(folder / "text")
    os.mkfifo(folder / f"{KEY[::-1]}.lock")
    (folder / f"{'a' * 16}.lock").mkdir()
    (folder / "x.lock").write_text(signed())
    assert live_owners(os.getuid()) == []
    assert read_owner(str(folder), KEY, os.getuid() + 1) is None


def test_a_folder_that_is_not_ours_alone_has_no_owners(folder: Path) -> None:
    (folder / f"{KEY}.lock").write_text(signed())
    folder.chmod(0o755)
    assert live_owners(os.getuid()) == []


def test_a_very_long_path_comes_back_whole(folder: Path) -> None:
    path = "/" + "/".join(["\u00e4\n" * 60] * 60)
    (folder / f"{KEY}.lock").write_text(signed(root=path_word(path)))
    (owner,) = live_owners(os.getuid())
    assert owner.root == path


def test_a_key_is_a_hash() -> None:
    assert is_key(KEY)
    assert not any(is_key(text) for text in ("", KEY[1:], KEY.upper(), "../../../../etc/"))
