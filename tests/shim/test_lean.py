"""The shim's own way to JSON, signals and suppressing: the same as the standard library's, and nothing more is loaded for it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cueloop_daemon.shim.command import command_line
from cueloop_daemon.shim.lean import dumps, loads

VALUES: list[object] = [
    {},
    {"a": [1, 2.5, None, True, False, -0.0, 10**30], "b": {"c": "d"}},
    '\u00fc \ud800 \U0001f600 " \\ \n \x00',
    [[[[]]]],
    0,
]
BAD = [b"", b"  ", b"{", b'{"a":1} x', b"[1,]", b"nul", b"\x00", b'"a\nb"', b"\xff", b"{'a': 1}", b"[1] [2]"]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_json_is_written_and_read_as_by_the_library(value: object) -> None:
    text = dumps(value)
    assert text == json.dumps(value, separators=(",", ":")).encode("ascii")
    assert loads(b" \t\r\n" + text + b" \n") == value
    assert loads(json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "surrogatepass")) == value


@pytest.mark.parametrize("text", BAD, ids=repr)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        loads(text)


def test_what_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(RecursionError):
        loads(b"[" * 100_000)


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(TypeError, match="set has no form"):
        dumps({"a": {1}})


def run(code: str) -> str:
    folders = command_line(sys.executable, 0, 0, 0)[7:9]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.extend({folders!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_an_interpreter_without_the_parts_in_c_has_the_library() -> None:
    code = (
        "sys.modules['_json'] = None; from cueloop_daemon.shim.lean import dumps, loads;"
        "print(dumps(loads(b' {\"a\": [1, null]} ')).decode())"
    )
    assert run(code) == '{"a":[1,null]}'


def test_what_is_no_json_is_refused_also_where_the_library_is_not_loaded() -> None:
    code = (
        "from cueloop_daemon.shim.lean import loads\n"
        f"for text in {BAD!r}:\n    try:\n        print(loads(text))\n    except ValueError:\n        pass\n"
        "print('json' in sys.modules)"
    )
    assert run(code) == "False"


def test_suppressing() -> None:
    code = (
        "from cueloop_daemon.shim.lean import suppress\n"
        "with suppress(KeyError, OSError):\n    raise FileNotFoundError\n"
        "try:\n    with suppress(OSError):\n        raise ValueError('out')\n"
        "except ValueError as exc:\n    print(exc)"
    )
    assert run(code) == "out"


def test_a_shim_loads_nothing_that_takes_long() -> None:
    """Each run waits for its shim; `re`, `enum` and what they load are two fifths of its start."""
    heavy = ("re", "enum", "functools", "collections", "json", "signal", "contextlib", "socket", "subprocess", "dataclasses")
    code = f"import cueloop_daemon.shim.boot; print([name for name in {heavy!r} if name in sys.modules])"
    assert run(code) == "[]"
