"""The daemon's own settings are followed while it runs."""

from __future__ import annotations

import json

from support.wire import wait_for
from support.world import World


def test_changed_settings_are_taken_and_unusable_ones_told(world: World) -> None:
    daemon = world.start(at_home=True)
    file = world.home / ".config/cueloop/cueloopd.jsonc"
    log = world.repository.folder / "cache/cueloopd/daemon.log"

    def put(text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name("new")
        beside.write_text(text)
        beside.replace(file)

    with daemon.connect() as heard:
        heard.call("events.subscribe", caller=world.caller)
        put('{"idle_exit_minutes": "soon"}')
        message = heard.events_until(lambda event: event["kind"] == "warning")[-1]["message"]
        assert "cueloopd.jsonc" in message
        assert "idle_exit_minutes" in message
        assert "stays in force" in message
        put(json.dumps({"log_level": "error"}))
        wait_for(lambda: "settings_changed" in log.read_text(), "the change is taken")
        put('{"log_level": "nonsense"}')
        heard.events_until(lambda event: event["kind"] == "warning" and "nonsense" in event["message"])
        # Its level is that of the settings before: a warning is no longer written.
        assert "nonsense" not in log.read_text()
        file.unlink()
        wait_for(lambda: "settings_taken" in log.read_text(), "without a file it is the defaults again")
