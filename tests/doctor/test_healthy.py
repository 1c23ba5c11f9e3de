"""No false alarm: nothing is wrong with healthy repositories. `python tests/doctor/healthy.py 1000` visits more of them."""

from __future__ import annotations

import pytest

from doctor.healthy import visit
from doctor.lab import codes


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_a_healthy_repository_is_called_healthy(first: int) -> None:
    for number in range(first, first + 10):
        document = visit(number)
        assert codes(document, "error", "warning") == [], f"number {number}: {document.findings}"
        assert document.healthy
