"""The client of CueLoop's session daemon: the command line `cueloop`, and a library (`connect`).

The names here are loaded when first used, so that the command line's fast path loads neither anyio nor pydantic.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.api import Client as Client
    from cueloop_client.api import Note as Note
    from cueloop_client.api import RawNote as RawNote
    from cueloop_client.api import Subscription as Subscription
    from cueloop_client.api import connect as connect
    from cueloop_client.failures import Failure as Failure

_MODULE_OF = {
    "Client": "cueloop_client.api",
    "Failure": "cueloop_client.failures",
    "Note": "cueloop_client.api",
    "Subscription": "cueloop_client.api",
    "RawNote": "cueloop_client.api",
    "connect": "cueloop_client.api",
}

__all__ = ["Client", "Failure", "Note", "RawNote", "Subscription", "connect"]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted(__all__)
