"""From a valid message to a call that is ready to be made: `jsonrpcserver` looks the method up and hands over the parameters.

Its synchronous entry does the JSON-RPC semantics; nothing is run inside it. The function that it calls only reads the parameters
and remembers the call, which the server then makes itself, so that cancellation, shields and deadlines hold.
"""

from __future__ import annotations

import inspect
import logging
import marshal
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from cueloop_daemon.server.envelope import ABSENT, Absent, Id, Message
from cueloop_daemon.server.lean import without_door
from cueloop_daemon.server.requests import Entry, Table
from cueloop_protocol import codes
from cueloop_protocol.base import problems
from cueloop_protocol.codes import RpcError
from cueloop_protocol.values import dataclass

# Its door imports an HTTP server and a schema validator, which we replace: 60 ms of each start and 5 MB for good.
with without_door("jsonrpcserver"):
    from jsonrpcserver.dispatcher import create_request, dispatch_request
    from jsonrpcserver.result import InvalidParams, Success

log = logging.getLogger(__name__)
S = TypeVar("S")

MOST_KNOWN = 256
"""Parameters that are remembered, of short requests, since clients ask the same again and again; at one more all are forgotten."""


@dataclass(frozen=True, slots=True)
class Bound(Generic[S]):
    """A call that can be made: its parameters are read."""

    id: Id | Absent
    method: str
    entry: Entry[S, Any]
    params: BaseModel

    @property
    def wants_answer(self) -> bool:
        """Whether it is a request and no notification."""
        return self.id is not ABSENT


class _Slot:
    """Where the called function leaves what it found out. One per message."""

    __slots__ = ("error", "params")

    def __init__(self) -> None:
        self.params: BaseModel | None = None
        self.error: RpcError | None = None


class Dispatcher(Generic[S]):
    """The methods of one server."""

    def __init__(self, table: Table[S]) -> None:
        self._table = dict(table)
        self._methods = {name: _taker(entry.params) for name, entry in table.items()}
        self._known: dict[tuple[str, bytes], BaseModel] = {}

    def bind(self, message: Message) -> Bound[S] | RpcError:
        """The call that `message` asks for, or why it cannot be made: no such method, or parameters that do not fit."""
        entry = self._table.get(message.method)
        if entry is None:
            return codes.method_not_found(message.method)
        if entry.durable or not message.is_short:  # parameters of durable calls may have secrets, and are not kept
            return self._read(message, entry)
        key = (message.method, _image(message.params))
        known = self._known.get(key)
        if known is not None:
            return Bound(message.id, message.method, entry, known)
        found = self._read(message, entry)
        if isinstance(found, Bound):
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = found.params
        return found

    def _read(self, message: Message, entry: Entry[S, Any]) -> Bound[S] | RpcError:
        slot = _Slot()
        # The step of its synchronous entry that looks up and calls. The steps around it read and check the text of a request and
        # write that of the answer, which is done here already; left in, they are a third of a whole request's cost.
        _, response = dispatch_request(self._methods, slot, create_request(dict(message.raw)))
        if slot.params is not None:
            return Bound(message.id, message.method, entry, slot.params)
        if slot.error is not None:
            return slot.error
        log.error("dispatch_failed method=%s response=%r", message.method, response)
        return codes.internal_error()

    def is_durable(self, method: str) -> bool:
        """Whether a call of `method`, once begun, outlives its connection."""
        entry = self._table.get(method)
        return entry is not None and entry.durable


def _image(params: Any) -> bytes:
    """Bytes that only the same JSON value has, types included: `true`, 1 and 1.0 are three."""
    return b"" if params is ABSENT else marshal.dumps(params, 2)


def told(error: Exception, method: str) -> RpcError:
    """What the peer hears of an exception: an RpcError as it is, of anything else only that there was one. That is logged."""
    inner = error
    while isinstance(inner, ExceptionGroup) and len(inner.exceptions) == 1:
        inner = inner.exceptions[0]
    if isinstance(inner, RpcError):
        return inner
    log.error("call_failed method=%s", method, exc_info=error)
    return codes.internal_error()


def _taker(model: type[BaseModel]) -> Callable[..., Any]:
    """The function that `jsonrpcserver` calls: parameters by name, or the same object as the only one by position."""
    validate = model.model_validate

    def take(slot: _Slot, /, *by_position: Any, **by_name: Any) -> Any:
        given = by_name
        if by_position:
            given = by_position[0]
            if len(by_position) > 1 or not isinstance(given, Mapping):
                return _refuse(slot, codes.invalid_params([{"path": "", "message": "parameters are given by name"}]))
        try:
            slot.params = validate(given)
        except ValidationError as error:
            return _refuse(slot, codes.invalid_params(problems(error)))
        return Success()

    # Without it the library computes the signature anew for each request, which is half of its cost.
    take.__signature__ = _TakesAnything()  # type: ignore[attr-defined]  # functions take any attribute
    return take


class _TakesAnything(inspect.Signature):
    """The signature of a function that takes any arguments: there is nothing to find out, and it is asked each time."""

    def bind(self, /, *args: Any, **kwargs: Any) -> inspect.BoundArguments:
        return _NOTHING_BOUND


_NOTHING_BOUND = inspect.BoundArguments(inspect.Signature(), OrderedDict())


def _refuse(slot: _Slot, error: RpcError) -> Any:
    slot.error = error
    return InvalidParams(error.data)
