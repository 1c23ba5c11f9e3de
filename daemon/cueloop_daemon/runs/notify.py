"""Desktop notifications, through `notify-send` or `osascript` where there is one. Never fails, never waits."""

from __future__ import annotations

import html
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping

from cueloop_daemon.runs.types import NoticeKind
from cueloop_protocol.documents.config import Notification
from cueloop_protocol.overrides import Overrides

SECONDS = 10.0
"""How long the program that shows it may take."""
LONGEST = 500
"""Characters of a title and of a text."""


class DesktopNotify:
    """Says what a run has come to, if the configuration or the call wants it and no window of a client is in front."""

    def __init__(
        self,
        config: Notification,
        call: Overrides,
        env: Mapping[str, str],
        find: Callable[[str], str | None],
        is_watched: Callable[[], bool],
    ) -> None:
        self._config = config
        self._call = call
        self._env = env
        self._find = find
        self._is_watched = is_watched

    def send(self, title: str, text: str, *, kind: NoticeKind) -> None:
        """Show it, or not; both texts are for people."""
        argv = self._argv(_fit(title), _fit(text)) if self.is_wanted(kind) else None
        if argv is not None:
            threading.Thread(target=self._show, args=(argv,), daemon=True).start()

    def is_wanted(self, kind: NoticeKind) -> bool:
        """Whether configuration and call ask for this kind, and nobody is looking anyway."""
        config, call = self._config, self._call
        by_call = {"complete": call.notify, "fail": call.notify_fail, "loop": call.notify}[kind]
        by_config = {"complete": config.notify_on_complete, "fail": config.notify_on_fail, "loop": config.notify_on_loop_complete}
        wanted = (config.enabled and by_config[kind]) if by_call is None else by_call
        return bool(wanted) and not (config.suppress_when_active and self._is_watched())

    def _argv(self, title: str, text: str) -> list[str] | None:
        if sys.platform == "darwin":
            program = self._find("osascript")
            sound = ' sound name "Glass"' if self._wants_sound() else ""
            script = f"on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv){sound}\nend run"
            return None if program is None else [program, "-e", script, title, text]
        program = self._find("notify-send")
        if program is None or not (self._env.get("DBUS_SESSION_BUS_ADDRESS") or self._env.get("DISPLAY")):
            return None
        body = html.escape(text, quote=False)  # the text, unlike the title, is markup there
        return [
            program,
            "--app-name=CueLoop",
            f"--expire-time={self._config.timeout_ms}",
            *self._sound_hints(),
            "--",
            title,
            body,
        ]

    def _sound_hints(self) -> list[str]:
        if not self._wants_sound():
            return []
        path = self._config.sound_path
        return [f"--hint=string:sound-file:{path}" if path else "--hint=string:sound-name:complete"]

    def _wants_sound(self) -> bool:
        return self._call.notify_sound or self._config.sound_enabled

    def _show(self, argv: list[str]) -> None:
        try:
            subprocess.run(
                argv,
                env=dict(self._env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=SECONDS,
                check=False,
                cwd="/",
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return


def _fit(text: str) -> str:
    return text.replace("\0", " ")[:LONGEST]
