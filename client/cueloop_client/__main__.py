"""`python -m cueloop_client` is `cueloop`."""

from __future__ import annotations

import sys

from cueloop_client.main import main

if __name__ == "__main__":
    sys.exit(main())
