"""The repository as every caller sees it: files read when they changed, snapshots swapped whole."""

from cueloop_daemon.workspace.view import View as View
from cueloop_daemon.workspace.workspace import Workspace as Workspace

__all__ = ["View", "Workspace"]
