"""The tests that drive the real CLIs are collected for `make agents` alone, which sets CUELOOP_AGENTS and installs them."""

import os

collect_ignore = [] if os.environ.get("CUELOOP_AGENTS") else ["test_direct.py", "test_real.py"]
