"""The contract of CueLoop's session daemon: documents, methods, notifications, errors, framing, places.

Pure: no sockets, no clock, no environment read below a function's arguments. The names here are loaded when first used, so that
importing one module of the standard library part does not load pydantic.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_protocol.codes import RpcError as RpcError
    from cueloop_protocol.cursor import Cursor as Cursor
    from cueloop_protocol.cursor import CursorError as CursorError
    from cueloop_protocol.framing import Decoder as Decoder
    from cueloop_protocol.framing import FrameError as FrameError
    from cueloop_protocol.framing import Kind as Kind
    from cueloop_protocol.framing import encode as encode
    from cueloop_protocol.methods import METHODS as METHODS
    from cueloop_protocol.methods import MethodSpec as MethodSpec
    from cueloop_protocol.notifications import NOTIFICATIONS as NOTIFICATIONS
    from cueloop_protocol.notifications import NotificationSpec as NotificationSpec
    from cueloop_protocol.roots import Caller as Caller
    from cueloop_protocol.roots import Root as Root

_MODULE_OF = {
    "Caller": "roots",
    "Cursor": "cursor",
    "CursorError": "cursor",
    "Decoder": "framing",
    "FrameError": "framing",
    "Kind": "framing",
    "METHODS": "methods",
    "MethodSpec": "methods",
    "NOTIFICATIONS": "notifications",
    "NotificationSpec": "notifications",
    "Root": "roots",
    "RpcError": "codes",
    "encode": "framing",
}

__all__ = [
    "METHODS",
    "NOTIFICATIONS",
    "Caller",
    "Cursor",
    "CursorError",
    "Decoder",
    "FrameError",
    "Kind",
    "MethodSpec",
    "NotificationSpec",
    "Root",
    "RpcError",
    "encode",
]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
