"""Where a task is taken up."""

from __future__ import annotations

import pytest

from cueloop_daemon.core.runs.taking_up import Count, TakenUp, count_of, first_phase, is_reached, last_phase, taken_up
from cueloop_protocol.documents.queue import TaskAgent
from cueloop_protocol.overrides import Overrides
from decision_world import config, session


def own(**given: object) -> TaskAgent:
    return TaskAgent.model_validate(given)


def taken(task: dict[str, object] | None, call: dict[str, object], **agent: object) -> TakenUp:
    return taken_up(config(**agent).agent, None if task is None else own(**task), Overrides.model_validate(call), None)


@pytest.mark.parametrize(("phases", "first", "last"), [(1, 2, 2), (2, 1, 2), (3, 1, 3)])
def test_phases_by_number(phases: int, first: int, last: int) -> None:
    """A single phase is 2."""
    assert (first_phase(phases), last_phase(phases)) == (first, last)
    assert taken(None, {}, phases=phases) == TakenUp(phases, first, 1, 1, is_worked=False)


def test_call_before_task_before_configuration() -> None:
    assert taken({}, {}, phases=3, iterations=2) == TakenUp(3, 1, 2, 1, is_worked=False)
    assert taken({"phases": 2, "iterations": 4}, {}, phases=3, iterations=2) == TakenUp(2, 1, 4, 1, is_worked=False)
    assert taken({"phases": 2}, {"phases": 1}, phases=3).phases == 1
    assert taken({"phases": 2}, {"quick": True}, phases=3).phases == 1


def test_more_iterations_than_a_session_can_count() -> None:
    agent = config().agent.model_copy(update={"iterations": 300})
    assert taken_up(agent, None, Overrides(), session(iterations_planned=255, iterations_completed=254)).iterations == 300


@pytest.mark.parametrize(
    ("phases", "iterations", "saved", "phase", "iteration", "last", "is_worked", "warned"),
    [
        # (planned, completed, phase) in the session
        (3, 1, (1, 0, 1), 1, 1, 1, False, None),
        (3, 1, (1, 0, 3), 3, 1, 1, False, None),
        (2, 1, (1, 0, 3), 2, 1, 1, False, "is in phase 3; this run has 2 phases"),
        (1, 1, (1, 0, 3), 2, 1, 1, False, "is in phase 3; this run has one phase"),
        (1, 1, (1, 0, 2), 2, 1, 1, False, None),
        (1, 1, (1, 0, 1), 2, 1, 1, False, None),
        (3, 3, (2, 1, 2), 2, 2, 3, False, None),
        # The iteration under way is finished where fewer are configured by now.
        (3, 1, (2, 1, 2), 2, 2, 2, False, None),
        # All were completed: only the gate and what follows.
        (3, 2, (2, 2, 3), 3, 2, 2, True, None),
        (3, 2, (2, 2, 1), 3, 2, 2, True, None),
        (1, 1, (1, 1, 3), 2, 1, 1, True, "is in phase 3"),
        # More are configured by now.
        (3, 3, (2, 2, 3), 3, 3, 3, False, None),
    ],
)
def test_a_session_goes_on(
    phases: int,
    iterations: int,
    saved: tuple[int, int, int],
    phase: int,
    iteration: int,
    last: int,
    is_worked: bool,
    warned: str | None,
) -> None:
    planned, completed, current = saved
    old = session(iterations_planned=planned, iterations_completed=completed, current_phase=current)
    found = taken_up(config(phases=phases, iterations=iterations).agent, None, Overrides(), old)
    assert (found.phase, found.iteration, found.iterations, found.is_worked) == (phase, iteration, last, is_worked)
    assert [warned in text for text in found.warnings] == [True] if warned else found.warnings == ()


@pytest.mark.parametrize(
    ("mode", "wanted", "so_far", "saved", "expected"),
    [
        ("one", None, (0, 0), None, (0, 1)),
        ("one", None, (0, 0), (3, 10), (3, 1)),
        ("loop", None, (0, 0), None, (0, 0)),
        ("loop", 5, (0, 5), None, (0, 5)),
        ("loop", None, (2, 5), None, (2, 5)),
        ("loop", None, (0, 0), (3, 10), (3, 10)),
        ("loop", 7, (0, 7), (3, 10), (3, 7)),
        ("loop", 0, (0, 0), (3, 10), (3, 0)),
    ],
)
def test_the_count_of_the_loop(
    mode: str, wanted: int | None, so_far: tuple[int, int], saved: tuple[int, int] | None, expected: tuple[int, int]
) -> None:
    """The saved count and limit go on, unless the call gives its own limit."""
    old = None if saved is None else session(tasks_completed_in_loop=saved[0], max_tasks=saved[1])
    assert count_of(mode, wanted, Count(*so_far), old) == Count(*expected)


@pytest.mark.parametrize(("done", "limit", "reached"), [(0, 0, False), (9, 0, False), (0, 1, False), (1, 1, True), (3, 2, True)])
def test_whether_the_limit_is_reached(done: int, limit: int, reached: bool) -> None:
    assert is_reached(Count(done, limit)) is reached
