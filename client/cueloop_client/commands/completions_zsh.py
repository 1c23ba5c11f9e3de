"""`cueloop completions zsh`."""

from __future__ import annotations

from cueloop_client.complete_scripts import script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Print the script that makes zsh complete the commands."""
    context.print(script("zsh"))
    return 0
