"""A client: calls with deadlines over one connection that is made again when it is lost, and subscriptions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import anyio
import anyio.abc
import anyio.to_thread
from pydantic import BaseModel

from cueloop_client.again import await_leaving
from cueloop_client.api.link import Link, Opener
from cueloop_client.api.subscription import Subscription
from cueloop_client.calling import READING, with_caller
from cueloop_client.exchange import result_of
from cueloop_client.failures import BadAnswer, Lost, Silent, Unsent
from cueloop_client.world import World, real_world
from cueloop_protocol.codes import SHUTTING_DOWN, RpcError
from cueloop_protocol.cursor import Cursor
from cueloop_protocol.roots import Root, find_root

SECONDS = 10.0
"""How long a call may take unless it says otherwise."""
WITHDRAW_SECONDS = 1.0
NO_REQUEST = 0

M = TypeVar("M", bound=BaseModel)


@asynccontextmanager
async def connect(
    root: Root | str | None = None, *, start: bool = True, timeout: float = SECONDS, world: World | None = None
) -> AsyncIterator[Client]:
    """A client of the repository's daemon, for as long as the block lasts; the daemon itself stays.

    `root`: a Root, a folder in the repository, None for the one around the working directory, or `ssh://user@box/path`.
    `start`: the daemon may be started, now and whenever it is lost. `timeout`: seconds for each call. Works on asyncio and trio.

    Raises RootError, NoDaemon, StartFailed, Silent, Stranger or Misfit (`cueloop_client.failures`) if no connection can be had.
    """
    around = world or real_world("")
    if isinstance(root, str) and root.startswith("ssh://"):
        from cueloop_client.remote.place import far_place

        found: Root
        found, around = far_place(root, around)
    else:
        found = root if isinstance(root, Root) else find_root(root)
    opener = Opener(found, around, may_start=start, seconds=timeout)
    raised: Exception | None = None
    async with anyio.create_task_group() as group:
        client = Client(opener, group, timeout)
        try:
            await client.open()
            yield client
        except Exception as exc:
            raised = exc  # raised inside, the group would wrap it and no caller's `except` would fit
        finally:
            await client.aclose()
            group.cancel_scope.cancel()
    if raised is not None:
        raise raised


class _Waiting:
    """A call whose answer is to come over `link`."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.arrived = anyio.Event()
        self.message: dict[str, Any] = {}
        self.failure: Exception | None = None


