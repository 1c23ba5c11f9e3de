"""Runner by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cueloop_daemon.runners.claude import Claude
from cueloop_daemon.runners.codex import Codex
from cueloop_daemon.runners.cursor import Cursor
from cueloop_daemon.runners.gemini import Gemini
from cueloop_daemon.runners.kimi import Kimi
from cueloop_daemon.runners.model import Runner, UnknownRunner
from cueloop_daemon.runners.opencode import Opencode
from cueloop_daemon.runners.pi import Pi
from cueloop_daemon.runners.plugin import PluginFacts, PluginRunner

_BUILT_IN: Mapping[str, Callable[[], Runner]] = {
    "claude": Claude,
    "codex": Codex,
    "opencode": Opencode,
    "gemini": Gemini,
    "cursor": Cursor,
    "kimi": Kimi,
    "pi": Pi,
}


def runner_for(id_: str, plugins: Mapping[str, PluginFacts]) -> Runner | UnknownRunner:
    """The runner of that id; ids are as `cueloop_protocol.documents.session.runner_name` spells them."""
    if (make := _BUILT_IN.get(id_)) is not None:
        return make()
    if (plugin := plugins.get(id_)) is not None:
        return PluginRunner(plugin)
    known = ", ".join([*_BUILT_IN, *plugins])
    detail = f"Choose one of {known}; a plugin's runner must be enabled in the configuration, and a project's plugin trusted."
    return UnknownRunner(id_, f"There is no runner {id_}.", detail)
