"""The daemon's side of the shim: starting and finding one, talking to it, and what is to be done when it is gone."""

from cueloop_daemon.runs.shim.autopsy import Born as Born
from cueloop_daemon.runs.shim.autopsy import ShimRecord as ShimRecord
from cueloop_daemon.runs.shim.autopsy import read_record as read_record
from cueloop_daemon.runs.shim.autopsy import release_lock as release_lock
from cueloop_daemon.runs.shim.folder import Folder as Folder
from cueloop_daemon.runs.shim.folders import RunFolders as RunFolders
from cueloop_daemon.runs.shim.hearing import Fenced as Fenced
from cueloop_daemon.runs.shim.hearing import Hearing as Hearing
from cueloop_daemon.runs.shim.hearing import LinkClosed as LinkClosed
from cueloop_daemon.runs.shim.hearing import ShimCancelled as ShimCancelled
from cueloop_daemon.runs.shim.hearing import ShimMistake as ShimMistake
from cueloop_daemon.runs.shim.hearing import Silence as Silence
from cueloop_daemon.runs.shim.hearing import Superseded as Superseded
from cueloop_daemon.runs.shim.hearing import Trouble as Trouble
from cueloop_daemon.runs.shim.holder import Judge as Judge
from cueloop_daemon.runs.shim.holder import judge_with as judge_with
from cueloop_daemon.runs.shim.link import ShimLink as ShimLink
from cueloop_daemon.runs.shim.orphans import Ended as Ended
from cueloop_daemon.runs.shim.orphans import Means as Means
from cueloop_daemon.runs.shim.orphans import clear_up as clear_up
from cueloop_daemon.runs.shim.orphans import end_shim as end_shim
from cueloop_daemon.runs.shim.orphans import end_unknown as end_unknown
from cueloop_daemon.runs.shim.processes import Processes as Processes
from cueloop_daemon.runs.shim.processes import system_processes as system_processes
from cueloop_daemon.runs.shim.spawn import Gone as Gone
from cueloop_daemon.runs.shim.spawn import ShimFailed as ShimFailed
from cueloop_daemon.runs.shim.spawn import ShimSpec as ShimSpec
from cueloop_daemon.runs.shim.spawn import ShimUnreachable as ShimUnreachable
from cueloop_daemon.runs.shim.spawn import ensure_shim as ensure_shim
from cueloop_daemon.runs.shim.sweep import Sweep as Sweep
from cueloop_daemon.runs.shim.sweep import Swept as Swept
from cueloop_daemon.runs.shim.sweep import end_leftovers as end_leftovers
from cueloop_daemon.runs.shim.sweep import leftovers as leftovers

__all__ = [
    "Born",
    "Ended",
    "Fenced",
    "Folder",
    "Gone",
    "Hearing",
    "Judge",
    "LinkClosed",
    "Means",
    "Processes",
    "RunFolders",
    "ShimCancelled",
    "ShimFailed",
    "ShimLink",
    "ShimMistake",
    "ShimRecord",
    "ShimSpec",
    "ShimUnreachable",
    "Silence",
    "Superseded",
    "Sweep",
    "Swept",
    "Trouble",
    "clear_up",
    "end_leftovers",
    "end_shim",
    "end_unknown",
    "ensure_shim",
    "judge_with",
    "leftovers",
    "read_record",
    "release_lock",
    "system_processes",
]
