"""Hints that files changed, and the clock. Truth is what `stat` and the clock say when asked; all here only says when to ask."""

from cueloop_daemon.watch.alarm import Alarm as Alarm
from cueloop_daemon.watch.choose import ChosenWatcher as ChosenWatcher
from cueloop_daemon.watch.clock import Clock as Clock
from cueloop_daemon.watch.clock import ClockJump as ClockJump
from cueloop_daemon.watch.clock import SystemClock as SystemClock
from cueloop_daemon.watch.watcher import Watcher as Watcher

__all__ = ["Alarm", "ChosenWatcher", "Clock", "ClockJump", "SystemClock", "Watcher"]
