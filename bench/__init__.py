"""What the daemon costs, each figure beside its floor: the least that the same machine needs for the same kind of thing."""
