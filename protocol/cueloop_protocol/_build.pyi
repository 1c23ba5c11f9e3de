"""Written by `hatch_build.py` into sdists and wheels; a checkout has none."""

COMMIT: str | None
COMMIT_DATE: str | None
CHANGED: bool
