"""What the documents tell a person to type: every command exists, every link leads somewhere, and the reading ones work."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cueloop_client.argv import Help, Ours, PassedOn, Version, meaning
from support.fixtures import world as world
from support.world import World

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
READING = ("session show", "machine config resolve", "machine workspace overview", "daemon status", "events --json")


def commands(page: Path) -> Iterator[list[str]]:
    """The lines after a prompt in the page's console blocks, without comments."""
    for block in re.findall(r"```(?:console|sh)\n(.*?)```", page.read_text(), re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                yield shlex.split(line[2:], comments=True)


def documented() -> list[object]:
    return [pytest.param(words, id=f"{page.name}:{' '.join(words)}") for page in PAGES for words in commands(page) if words]


@pytest.mark.parametrize("words", documented())
def test_what_a_page_says_to_type_exists(words: list[str]) -> None:
    words = [word for word in words if "=" not in word or not word[:1].isupper()] or words
    match words[0]:
        case "cueloop":
            until = next((at for at, word in enumerate(words) if word in ("|", ">", "&&", "&")), len(words))
            assert isinstance(meaning(words[1:until]), Ours | PassedOn | Help | Version), words
        case "make":
            targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
            assert words[1] in targets
        case "python" | "python3":
            assert (ROOT / words[1]).exists() or words[1] == "-m"


def test_every_page_has_been_looked_at() -> None:
    assert len(documented()) > 10


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"`[^`]*`", "", re.sub(r"```.*?```", "", page.read_text(), flags=re.S))
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("line", READING)
def test_the_reading_commands_of_the_readme_work(world: World, line: str) -> None:
    """In a repository of one's own, as a person types them."""
    daemon = world.start(at_home=True)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cueloop_client", *line.split()],
        cwd=world.repository.path,
        env=world.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert daemon.process.poll() is None
