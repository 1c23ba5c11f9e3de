"""Which variables of an environment are nobody's secret. Standard library only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PUBLIC = frozenset(
    {
        "PATH", "HOME", "PWD", "OLDPWD", "SHELL", "USER", "LOGNAME", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TMPDIR", "TZ", "SHLVL",
        "EDITOR", "VISUAL", "PAGER", "HOSTNAME", "VIRTUAL_ENV", "NO_COLOR", "PYTHONPATH", "DISPLAY", "_",
    }
)  # fmt: skip
PUBLIC_BEGINNINGS = ("LC_", "XDG_")


def secret_values(environ: Mapping[str, str]) -> list[str]:
    """The values of all other variables: any of them may be a secret."""
    return [value for name, value in environ.items() if name not in PUBLIC and not name.startswith(PUBLIC_BEGINNINGS)]
