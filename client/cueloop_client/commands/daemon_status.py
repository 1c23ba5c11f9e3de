"""`cueloop daemon status`."""

from __future__ import annotations

from cueloop_client.again import ask_running
from cueloop_client.failures import NOT_RUNNING, Usage
from cueloop_client.prometheus import exposition
from cueloop_client.session_text import age_text
from cueloop_client.shapes import answer, count, text
from cueloop_client.versions import waiting
from cueloop_protocol.roots import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.context import Context

ORIGINS = {"demand": "a command", "hand": "hand", "systemd": "systemd", "launchd": "launchd"}


def run(context: Context) -> int:
    """Say how the daemon is; exit code 3 if none runs. Never starts one."""
    world, root = context.world, context.root()
    in_prometheus = context.values.has("prometheus")
    if in_prometheus and context.json:
        raise Usage("--json and --prometheus contradict each other.")
    found = ask_running(root, world, world.deadline(context.seconds), "daemon.status")
    if found is None:
        if in_prometheus:
            world.write(1, exposition(None, shown(root.path)).encode())
        elif context.json:
            context.print_json({"running": False})
        else:
            context.print(f"No daemon runs for {shown(root.path)}.")
        return NOT_RUNNING
    status = answer(found)
    if in_prometheus:
        world.write(1, exposition(status, shown(root.path)).encode())
    elif context.json:
        told = waiting(text(status.get("daemon_version")), status.get("active_run") is not None)
        context.print_json({"running": True, **status, **({"newer": told} if told else {})})
    else:
        context.print_title(f"The daemon of {shown(root.path)} runs.")
        context.print("\n".join(f"  {name:<12}  {value}" for name, value in rows(status) if value))
    return 0


def rows(status: dict[str, Any]) -> list[tuple[str, str]]:
    """What people want to know of the result of `daemon.status`."""
    paths, watcher, events = (_object(status.get(name)) for name in ("paths", "watcher", "events"))
    uptime = status.get("uptime_seconds")
    run = _object(status.get("active_run"))
    return [
        ("process", str(count(status.get("pid")))),
        ("version", text(status.get("daemon_version"))),
        ("started by", ORIGINS.get(text(status.get("origin")), "")),
        ("newer", waiting(text(status.get("daemon_version")), bool(run))),
        ("state", text(status.get("state"))),
        ("up for", age_text(int(uptime)) if isinstance(uptime, int | float) else ""),
        ("memory", f"{count(status.get('memory_bytes')) / 1_000_000:.0f} MB"),
        ("connections", f"{count(status.get('connections'))}, {count(status.get('subscribers'))} subscribed"),
        ("watching by", _health(text(watcher.get("backend")), watcher)),
        ("events", _health(f"{count(events.get('last_seq'))} so far, {count(events.get('bytes')) / 1_000_000:.1f} MB", events)),
        ("run", f"{text(run.get('run_id'))}, {text(run.get('state'))}" if run else ""),
        ("socket", text(paths.get("socket"))),
        ("log", text(paths.get("log"))),
    ]


def _health(words: str, part: dict[str, Any]) -> str:
    return f"{words}; degraded: {text(part.get('reason'), 'no reason given')}" if part.get("degraded") is True else words


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
