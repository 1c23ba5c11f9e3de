"""SHA-256 without what `hashlib` loads before it can give one: OpenSSL, as much as all else that a command needs. Standard library only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha256 import sha256  # CPython 3.11
    except ImportError:
        try:
            from _sha2 import sha256  # from 3.12 on
        except ImportError:
            from hashlib import sha256


def hex_digest(data: bytes) -> str:
    """The 64 hexadecimal digits of the SHA-256 of `data`: for names, a few bytes at a time."""
    return sha256(data).hexdigest()
