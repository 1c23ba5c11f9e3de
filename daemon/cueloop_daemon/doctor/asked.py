"""What the command knows and the doctor cannot see: how the daemon answered, who is calling, what the service manager says."""

from __future__ import annotations

from typing import Literal

from cueloop_protocol.base import Items, JsonObject, OpenWire


class ServiceFact(OpenWire):
    """A unit of the service manager for this repository that is not well: what is wrong, and what to do, each a plain sentence."""

    unit: str
    problem: str
    remedy: str


class Asked(OpenWire):
    """`state` is how the daemon was met: `unusable` covers a stranger at its place and an answer that is none.

    `status` is the result of `daemon.status` where it runs; `message`, `detail` say what else happened; `seconds` were waited.
    `program` is the path by which the command was started, `rust_tool` where commands would be passed on to.
    """

    state: Literal["none", "running", "silent", "misfit", "unusable", "not_asked"]
    status: JsonObject | None = None
    message: str = ""
    detail: str = ""
    seconds: float = 0.0
    program: str = ""
    version: str
    rust_tool: str | None = None
    with_agents: bool = True
    service: Items[ServiceFact] = ()
