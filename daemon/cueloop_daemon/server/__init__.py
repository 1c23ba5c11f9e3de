"""The server: a table of methods made available over a Unix socket."""

from __future__ import annotations

from cueloop_daemon.server.limits import Limits as Limits
from cueloop_daemon.server.listener import Listener as Listener
from cueloop_daemon.server.requests import Call as Call
from cueloop_daemon.server.requests import ClientInfo as ClientInfo
from cueloop_daemon.server.requests import Effect as Effect
from cueloop_daemon.server.requests import Entry as Entry
from cueloop_daemon.server.requests import Handler as Handler
from cueloop_daemon.server.requests import Peer as Peer
from cueloop_daemon.server.requests import Reply as Reply
from cueloop_daemon.server.requests import Result as Result
from cueloop_daemon.server.requests import Table as Table
from cueloop_daemon.server.requests import When as When
from cueloop_daemon.server.server import Server as Server

__all__ = [
    "Call",
    "ClientInfo",
    "Effect",
    "Entry",
    "Handler",
    "Limits",
    "Listener",
    "Peer",
    "Reply",
    "Result",
    "Server",
    "Table",
    "When",
]
