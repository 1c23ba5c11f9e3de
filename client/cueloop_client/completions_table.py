"""The commands that print scripts for shells. Standard library only."""

from __future__ import annotations

from cueloop_client.command import Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

WHERE: Mapping[str, tuple[str, str]] = {
    "bash": (
        "cueloop completions bash > ~/.local/share/bash-completion/completions/cueloop",
        "That folder is read by the package bash-completion; make it first (mkdir -p). Without the package, in ~/.bashrc:\n"
        '  eval "$(cueloop completions bash)"',
    ),
    "zsh": (
        "cueloop completions zsh > ~/.zfunc/_cueloop",
        "Any folder of $fpath will do; for ~/.zfunc, make it first, and have in ~/.zshrc, before compinit:\n"
        "  fpath=(~/.zfunc $fpath); autoload -Uz compinit; compinit\n"
        "Or, after compinit:\n"
        '  eval "$(cueloop completions zsh)"',
    ),
    "fish": (
        "cueloop completions fish > ~/.config/fish/completions/cueloop.fish",
        "fish reads that folder by itself; make it first (mkdir -p). Or, in config.fish:\n  cueloop completions fish | source",
    ),
}
NOTES = (
    "Commands, options and their values are completed, and tasks by their ids, as the queue is now. Pressing Tab asks a daemon that runs\n"
    "and starts none. Commands of the Rust tool are not completed: its own script is `cueloop rust completions`."
)

COMPLETIONS: Mapping[tuple[str, ...], Command] = {
    ("completions", shell): Command(
        module=f"completions_{shell}",
        summary=f"Print the script that makes {shell} complete the commands",
        usage=f"cueloop completions {shell}",
        example=example,
        without_daemon=True,
        notes=f"{how}\n\n{NOTES}",
    )
    for shell, (example, how) in WHERE.items()
}

GROUP_NOTES: Mapping[tuple[str, ...], str] = {
    ("completions",): NOTES + "\n\n" + "\n\n".join(f"{shell}:\n  {example}\n{how}" for shell, (example, how) in WHERE.items()),
}
"""What the page of a group says beyond its commands."""