class Client:
    """Calls and subscriptions; made by `connect`. Any number of tasks may call at the same time."""

    def __init__(self, opener: Opener, group: anyio.abc.TaskGroup, seconds: float) -> None:
        self._opener = opener
        self._group = group
        self._seconds = seconds
        self._link: Link | None = None
        self._opening = anyio.Lock()
        self._waiting: dict[int, _Waiting] = {}
        self._subscriptions: set[Subscription] = set()
        self._last = 0

    @property
    def root(self) -> Root:
        """The repository."""
        return self._opener.root

    async def open(self) -> None:
        """Connect now and not with the first call. Raises what `connect` does."""
        await self._connected()

    async def aclose(self) -> None:
        """Close the connection, and those of the subscriptions; calls that wait raise Lost."""
        for subscription in list(self._subscriptions):
            await subscription.aclose()
        if self._link is not None:
            await self._link.aclose()

    async def call(self, method: str, params: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> Any:
        """The result of one call, as plain JSON values. `caller` is added where the method takes it.

        Raises RpcError for an answer that is an error; Silent if there is none within the time; Lost if the connection ended
        first (a call that only reads is sent once more before). Cancelled, it tells the daemon so.
        """
        seconds = self._seconds if timeout is None else timeout
        asked = with_caller(self._opener.world.caller(), method, params or {})
        with anyio.move_on_after(seconds):
            return await self._ask(method, asked)
        raise Silent(f"The daemon did not answer {method} within {seconds:g} s.", "It may be busy: try again with more time.")

    async def ask(
        self, method: str, model: type[M], params: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> M:
        """Like `call`, with the result as the model of `cueloop_protocol.results`; what a newer daemon adds is left out.

        Raises BadAnswer if the result does not fit, too.
        """
        result = await self.call(method, params, timeout=timeout)
        try:
            return model.model_validate(result, extra="ignore")
        except ValueError as exc:
            raise BadAnswer(f"The daemon's answer to {method} does not fit this version.", str(exc)) from exc

    def subscribe(
        self,
        *,
        cursor: Cursor | str | None = None,
        kinds: Sequence[str] | None = None,
        run_id: str | None = None,
        on_interruption: Callable[[str], None] | None = None,
    ) -> Subscription:
        """What happens from the cursor on (None: from now): iterate over it. It ends with its `async with`, else with the client.

        It has a connection of its own, so that a slow reader holds up no call. `on_interruption` is told why a connection ended
        before the next is made. See `Subscription`.
        """
        params: dict[str, Any] = {}
        if kinds is not None:
            params["kinds"] = list(kinds)
        if run_id is not None:
            params["run_id"] = run_id
        asked = with_caller(self._opener.world.caller(), "events.subscribe", params)
        at = None if cursor is None else str(cursor)
        return Subscription(self._opener, asked, at, self._seconds, on_interruption, self._subscriptions)

    async def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        again = method in READING
        while True:
            link = await self._connected()
            try:
                return await self._ask_over(link, method, params)
            except Unsent:
                continue  # bounded by the call's time
            except Lost:
                if not again:
                    raise
                again = False
            except RpcError as exc:
                has_successor = exc.data.get("reason") == "replaced"
                if exc.code != SHUTTING_DOWN or not (has_successor or self._opener.may_start):
                    raise
                await link.aclose()  # nothing was done by it; its successor is asked
                if not has_successor:
                    await self._await_leaving(exc)

    async def _ask_over(self, link: Link, method: str, params: Mapping[str, Any]) -> Any:
        self._last += 1
        number = self._last
        waiting = self._waiting[number] = _Waiting(link)
        try:
            await link.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            await waiting.arrived.wait()
        except anyio.get_cancelled_exc_class():
            await self._withdraw(link, number)
            raise
        finally:
            del self._waiting[number]
        if waiting.failure is not None:
            raise waiting.failure
        return result_of(waiting.message, number)

    async def _withdraw(self, link: Link, number: int) -> None:
        if not link.is_open:
            return
        with anyio.CancelScope(shield=True), anyio.move_on_after(WITHDRAW_SECONDS), suppress(Lost):
            await link.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})

    async def _await_leaving(self, exc: RpcError) -> None:
        opener = self._opener
        deadline = opener.world.deadline(self._seconds)
        await anyio.to_thread.run_sync(await_leaving, exc, opener.root, opener.world, deadline, abandon_on_cancel=True)

    async def _connected(self) -> Link:
        async with self._opening:
            if self._link is None or not self._link.is_open:
                self._link = await self._opener.open()
                self._group.start_soon(self._read, self._link)
            return self._link

    async def _read(self, link: Link) -> None:
        """Hand each answer to the call that waits for it, until the connection ends; then tell those that still wait."""
        failure: Exception = Lost("The connection to the daemon ended before the answer came.")
        try:
            while True:
                self._route(link, await link.receive())
        except (Lost, BadAnswer, RpcError) as exc:
            failure = exc
        finally:
            for waiting in self._waiting.values():
                if waiting.link is link and not waiting.arrived.is_set():
                    waiting.failure = failure
                    waiting.arrived.set()
            await link.aclose()

    def _route(self, link: Link, message: dict[str, Any]) -> None:
        if "method" in message:
            return
        number = message.get("id")
        if type(number) is int and number in self._waiting and self._waiting[number].link is link:
            self._waiting[number].message = message
            self._waiting[number].arrived.set()
        elif type(number) is not int or not 0 < number <= self._last:
            result_of(message, NO_REQUEST)  # an error without an id says why the daemon closes; any other id was never asked
            raise BadAnswer("The daemon answered a request that was not made.")
