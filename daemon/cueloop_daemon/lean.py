"""The libraries that a daemon stands on, imported without what a daemon never does: encryption, and plugins of pydantic.

OpenSSL and the reader of installed packages are 7 MB of an idle daemon. Nothing is taken from anybody: who needs them later imports them
as always. Only `asyncio` has no transports for TLS then, as where Python was built without OpenSSL.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

_OWN_HASHES = "_md5", "_sha1", "_sha3", "_blake2", *(("_sha2",) if sys.version_info >= (3, 12) else ("_sha256", "_sha512"))
"""What `hashlib` has without OpenSSL. Builds that leave some of it out need OpenSSL for them."""


class _Later(ModuleType):
    """Stands for a module until something of it is used; then that is looked up in the module itself.

    While others import it, each name that they take of it is a function that does so when called: enough for what only annotates or is
    called, and where it is not, the error says so at once, at the import.
    """

    def __init__(self, name: str, given: dict[str, object]) -> None:
        super().__init__(name)
        self.is_importing = True
        self._given = given

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if not self.is_importing:
            return getattr(import_module(self.__name__), name)
        return self._given.get(name) or _later(self.__name__, name)


def _later(module: str, name: str) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> object:
        found: object = getattr(import_module(module), name)(*args, **kwargs)
        return found

    return call


@contextmanager
def later(name: str, **given: object) -> Iterator[None]:
    """Inside, whoever imports module `name` gets a stand-in that loads it with its first use after; `given` are names that it has itself.

    Nothing is different where the module is imported already. Afterwards it counts as not imported, and the next import is of itself.
    """
    if name in sys.modules:
        yield
        return
    stand_in = sys.modules[name] = _Later(name, given)
    package, _, last = name.rpartition(".")
    if package:
        setattr(import_module(package), last, stand_in)  # until the module itself is imported, which puts itself there
    try:
        yield
    finally:
        stand_in.is_importing = False
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]


@contextmanager
def absent(name: str) -> Iterator[None]:
    """Inside, this module cannot be imported (ModuleNotFoundError), unless it is already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # how the import system is told so
    try:
        yield
    finally:
        if sys.modules[name] is None:
            del sys.modules[name]


def import_libraries() -> None:
    """Import what the daemon stands on, without what it never needs. Before anything else that imports it."""
    if all(find_spec(name) is not None for name in _OWN_HASHES):
        with absent("_hashlib"):
            import_module("hashlib")
            import_module("hmac")
    with absent("ssl"):
        import_module("asyncio")
    with later("ssl"):
        _import_if_it_can_be("anyio", "anyio._backends._asyncio")
    with later("importlib.metadata", entry_points=_no_packages, distributions=_no_packages):
        # Plugins are looked for with the first schema that is built: the module that looks is imported while none are to be found.
        _import_if_it_can_be("pydantic", "pydantic.plugin._loader")


def _import_if_it_can_be(package: str, module: str) -> None:
    """Import a module of a package; one of a version that needs the module itself is left to be imported as always."""
    before = set(sys.modules)
    try:
        import_module(module)
    except Exception:
        for name in set(sys.modules) - before:
            if name.split(".")[0] == package:
                del sys.modules[name]


def _no_packages(**_: object) -> tuple[()]:
    """No installed package has a plugin for us: what strangers do to models is nothing that a daemon may do."""
    return ()
