"""What a shim needs of `json`, `signal` and `contextlib`, without `re`, `enum`, `functools` and `collections`, which come with them.

Those take two fifths of the time in which a shim is there, and each run waits for its shim. Standard library only: the C parts that
the modules themselves stand on; where an interpreter has others, the modules.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signal
    from contextlib import suppress as suppress
else:
    import _signal as signal

    class suppress:
        """See `contextlib.suppress`. Not for exception groups."""

        def __init__(self, *kinds: type[BaseException]) -> None:
            self._kinds = kinds

        def __enter__(self) -> None:
            return None

        def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
            return kind is not None and issubclass(kind, self._kinds)


__all__ = ["dumps", "loads", "signal", "suppress"]

_SPACE = " \t\n\r"


def loads(data: bytes) -> object:
    """The value of a JSON text in UTF-8. Raises ValueError, and RecursionError where it is nested too deep."""
    text = data.decode("utf-8", "surrogatepass")
    try:
        value, end = _scan(text, len(text) - len(text.lstrip(_SPACE)))
    except (StopIteration, SystemError):
        # SystemError: the scanner looks for the error that `json.decoder` has, which is not loaded here.
        raise ValueError("no JSON value") from None
    if text[end:].strip(_SPACE):
        raise ValueError(f"something follows the JSON value at character {end}")
    return value


def dumps(value: object) -> bytes:
    """The value as JSON: ASCII, in one line, without spaces. Raises TypeError and ValueError for what has no such form."""
    return "".join(_encode(value, 0)).encode("ascii")


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} has no form in JSON")


class _Strict:
    """How values are read: as `json.loads` does by default."""

    strict = True
    object_hook = object_pairs_hook = array_hook = memo = None
    parse_float = float
    parse_int = int
    parse_constant = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}.__getitem__


if TYPE_CHECKING:

    def _scan(text: str, begin: int) -> tuple[object, int]:
        """The value that begins there, and where it ends. Raises StopIteration where none does."""

    def _encode(value: object, level: int) -> tuple[str, ...]:
        """The pieces of its text."""
else:
    try:
        from _json import encode_basestring_ascii, make_encoder, make_scanner

        _scan = make_scanner(_Strict)
        _encode = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, True)
    except (ImportError, TypeError, AttributeError):
        from json import JSONDecoder, JSONEncoder

        _scan = JSONDecoder().scan_once
        _encoder = JSONEncoder(separators=(",", ":"), default=_refuse)

        def _encode(value, level):
            return (_encoder.encode(value),)
