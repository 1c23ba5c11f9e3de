"""The asynchronous library: `async with connect(root) as client`, on asyncio and trio. The names are loaded when first used."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.api.client import Client as Client
    from cueloop_client.api.client import connect as connect
    from cueloop_client.api.notes import Note as Note
    from cueloop_client.api.stream import RawNote as RawNote
    from cueloop_client.api.stream import RepositoryGone as RepositoryGone
    from cueloop_client.api.subscription import Subscription as Subscription

_MODULE_OF = {
    "Client": "client",
    "Note": "notes",
    "RawNote": "stream",
    "RepositoryGone": "stream",
    "Subscription": "subscription",
    "connect": "client",
}

__all__ = ["Client", "Note", "RawNote", "RepositoryGone", "Subscription", "connect"]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
