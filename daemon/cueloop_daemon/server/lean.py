"""Parts of a package without the whole of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec


@contextmanager
def without_door(package: str) -> Iterator[None]:
    """Inside, modules of `package` can be imported and its `__init__` is not run; what they import of it by name must be modules.

    Afterwards the package itself counts as not imported, so whoever imports it gets it whole, made of the same modules. Nothing
    is different where it is imported already. Raises ModuleNotFoundError if it is not installed.
    """
    if package in sys.modules:
        yield
        return
    spec = find_spec(package)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    sys.modules[package] = module_from_spec(spec)
    try:
        yield
    finally:
        del sys.modules[package]
