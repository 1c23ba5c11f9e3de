"""The pure part of runs: what a run begins with, how it ends, what is tried again."""
