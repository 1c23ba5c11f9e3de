"""A manager's commands, called in their order. Standard library only."""

from __future__ import annotations

from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.service.manager import Commands
    from cueloop_client.service.tools import Tools


class Called(Frozen):
    """One command, and why it failed if it did."""

    argv: tuple[str, ...]
    failure: str | None

    def line(self) -> str:
        """For people."""
        return f"{words(self.argv)}{f': {self.failure}' if self.failure else ''}"


def call(tools: Tools, commands: Commands) -> list[Called]:
    """Each, whatever became of those before it."""
    called = []
    for argv in commands:
        done = tools.run(argv)
        called.append(Called(argv, None if done.code == 0 else done.last))
    return called


def words(argv: tuple[str, ...]) -> str:
    """As a person would type it."""
    from shlex import join

    return join(argv)
