"""Notifications as bytes, put together from pieces that are encoded once. Framing (LSP header, line feed) is the sink's part."""

from __future__ import annotations

import json

from cueloop_daemon.events.model import Method, Row
from cueloop_protocol.cursor import Cursor


def one_line(params: bytes) -> bytes:
    """The same JSON object without raw line feeds and outer blanks. ValueError if it is no object.

    In JSON a raw line feed stands only between tokens, so that a blank there changes nothing.
    """
    line = params.replace(b"\n", b" ").strip() if b"\n" in params or params[:1] != b"{" or params[-1:] != b"}" else params
    if line[:1] != b"{" or line[-1:] != b"}" or len(line) < 2:
        raise ValueError("the params of an event are one JSON object")
    return line


def head(subscription: str, method: Method) -> bytes:
    """What comes before `tail`: the same for every event of this method to this subscriber."""
    return f'{{"jsonrpc":"2.0","method":"{method}","params":{{"subscription":{json.dumps(subscription)}'.encode()


def tail(epoch: str, row: Row) -> bytes:
    """What comes after `head`: the same for every subscriber."""
    rest = row.params[1:]
    comma = b"" if rest.lstrip() == b"}" else b","
    return b',"cursor":"%s:%d"%s%s}' % (epoch.encode(), row.seq, comma, rest)


def gap(subscription: str, missed_from: Cursor, to: Cursor, snapshot: bytes) -> bytes:
    """Says that what lies after `missed_from` up to `to` will not be told; the stream goes on after `to`, its cursor."""
    place = json.dumps(
        {"subscription": subscription, "cursor": str(to), "from": str(missed_from), "to": str(to)}, separators=(",", ":")
    )
    return b'{"jsonrpc":"2.0","method":"gap","params":%s,"snapshot":%s}}' % (place[:-1].encode(), one_line(snapshot))
