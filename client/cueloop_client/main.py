"""The command line's first step. Standard library only, and as little of it as the command needs."""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cueloop_client.argv import Meaning, Ours
    from cueloop_client.world import World


def main() -> int:
    """The console script `cueloop`; gives the exit code."""
    try:
        from cueloop_client.world import real_world
        from cueloop_protocol.streams import hold_standard_streams

        hold_standard_streams()
        return run(sys.argv[1:], real_world(sys.argv[0]))
    except KeyboardInterrupt:
        return 130
    finally:
        # What is alive now goes with the process: a collector that walked it once more would be a tenth of a command's time.
        gc.freeze()


def run(argv: Sequence[str], world: World) -> int:
    """Do what the arguments ask for and give the exit code. Raises nothing: what goes wrong is said on standard error.

    0 done, 1 failed, 2 wrong usage or not in this version, 3 no daemon runs (`daemon status`), 130 Ctrl-C, 141 the reader of our
    output went away.
    """
    machine = False
    try:
        from cueloop_client.argv import Ours, meaning

        asked = meaning(argv)
        if isinstance(asked, Ours):
            from cueloop_client.table import COMMANDS

            machine = COMMANDS[asked.command].machine or "--json" in asked.argv
            return _call(asked, argv, world)
        return _tell(asked, world)
    except BaseException as exc:
        from cueloop_client.reporting import report

        return report(exc, world, machine=machine, verbose=bool({"-v", "--verbose"} & set(argv)))


def _call(asked: Ours, argv: Sequence[str], world: World) -> int:
    from importlib import import_module

    from cueloop_client.argv import GLOBAL
    from cueloop_client.context import make_context
    from cueloop_client.flags import parse
    from cueloop_client.table import COMMANDS

    command = COMMANDS[asked.command]
    values = parse((*GLOBAL, *command.flags), asked.argv)
    context = make_context(world, command, values, argv)
    if context.far is not None:
        from cueloop_client.remote.elsewhere import call

        return call(context, asked.command, asked.argv)
    code: int = import_module(f"cueloop_client.commands.{command.module}").run(context)
    return code


def _tell(asked: Meaning, world: World) -> int:
    """What is no command of ours: help, version, a shell's question, a command for the Rust tool, or a mistake."""
    from cueloop_client import argv, pages
    from cueloop_client.context import encoded
    from cueloop_client.failures import Usage

    match asked:
        case argv.Help(command=command):
            world.write(1, encoded(pages.help_page(command)))
        case argv.Version(json=as_json):
            world.write(1, encoded(pages.version(as_json=as_json)))
        case argv.Complete(shell=shell, words=words):
            from cueloop_client.complete import complete

            return complete(shell, words, world)
        case argv.AtHost(word=word):
            from cueloop_client.remote.elsewhere import run_here

            return run_here(word, world)
        case argv.PassedOn(name=name, argv=arguments):
            import os

            from cueloop_client.passing import pass_on

            try:
                pass_on(name, arguments, world.environ, world.program, os.getpid())
            except Usage as exc:
                meant = argv.near(name)
                if meant is None:
                    raise
                raise Usage(f"There is no command `{name}`. Did you mean `{meant}`?\n({exc.message})") from exc
        case argv.Later(command=command):
            raise Usage(pages.not_yet(command))
        case argv.Wrong(message=message):
            raise Usage(message)
    return 0
