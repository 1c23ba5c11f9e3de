"""What `--host` takes: only what ssh and a shell cannot take for something else."""

from __future__ import annotations

import os
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_client.failures import Usage
from cueloop_client.remote.url import HostUrl, parse_host


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ssh://box/srv/app", HostUrl(None, "box", None, "/srv/app")),
        ("ssh://me@box:2222/srv/app", HostUrl("me", "box", 2222, "/srv/app")),
        ("SSH://box/srv/app", HostUrl(None, "box", None, "/srv/app")),
        ("ssh://box/~/code/app", HostUrl(None, "box", None, "~/code/app")),
        ("ssh://box/~", HostUrl(None, "box", None, "~")),
        ("ssh://box/~other", HostUrl(None, "box", None, "/~other")),
        ("ssh://[::1]:22/srv", HostUrl(None, "::1", 22, "/srv")),
        ("ssh://[fe80::1%25eth0]/srv", HostUrl(None, "fe80::1%eth0", None, "/srv")),
        ("ssh://box/with%20blank/%25/%3F%23", HostUrl(None, "box", None, "/with blank/%/?#")),
        ("ssh://box/%FF", HostUrl(None, "box", None, "/\udcff")),
        ("ssh://box/caf%C3%A9", HostUrl(None, "box", None, "/café")),
        ("ssh://a%2Bb@box/x", HostUrl("a+b", "box", None, "/x")),
        ("ssh://dom%5Cme@box/x", HostUrl("dom\\me", "box", None, "/x")),
        ("ssh://me@corp.example@box/x", HostUrl("me@corp.example", "box", None, "/x")),
    ],
)
def test_it_names_a_repository(text: str, wanted: HostUrl) -> None:
    assert parse_host(text) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "takes ssh://"),
        ("box", "takes ssh://"),
        ("box:/srv", "takes ssh://"),
        ("https://box/srv", "takes ssh://"),
        ("ssh:///srv", "names no machine"),
        ("ssh://box", "names no repository"),
        ("ssh://box/", "names no repository"),
        ("ssh://-oProxyCommand=sh/srv", "no host name"),
        ("ssh://%2DoProxyCommand=sh/srv", "no host name"),
        ("ssh://-l@box/srv", "no user name"),
        ("ssh://%2Dl@box/srv", "no user name"),
        ("ssh://me%20you@box/srv", "no user name"),
        ("ssh://bo%0Ax/srv", "no host name"),
        ("ssh://b%40x/srv", "no host name"),
        ("ssh://@box/srv", "no user name"),
        ("ssh://me:secret@box/srv", "no password"),
        ("ssh://box:0/srv", "no port"),
        ("ssh://box:65536/srv", "no port"),
        ("ssh://box:/srv", "no port"),
        ("ssh://box:22x/srv", "no port"),
        ("ssh://box:٢٢/srv", "no port"),
        ("ssh://::1/srv", "stands in brackets"),
        ("ssh://[::1/srv", "no IPv6 address"),
        ("ssh://[box]/srv", "no IPv6 address"),
        ("ssh://[::1]x/srv", "no IPv6 address"),
        ("ssh://box/srv?x", "%3F"),
        ("ssh://box/srv#x", "%23"),
        ("ssh://box/50%", "%25"),
        ("ssh://box/a%00b", "no NUL"),
    ],
)
def test_all_else_is_wrong_usage(text: str, why: str) -> None:
    with pytest.raises(Usage, match=f".*{why}"):
        parse_host(text)


paths = st.binary(min_size=1, max_size=40).filter(lambda path: b"\0" not in path and not path.startswith(b"~"))


@given(path=paths, port=st.none() | st.integers(1, 65535))
def test_any_path_can_be_named(path: bytes, port: int | None) -> None:
    text = f"ssh://me@box{'' if port is None else f':{port}'}/{quote(path, safe='')}"
    assert parse_host(text) == HostUrl("me", "box", port, "/" + os.fsdecode(path))


@given(text=st.text(max_size=60).map(lambda rest: f"ssh://{rest}"))
def test_whatever_is_taken_is_harmless_as_an_argument(text: str) -> None:
    try:
        url = parse_host(text)
    except Usage:
        return
    for word in filter(None, (url.user, url.host)):
        assert not word.startswith("-")
        assert word.isprintable()
        assert not set(word) & set(" \t\n\r'\"`;|&<>()")
    assert url.path.startswith(("/", "~"))


def test_the_machine_for_people() -> None:
    assert parse_host("ssh://me@box:2222/x").machine == "me@box:2222"
    assert parse_host("ssh://[::1]:22/x").machine == "[::1]:22"
    assert parse_host("ssh://box/x").machine == "box"
