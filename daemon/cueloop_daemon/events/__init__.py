"""Events: a log with cursors that survive restarts, and subscribers that are positions in it."""

from __future__ import annotations

from cueloop_daemon.events.fanout import SnapshotFor as SnapshotFor
from cueloop_daemon.events.fanout import TooManySubscriptions as TooManySubscriptions
from cueloop_daemon.events.hub import Hub as Hub
from cueloop_daemon.events.hub import HubClosed as HubClosed
from cueloop_daemon.events.hub import HubStatus as HubStatus
from cueloop_daemon.events.hub import Overloaded as Overloaded
from cueloop_daemon.events.hub import Subscribed as Subscribed
from cueloop_daemon.events.journal import Journal as Journal
from cueloop_daemon.events.model import LONGEST_PATH as LONGEST_PATH
from cueloop_daemon.events.model import Announced as Announced
from cueloop_daemon.events.model import Filter as Filter
from cueloop_daemon.events.model import Mark as Mark
from cueloop_daemon.events.model import NewEvent as NewEvent
from cueloop_daemon.events.model import Place as Place
from cueloop_daemon.events.sink import Sink as Sink
from cueloop_daemon.events.sink import SinkClosed as SinkClosed

__all__ = [
    "LONGEST_PATH",
    "Announced",
    "Filter",
    "Hub",
    "HubClosed",
    "HubStatus",
    "Journal",
    "Mark",
    "NewEvent",
    "Overloaded",
    "Place",
    "Sink",
    "SinkClosed",
    "SnapshotFor",
    "Subscribed",
    "TooManySubscriptions",
]
