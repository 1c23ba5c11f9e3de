"""The seams of the run engine: what its parts promise each other. Values are frozen; behaviour is in Protocols.

The program (`runs/program`) does everything through a `World` and a `Journal`, so that tests run it against fakes and count every step.
"""

from cueloop_daemon.runs.types.files import Baseline as Baseline
from cueloop_daemon.runs.types.files import SessionWrite as SessionWrite
from cueloop_daemon.runs.types.files import SessionWriter as SessionWriter
from cueloop_daemon.runs.types.files import TaskConflict as TaskConflict
from cueloop_daemon.runs.types.files import TaskFiles as TaskFiles
from cueloop_daemon.runs.types.files import TasksUnreadable as TasksUnreadable
from cueloop_daemon.runs.types.files import Trees as Trees
from cueloop_daemon.runs.types.files import TreeStanding as TreeStanding
from cueloop_daemon.runs.types.journal import Diverged as Diverged
from cueloop_daemon.runs.types.journal import Journal as Journal
from cueloop_daemon.runs.types.journal import RunCancelled as RunCancelled
from cueloop_daemon.runs.types.shim import Cause as Cause
from cueloop_daemon.runs.types.shim import Exited as Exited
from cueloop_daemon.runs.types.shim import Grown as Grown
from cueloop_daemon.runs.types.shim import Link as Link
from cueloop_daemon.runs.types.shim import LockHeld as LockHeld
from cueloop_daemon.runs.types.shim import LockMade as LockMade
from cueloop_daemon.runs.types.shim import NotStarted as NotStarted
from cueloop_daemon.runs.types.shim import Order as Order
from cueloop_daemon.runs.types.shim import RunFolder as RunFolder
from cueloop_daemon.runs.types.shim import ShimGone as ShimGone
from cueloop_daemon.runs.types.shim import Started as Started
from cueloop_daemon.runs.types.shim import Stream as Stream
from cueloop_daemon.runs.types.world import Conversations as Conversations
from cueloop_daemon.runs.types.world import NoticeKind as NoticeKind
from cueloop_daemon.runs.types.world import Notify as Notify
from cueloop_daemon.runs.types.world import Owed as Owed
from cueloop_daemon.runs.types.world import OwedRow as OwedRow
from cueloop_daemon.runs.types.world import PromptError as PromptError
from cueloop_daemon.runs.types.world import Prompts as Prompts
from cueloop_daemon.runs.types.world import Questions as Questions
from cueloop_daemon.runs.types.world import RunIdentity as RunIdentity
from cueloop_daemon.runs.types.world import StopMarker as StopMarker
from cueloop_daemon.runs.types.world import World as World

__all__ = [
    "Baseline",
    "Cause",
    "Conversations",
    "Diverged",
    "Exited",
    "Grown",
    "Journal",
    "Link",
    "LockHeld",
    "LockMade",
    "NotStarted",
    "NoticeKind",
    "Notify",
    "Order",
    "Owed",
    "OwedRow",
    "PromptError",
    "Prompts",
    "Questions",
    "RunCancelled",
    "RunFolder",
    "RunIdentity",
    "SessionWrite",
    "SessionWriter",
    "ShimGone",
    "Started",
    "StopMarker",
    "Stream",
    "TaskConflict",
    "TaskFiles",
    "TasksUnreadable",
    "TreeStanding",
    "Trees",
    "World",
]
