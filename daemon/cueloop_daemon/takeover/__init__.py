"""One daemon takes over from another while callers wait in the queue of the socket, which both have (docs/architecture.md, "Handover").

The heir's side, `ask`, is standard library only. The owner's side is in `bequest` (blocking) and `succession` (in its event loop).
"""

from __future__ import annotations

from cueloop_daemon.takeover.after import acquire_soon as acquire_soon
from cueloop_daemon.takeover.asking import Asked as Asked
from cueloop_daemon.takeover.asking import Nobody as Nobody
from cueloop_daemon.takeover.asking import Stays as Stays
from cueloop_daemon.takeover.asking import Successor as Successor
from cueloop_daemon.takeover.asking import ask as ask
from cueloop_daemon.takeover.inheritance import Inheritance as Inheritance

__all__ = ["Asked", "Inheritance", "Nobody", "Stays", "Successor", "acquire_soon", "ask"]
