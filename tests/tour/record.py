"""Plays the tour and writes what came of it into docs/tour.md.

    python tests/tour/record.py             renew the page
    python tests/tour/record.py --check     compare only: exit code 1 and a difference, if something is otherwise by now
    python tests/tour/record.py --raw       print everything as it was shown, and write nothing

It takes about a minute, a home and a repository of its own in temporary folders, and no network.
"""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tour.sample import Sample
from tour.script import BadPage, Block, parse
from tour.stable import Stable
from tour.terminal import SECONDS, Stuck, Terminal

PAGE = Path(__file__).parents[2] / "docs" / "tour.md"


class Player:
    """Types blocks at the terminals of a newcomer, and keeps what was shown in a form that is the same each time."""

    def __init__(self, sample: Sample, show: Callable[[str], object] = lambda text: None) -> None:
        self._sample = sample
        self._stable = Stable(sample)
        self._show = show
        self._terminals: dict[str, Terminal] = {}

    def play(self, blocks: Iterable[Block]) -> list[tuple[str, ...]]:
        """The outputs, block by block. Raises Stuck."""
        return [self._block(block) for block in blocks]

    def close(self) -> None:
        """All terminals go away."""
        for terminal in self._terminals.values():
            terminal.close()

    def _block(self, block: Block) -> tuple[str, ...]:
        try:
            return tuple(self._told(command, text) for command, text in self._shown(block))
        except Stuck as exc:
            raise Stuck(f"block at line {block.line}: {exc}") from exc

    def _told(self, command: str, text: str) -> str:
        return self._stable.listed(text) if command == "cueloop daemon list" else self._stable(text)

    def _shown(self, block: Block) -> Iterable[tuple[str, str]]:
        """The commands, each with what it showed; none where something goes on."""
        terminal = self._terminal(block.manner.terminal)
        if block.manner.condition:
            self._await(block.manner.condition)
        for command in block.commands[:-1]:
            terminal.enter(command)
            yield self._said(command, terminal.await_prompt())
        last = block.commands[-1] if block.commands else ""
        if last:
            terminal.enter(last)
        shown = ""
        for cue in block.manner.cues:
            shown += terminal.await_text(cue.shown)
            terminal.type(cue.keys)
        if block.manner.until:
            shown += terminal.await_text(block.manner.until) + terminal.await_text("\n")
        elif not block.manner.leave:
            shown += terminal.await_prompt()
        yield self._said(last, shown)

    def _said(self, command: str, shown: str) -> tuple[str, str]:
        self._show(f"$ {command}\n{shown}")
        return command, shown

    def _terminal(self, name: str) -> Terminal:
        if name not in self._terminals:
            self._terminals[name] = Terminal(sys.executable, self._sample.environ, self._sample.home)
        return self._terminals[name]

    def _await(self, condition: str) -> None:
        end = time.monotonic() + SECONDS
        environ = self._sample.environ
        environ["PATH"] = f"{self._sample.home}/cueloop/bin:{environ['PATH']}"
        where = self._sample.repository
        while subprocess.run(["sh", "-c", condition], env=environ, cwd=where, capture_output=True, check=False).returncode:
            if time.monotonic() > end:
                raise Stuck(f"it did not become true: {condition}")
            time.sleep(0.05)


def renewed(text: str, show: Callable[[str], object] = lambda text: None) -> str:
    """The page as it would be written now. Raises BadPage, Stuck."""
    page = parse(text)
    sample = Sample.make()
    player = Player(sample, show)
    try:
        sample.put_wheels()
        with sample.box():
            return page.render(player.play(page.blocks))
    finally:
        player.close()
        sample.close()


def main(argv: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="Plays the tour and writes docs/tour.md anew.")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--raw", action="store_true", help="print everything as it was shown, and write nothing")
    options = parser.parse_args(argv)
    old = PAGE.read_text()
    try:
        new = renewed(old, sys.stdout.write if options.raw else lambda text: None)
    except (BadPage, Stuck) as exc:
        sys.exit(f"{PAGE.name}: {exc}")
    if options.raw:
        return 0
    if options.check:
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "written", "played"))
        return int(old != new)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
