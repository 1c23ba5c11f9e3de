"""The script of cold starts, a few times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_each_cold_start_answers_its_first_request() -> None:
    script = Path(__file__).with_name("cold_starts.py")
    done = subprocess.run([sys.executable, "-P", str(script), "3"], capture_output=True, timeout=120, check=True)
    told = json.loads(done.stdout)
    assert told["answered"] == 3
    assert 0 < told["floor_p50"] < told["p50"] <= told["max"]
