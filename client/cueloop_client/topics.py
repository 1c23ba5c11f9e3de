"""What concerns all commands and has a help page of its own. Standard library only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TOPICS: Mapping[str, str] = {
    "environment": "the environment variables that are read",
    "exit-codes": "what the exit codes mean",
}
"""`cueloop help TOPIC` → what it tells."""

EXIT_CODES: Mapping[str, str] = {
    "0": "done; also where there was nothing to do",
    "1": "failed or refused: standard error says why (`machine` commands: as one JSON document)",
    "2": "wrong usage, or not in this version: nothing was done",
    "3": "no daemon runs (`daemon status`)",
    "130": "Ctrl-C, or a question was left without an answer; of a run: cancelled",
    "141": "whoever read the output went away",
}

VARIABLES: Mapping[str, str] = {
    "HOME": "whose configuration counts; without it, that of the passwd entry",
    "XDG_CONFIG_HOME": "where the global configuration is (default: ~/.config)",
    "XDG_RUNTIME_DIR": "where the daemon's socket is put and looked for; without it, or if it is not yours alone, /tmp/cueloopd-<uid>",
    "TMPDIR": "the same on macOS",
    "PATH": "where git, the agents and the Rust tool are looked for; agents get the whole environment of who starts a run",
    "CUELOOP_RUST_BIN": "the program that commands of the Rust tool are passed on to (default: the next `cueloop` on PATH)",
    "CUELOOP_HOST": "a repository on another machine for all commands, as --host; --host and --repo win over it",
    "CUELOOP_SSH": "the ssh program for --host, with arguments if need be (default: ssh)",
    "CUELOOP_REMOTE_COMMAND": "how cueloop is called on the other machine, where it is not on the PATH there",
    "NO_COLOR": "if it is set and not empty: no colors, as --no-color",
    "TERM": "`dumb`, or none: no colors",
    "COLUMNS": "how wide lists are in bash while it completes",
}


def exit_codes_page() -> str:
    """`cueloop help exit-codes`."""
    rows = "\n".join(f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items())
    return (
        f"Exit codes of all commands:\n\n{rows}\n\n"
        "A command that shows a run (`run one`, `run loop`, `run resume`, `run attach`, `machine run …`) ends with the run's own code.\n"
        "Those of `cueloopd` itself are in the operations page of the documentation.\n\n"
        "Example: cueloop daemon status || echo $?\n"
    )


def environment_page() -> str:
    """`cueloop help environment`."""
    width = max(map(len, VARIABLES))
    rows = "\n".join(f"  {name:<{width}}  {meaning}" for name, meaning in VARIABLES.items())
    return (
        f"Environment variables that are read:\n\n{rows}\n\n"
        "The daemon outlives whoever starts it: it takes over PATH, XDG_RUNTIME_DIR and TMPDIR alone, and what Python needs to find it.\n"
        "`cueloop` has no other settings of its own; those of the daemon are in ~/.config/cueloop/cueloopd.jsonc.\n\n"
        "Example: CUELOOP_RUST_BIN=/usr/local/bin/cueloop cueloop task list\n"
    )


def topic_page(topic: str) -> str:
    """The page of a topic."""
    return {"environment": environment_page, "exit-codes": exit_codes_page}[topic]()
