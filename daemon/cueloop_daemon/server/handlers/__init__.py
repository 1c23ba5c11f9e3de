"""The handlers, and the table that says which method is whose."""

from cueloop_daemon.server.handlers.table import TABLE as TABLE

__all__ = ["TABLE"]
