"""The agent CLIs: how each is called, what its stream means, what became of it. No processes, no sockets, no clock.

One invocation, for the run engine:

1. `effective(…)` → settings; `runner_for(settings.runner, plugins)` → the runner. Where `runner.version_argv(settings)` names a
   command, run it and go on with `runner.with_version(its output)`: kimi's and pi's command lines depend on it.
2. `runner.choose_id(…)`, stored; then `runner.fresh(…)`; or `runner.locate(…)` (None: gone) and `runner.resume(…)`.
3. The process gets `child_environment(…)`; its output goes through one `runner.reader()`; at its end `reader.verdict(…)`.
"""

from cueloop_daemon.runners.choose import runner_for as runner_for
from cueloop_daemon.runners.effective import Effective as Effective
from cueloop_daemon.runners.effective import Refused as Refused
from cueloop_daemon.runners.effective import effective as effective
from cueloop_daemon.runners.environment import MARKERS as MARKERS
from cueloop_daemon.runners.environment import child_environment as child_environment
from cueloop_daemon.runners.facts import install_hint as install_hint
from cueloop_daemon.runners.model import Conversation as Conversation
from cueloop_daemon.runners.model import Failed as Failed
from cueloop_daemon.runners.model import Gone as Gone
from cueloop_daemon.runners.model import Invocation as Invocation
from cueloop_daemon.runners.model import LoginNeeded as LoginNeeded
from cueloop_daemon.runners.model import Piece as Piece
from cueloop_daemon.runners.model import Prompt as Prompt
from cueloop_daemon.runners.model import Reader as Reader
from cueloop_daemon.runners.model import Runner as Runner
from cueloop_daemon.runners.model import Settings as Settings
from cueloop_daemon.runners.model import Succeeded as Succeeded
from cueloop_daemon.runners.model import UnknownRunner as UnknownRunner
from cueloop_daemon.runners.model import Verdict as Verdict
from cueloop_daemon.runners.plugin import PluginFacts as PluginFacts
from cueloop_daemon.runners.plugin import plugin_runners as plugin_runners

__all__ = [
    "MARKERS",
    "Conversation",
    "Effective",
    "Failed",
    "Gone",
    "Invocation",
    "LoginNeeded",
    "Piece",
    "PluginFacts",
    "Prompt",
    "Reader",
    "Refused",
    "Runner",
    "Settings",
    "Succeeded",
    "UnknownRunner",
    "Verdict",
    "child_environment",
    "effective",
    "install_hint",
    "plugin_runners",
    "runner_for",
]
