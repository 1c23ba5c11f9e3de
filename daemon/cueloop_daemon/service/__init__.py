"""What is different under a service manager: the socket comes from it, and it wants to be told how we are.

`origin` reads who started us, `activation` and `launchd` take the socket, `waiting` and `owned` answer those who wait where we cannot
serve, `notify` and `watchdog` tell. All but `watchdog` is standard library only: `__main__` needs it before it owns the repository.
"""
