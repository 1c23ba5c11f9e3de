"""The process that holds a run: queue lock, agents, their pipes and exits. It outlives the daemon. Standard library only.

Nothing is exported here: the daemon's side imports `wire`, `spec` and `command`; the process itself begins in `boot`.
"""
