"""The gate that workers pass: together where nobody minds, alone where one has asked for it, and who asks is not starved."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

from support import alone
from support.alone import Room
from support.wire import SECONDS, wait_for


class Visitor(threading.Thread):
    """Enters the room, says so in the book, and stays until it is let go."""

    def __init__(self, book: list[str], name: str, *, alone: bool) -> None:
        super().__init__(name=name)
        self._book, self._alone = book, alone
        self.go = threading.Event()
        self.start()

    def run(self) -> None:
        with Room().entered(alone=self._alone):
            self._book.append(f"{self.name} in")
            self.go.wait(SECONDS)
            self._book.append(f"{self.name} out")

    def left(self) -> None:
        self.go.set()
        self.join(SECONDS)
        assert not self.is_alive()


def _is_door_shut() -> bool:
    with Path(alone.__file__).with_name(alone.FILES[0]).open() as door:
        try:
            fcntl.flock(door, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_who_asks_to_be_alone_is_next_and_alone() -> None:
    book: list[str] = []
    first = Visitor(book, "first", alone=False)
    second = Visitor(book, "second", alone=False)
    wait_for(lambda: sorted(book) == ["first in", "second in"], "two are inside together")
    single = Visitor(book, "single", alone=True)
    wait_for(_is_door_shut, "the third waits")
    late = Visitor(book, "late", alone=False)
    for one in (first, second, single, late):
        one.left()
    assert book[2:] == ["first out", "second out", "single in", "single out", "late in", "late out"]
