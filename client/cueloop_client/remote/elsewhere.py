"""Commands that work on a machine's own files and processes are run on that machine. Standard library only."""

from __future__ import annotations

import signal
import subprocess

from cueloop_client.remote import ssh
from cueloop_client.remote.url import parse_host
from cueloop_client.remote.word import from_word, to_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cueloop_client.context import Context
    from cueloop_client.world import World

HOST = "--host"


def run_there(context: Context, command: Sequence[str], argv: Sequence[str]) -> int:
    """Run the command on the machine of its repository: its output, its questions and its exit code are this one's.

    Raises SshFailed where there is no connection or no cueloop. A Ctrl-C is for the command there, if it has a terminal.
    """
    world = context.world
    url = parse_host(context.values.text("host") or world.environ["CUELOOP_HOST"])
    word = to_word({"argv": [*command, *_without_host(argv)], "repo": url.path})
    has_terminal = world.is_terminal(0) and world.is_terminal(1)
    line = ssh.command_line(url, world.environ, "at-host", word, may_ask=world.is_terminal(2), terminal=has_terminal)
    try:
        process = subprocess.Popen(line, env=dict(world.environ))
    except OSError as exc:
        raise ssh.not_started(line[0], exc) from exc
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    if code == ssh.SSH_FAILED:
        raise ssh.SshFailed(f"No connection to {url.machine}.")
    if code == ssh.NOT_FOUND:
        raise ssh.not_found(url.machine, "")
    return code if code >= 0 else 128 - code


def run_here(word: str, world: World) -> int:
    """The other side of `run_there`. Raises Usage for a word that is none."""
    from cueloop_client.main import run
    from cueloop_client.remote.paths import expanded
    from cueloop_client.world import World

    asked = from_word(word)
    argv, repo = asked.get("argv"), asked.get("repo")
    words = [text for text in argv if isinstance(text, str)] if isinstance(argv, list) else []
    environ = {name: value for name, value in world.environ.items() if name != "CUELOOP_HOST"}
    here = World(**{**vars(world), "environ": environ})
    return run([*words, f"--repo={expanded(repo, here)}"], here)


def _without_host(argv: Sequence[str]) -> list[str]:
    kept: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*kept, word, *rest]
        if word == HOST:
            del rest[:1]
        elif not word.startswith(f"{HOST}="):
            kept.append(word)
    return kept
