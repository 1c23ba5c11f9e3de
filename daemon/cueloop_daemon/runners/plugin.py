"""Runners of plugins: any program that speaks our small protocol."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping

from cueloop_daemon.core.controls import BUILT_IN
from cueloop_daemon.core.layers import dig
from cueloop_daemon.core.rules import RuleError
from cueloop_daemon.runners.calling import OneVersion, stdin_of
from cueloop_daemon.runners.facts import Facts
from cueloop_daemon.runners.ids import is_token
from cueloop_daemon.runners.judging import Fault
from cueloop_daemon.runners.model import Conversation, Invocation, Prompt, Settings
from cueloop_daemon.runners.parse import Doc
from cueloop_daemon.runners.reader import StreamReader
from cueloop_daemon.store.jsonc import JsoncError, read_strict_json
from cueloop_daemon.store.plugins import MANIFEST, find_plugins
from cueloop_protocol.documents.config import Config
from cueloop_protocol.roots import Caller, Root
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class PluginFacts:
    """The runner of one enabled plugin."""

    id: str
    bin: str
    """The program, absolute."""
    supports_resume: bool
    default_model: str | None
    config_json: str
    """What the configuration holds for it, unread."""


def plugin_runners(
    root: Root, caller: Caller, config: Config, read: Callable[[str], bytes | None], *, trusted: bool
) -> Mapping[str, PluginFacts]:
    """The runners of all enabled plugins by id, none if any manifest cannot be used (as the controls say). Blocking.

    `read` gives a file's bytes, None where there is none. A project's plugin replaces the caller's of the same id.
    """
    found = find_plugins(root, caller, read, trusted=trusted)
    if not isinstance(found.plugins, tuple):
        return {}
    taken = {runner.id for runner in BUILT_IN}
    runners: dict[str, PluginFacts] = {}
    for path in found.inputs:
        if os.path.basename(path) == "plugin.json" and (values := _manifest(path, read)) is not None:
            id_ = str(dig(values, "id"))
            runners.pop(id_, None)  # a project's plugin hides the caller's, also when it brings no runner
            if (facts := _facts(root, path, id_, values, config)) is not None:
                runners[id_] = facts
    return {id_: facts for id_, facts in sorted(runners.items()) if id_.lower() not in taken}


def _manifest(path: str, read: Callable[[str], bytes | None]) -> object:
    try:
        data = read(path)
        return None if data is None else MANIFEST(read_strict_json(data), ())
    except (OSError, JsoncError, RuleError):
        return None


def _facts(root: Root, path: str, id_: str, values: object, config: Config) -> PluginFacts | None:
    setting = config.plugins.plugins.get(id_)
    if dig(values, "runner") is None or setting is None or not setting.enabled:
        return None
    folder = os.path.dirname(path)
    if folder.startswith(root.base + "/"):
        folder = root.path + folder[len(root.base) :]
    model = dig(values, "runner", "default_model")
    return PluginFacts(
        id=id_,
        bin=os.path.join(folder, str(dig(values, "runner", "bin"))),
        supports_resume=dig(values, "runner", "supports_resume") is True,
        default_model=None if model is None else str(model),
        config_json=json.dumps(setting.config, ensure_ascii=False),
    )


class PluginRunner(OneVersion):
    """A plugin's program."""

    def __init__(self, plugin: PluginFacts) -> None:
        super().__init__(Facts(id=plugin.id, seen="", install="", login="", shape=is_token))
        self._plugin = plugin

    @property
    def can_resume(self) -> bool:
        """As its manifest says."""
        return self._plugin.supports_resume

    def fresh(self, settings: Settings, prompt: Prompt, chosen: Conversation | None, cwd: str) -> Invocation:
        """See `model.Runner`."""
        own = ("--session", self.checked(chosen)) if chosen else ()
        argv = (settings.bin, "run", "--model", settings.model, "--output-format", "stream-json", *own, "-")
        return self._invocation(settings, prompt, argv, cwd)

    def resume(self, settings: Settings, conversation: Conversation, message: Prompt, cwd: str) -> Invocation:
        """See `model.Runner`."""
        if not self.can_resume:
            raise ValueError(f"the plugin runner {self.id} does not resume")
        session = ("--session", self.checked(conversation))
        argv = (settings.bin, "resume", *session, "--model", settings.model, "--output-format", "stream-json", "-")
        return self._invocation(settings, message, argv, cwd)

    def reader(self, *, is_quiet: bool = False) -> PluginReader:
        """See `model.Runner`."""
        return PluginReader(self.facts, is_quiet=is_quiet)

    def locate(self, conversation: Conversation, cwd: str, env: Mapping[str, str]) -> Conversation | None:
        """See `model.Runner`."""
        return super().locate(conversation, cwd, env) if self.can_resume else None

    def _invocation(self, settings: Settings, prompt: Prompt, argv: tuple[str, ...], cwd: str) -> Invocation:
        options = {
            "output_format": settings.output_format,
            "verbosity": settings.verbosity,
            "approval_mode": settings.approval_mode,
            "sandbox": settings.sandbox,
            "plan_mode": settings.plan_mode,
            "unsupported_option_policy": settings.option_policy,
            **({"reasoning_effort": settings.effort} if settings.effort else {}),
        }
        env = {
            "CUELOOP_PLUGIN_ID": self.id,
            "CUELOOP_PLUGIN_CONFIG_JSON": self._plugin.config_json,
            "CUELOOP_RUNNER_CLI_JSON": json.dumps(options),
        }
        return self.invocation(settings, argv, cwd, stdin=stdin_of(prompt), env=env)


class PluginReader(StreamReader):
    """The last line is `finish`. A line `text` (member `text` or `content`) is the agent's; everything else is shown as it stands."""

    def event(self, doc: Doc) -> Iterable[str] | None:
        """See `StreamReader`."""
        match doc.text("type"):
            case "text":
                return self.said(doc.text("text") or doc.text("content"))
            case "finish":
                return self._finish(doc)
        return None

    def _finish(self, doc: Doc) -> list[str]:
        if doc.is_true("is_error") or doc.text("error") or doc.doc("error"):
            text = doc.text("error") or doc.doc("error").text("message") or doc.text("result") or "its last line reports an error"
            return self.failed(Fault(text))
        self.saw_id(doc.text("session_id"))
        return self.succeeded(doc.text("result"))
