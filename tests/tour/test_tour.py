"""The page of the tour: it can be played, and its first chapters are what a newcomer sees today. `make tour` plays all of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tour.record import PAGE, Player
from tour.sample import Sample
from tour.script import BadPage, Block, Cue, Manner, Page, parse
from tour.stable import FIRST_PROCESS, HOME, Stable
from tour.terminal import Stuck, Terminal

CHAPTERS = ("Look", "Run one task")
BLOCK = "# T\n\n<!-- play: terminal 2 -->\n<!-- play: at ? type y\\n -->\n```console\n$ one\n$ two\nsaid\n```\nEnd.\n"


def chapter(page: Page, title: str) -> Iterator[Block]:
    """The blocks below a heading."""
    inside = False
    for part in page.parts:
        if isinstance(part, Block):
            if inside:
                yield part
        elif "\n## " in part:
            inside = part.rpartition("\n## ")[2].startswith(f"{title}\n")


@pytest.fixture
def sample() -> Iterator[Sample]:
    made = Sample.make()
    yield made
    made.close()


class TestThePage:
    def test_it_can_be_played(self) -> None:
        page = parse(PAGE.read_text())
        assert page.render(block.outputs or ("",) for block in page.blocks) == PAGE.read_text()
        assert sum(len(block.commands) for block in page.blocks) > 40

    def test_nothing_of_the_machine_that_recorded_it_is_in_it(self) -> None:
        text = PAGE.read_text()
        assert "/tmp/t" not in text
        assert "changed, Python" not in text

    def test_its_first_chapters_are_what_is_seen_today(self, sample: Sample) -> None:
        page = parse(PAGE.read_text())
        sample.put_command()
        player = Player(sample)
        try:
            for title in CHAPTERS:
                blocks = list(chapter(page, title))
                assert blocks, title
                for block, outputs in zip(blocks, player.play(blocks), strict=True):
                    assert block.render(outputs) == block.render(block.outputs), f"as of line {block.line}; renew it: make tour"
        finally:
            player.close()


class TestScript:
    def test_what_a_block_says(self) -> None:
        (block,) = parse(BLOCK).blocks
        assert block == Block(Manner("2", cues=(Cue("?", "y\n"),)), ("one", "two"), ("", "said\n"), 5)

    def test_new_outputs_take_the_place_of_the_old_ones(self) -> None:
        page = parse(BLOCK)
        assert page.render([block.outputs for block in page.blocks]) == BLOCK
        assert page.render([("new\n", "no line end")]) == BLOCK.replace("said\n", "no line end\n").replace("$ two", "new\n$ two")

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("```console\n$ x\n", "line 1: the block has no end"),
            ("```console\nx\n```\n", "line 1: the block begins with no command"),
            ("```console\n```\n", "line 1: a block has commands, or goes on"),
            ("<!-- play: goes on -->\n```console\n$ x\n```\n", "line 2: a block has commands, or goes on"),
            ("<!-- play: dead -->\n", "line 1: nothing is known of 'dead'"),
        ],
    )
    def test_bad_pages(self, text: str, why: str) -> None:
        with pytest.raises(BadPage, match=f"^{why}"):
            parse(text)


class TestTerminal:
    def test_commands_keys_and_what_is_shown(self, tmp_path: Path) -> None:
        terminal = Terminal(sys.executable, {"PATH": "/usr/bin:/bin"}, tmp_path)
        try:
            terminal.enter("test -t 0 -a -t 1 && read -p 'Name? ' name && echo \"<$name>\"")
            terminal.await_text("Name? ")
            terminal.type("Ann\n")
            assert terminal.await_prompt() == "Ann\n<Ann>\n"
            terminal.enter("printf 'no end'")
            assert terminal.await_prompt() == "no end"
        finally:
            terminal.close()

    def test_what_does_not_come_is_told_with_what_came(self, tmp_path: Path) -> None:
        terminal = Terminal(sys.executable, {"PATH": "/usr/bin:/bin"}, tmp_path)
        try:
            terminal.enter("echo something else")
            with pytest.raises(Stuck, match="'expected' did not come, but 'something else"):
                terminal.await_text("expected")
        finally:
            terminal.close()


class TestStable:
    def test_the_same_thing_has_the_same_sign(self, sample: Sample) -> None:
        stable = Stable(sample)
        one, two = "0a0b0c0d-1111-4222-8333-444455556666", "ffffffff-1111-4222-8333-444455556666"
        assert stable(f"{one} {two} process 77") == f"{sign(1)} {sign(2)} process {FIRST_PROCESS}"
        assert stable(f'"pid": 77, pid=78, {two}') == f'"pid": {FIRST_PROCESS}, pid={FIRST_PROCESS + 1}, {sign(2)}'

    def test_what_is_never_the_same_twice(self, sample: Sample) -> None:
        told = f"{sample.home}/x up for 1 minute 2 seconds, 53 MB, 2026-11-29T23:34:28.752821000Z"
        assert Stable(sample)(told) == f"{HOME}/x up for 12 seconds, 50 MB, 2026-01-15T10:00:00Z"

    def test_the_daemons_of_others_are_left_out(self, sample: Sample) -> None:
        told = f"/tmp/other\n  serving, process 1\n  socket  /x\n{sample.repository}\n  serving, process 2\n/tmp/z\n  serving\n"
        assert Stable(sample).listed(told) == f"{HOME}/greeter\n  serving, process {FIRST_PROCESS}\n"


def sign(number: int) -> str:
    """What stands for a random id."""
    return f"{number:08d}-0000-4000-8000-{number:012d}"
