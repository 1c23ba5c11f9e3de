"""SIGKILL of client, daemon, shim and agent at random moments (`runs_trials.py` has the rules, and makes more of them)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from faults.runs_trials import VICTIMS, Trials


def test_sixty_runs_with_kills_leave_no_orphan_start_nothing_twice_and_keep_all_output() -> None:
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda seed: Trials(30, seed).all(), (1, 2)))
    assert all(sum(one.killed[victim] for one in done) > 0 for victim in VICTIMS)
    assert sum(one.ended["ran"] for one in done) > 0
