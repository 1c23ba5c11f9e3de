"""The gate that workers pass: together where nobody minds, alone where one has asked for it, and who asks is not starved."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import pytest

from support.alone import Room
from support.wire import SECONDS, wait_for


class Visitor(threading.Thread):
    """Enters the room, says so in the book, and stays until it is let go."""

    def __init__(self, room: Room, book: list[str], name: str, *, alone: bool = False) -> None:
        super().__init__(name=name)
        self._room, self._book, self._alone = room, book, alone
        self.go = threading.Event()
        self.start()

    def run(self) -> None:
        with self._room.entered(alone=self._alone):
            self._book.append(f"{self.name} in")
            self.go.wait(SECONDS)
            self._book.append(f"{self.name} out")

    def left(self) -> None:
        self.go.set()
        self.join(SECONDS)
        assert not self.is_alive()


@pytest.fixture
def door(tmp_path: Path) -> Path:
    for name in ("door", "room"):
        (tmp_path / name).touch()
    return tmp_path / "door"


def _is_shut(door: Path) -> bool:
    with door.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_who_asks_to_be_alone_is_next_and_alone(door: Path) -> None:
    def room() -> Room:
        return Room(door, door.with_name("room"))

    book: list[str] = []
    first, second = Visitor(room(), book, "first"), Visitor(room(), book, "second")
    wait_for(lambda: sorted(book) == ["first in", "second in"], "two are inside together")
    single = Visitor(room(), book, "single", alone=True)
    wait_for(lambda: _is_shut(door), "the third waits")
    late = Visitor(room(), book, "late")
    for one in (first, second, single, late):
        one.left()
    assert book[2:] == ["first out", "second out", "single in", "single out", "late in", "late out"]
