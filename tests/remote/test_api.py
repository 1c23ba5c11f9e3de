"""The asynchronous library for a repository on another machine."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Mapping

import anyio
import pytest

from cueloop_client import connect
from cueloop_client.failures import Misfit, Unreachable, Unreached, Usage
from cueloop_client.remote import dialing, pump, ssh
from cueloop_client.remote.bridge import Beats
from cueloop_client.world import World, real_world
from support.repository import session
from support.sshd import Sshd
from support.wire import wait_for


def around(box: Sshd, **more: str) -> World:
    """What the library gets from outside: nothing of the test's own environment."""
    return World(**{**vars(real_world("")), "environ": {**box.world.environ, **box.environ, **more}})


async def test_calls_and_events(box: Sshd) -> None:
    async with connect(box.url, world=around(box)) as client:
        assert client.root.path == str(box.world.repository.path)
        status = await client.call("daemon.status")
        assert status["pid"] == box.world.daemons()[0]
        document = (await client.call("config.resolve"))["document"]
        assert document["paths"]["repo_root"] == str(box.world.repository.path)
        async with client.subscribe() as subscription:
            box.world.repository.put(box.world.repository.session, session(task_id=f"RQ-{random.randrange(1000, 10000)}"))
            with anyio.fail_after(20):
                note = await anext(aiter(subscription))
        assert note.cursor
    box.world.repository.session.unlink()
    await anyio.to_thread.run_sync(wait_for, lambda: not box.bridges(), "the end of the bridges", 4)


async def test_a_cut_between_two_calls_is_mended(box: Sshd) -> None:
    async with connect(box.url, world=around(box)) as client:
        await client.call("ping")
        for pid in box.sessions():
            os.kill(pid, signal.SIGKILL)
        assert (await client.call("daemon.status"))["pid"] == box.world.daemons()[0]


async def test_a_line_that_is_dead_and_says_nothing_is_left(box: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ssh here is stopped: no end of any file tells, the silence does, on both sides."""
    monkeypatch.setattr(dialing, "BEATS", Beats(every=0.2, idle=1.0))
    monkeypatch.setattr(ssh, "END_SECONDS", 0.2)
    async with connect(box.url, world=around(box)) as client:
        await client.call("ping")
        [line] = pump._lines
        bridges = box.bridges()
        line.process.send_signal(signal.SIGSTOP)
        await anyio.to_thread.run_sync(wait_for, lambda: not set(bridges) & set(box.bridges()), "the end of the bridge there", 4)
        assert (await client.call("daemon.status"))["pid"] == box.world.daemons()[0]
        await anyio.to_thread.run_sync(wait_for, lambda: line.process.poll() is not None, "the end of the ssh here", 8)


async def test_what_fails(box: Sshd) -> None:
    cases: list[tuple[str, Mapping[str, str], type[Exception]]] = [
        ("ssh://box", {}, Usage),
        (box.url, {"CUELOOP_REMOTE_COMMAND": "/no/such/cueloop"}, Unreachable),
        ("ssh://127.0.0.1:1/srv", {}, Unreached),
    ]
    for url, environ, kind in cases:
        with pytest.raises(kind):
            async with connect(url, world=around(box, **environ)):
                pass
    assert not issubclass(Misfit, Unreachable)
    assert not pump._lines
