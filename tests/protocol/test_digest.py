"""The digest of names: the same as everybody's SHA-256, without loading OpenSSL for it."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from cueloop_protocol.digest import hex_digest


@pytest.mark.parametrize("data", [b"", b"abc", b"x" * 63, b"x" * 64, "/ä/\udcff".encode("utf-8", "surrogateescape")])
def test_is_sha256(data: bytes) -> None:
    assert hex_digest(data) == hashlib.sha256(data).hexdigest()


def test_a_root_is_named_without_openssl() -> None:
    code = (
        "import sys; from cueloop_protocol.place import root_hash; from cueloop_protocol.roots import Caller, Root;"
        "root_hash(Root('/a', '/a')), Caller('/home', None).key; sys.exit('_hashlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
