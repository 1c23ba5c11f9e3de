"""Marks: how far each source of each run was told, so that what is published again after a crash is not told again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cueloop_daemon.events.model import Mark, NewEvent


class Marks:
    """The highest position of each source. The hub has one of what it accepted, the journal one of what is committed."""

    def __init__(self, known: Mapping[tuple[str, str], int] | None = None) -> None:
        self._at = dict(known or {})

    def __iter__(self) -> Iterator[Mark]:
        return (Mark(*place, position) for place, position in self._at.items())

    def position(self, run_id: str, source: str) -> int:
        """How far this source was told; -1: nothing of it was."""
        return self._at.get((run_id, source), -1)

    def runs(self) -> frozenset[str]:
        """Runs that have marks."""
        return frozenset(run_id for run_id, _ in self._at)

    def untold(self, events: Sequence[NewEvent]) -> tuple[list[NewEvent], tuple[Mark, ...]]:
        """The events that were not told before, and the marks that stand once they are. Changes nothing: see `take`."""
        fresh: list[NewEvent] = []
        made: dict[tuple[str, str], int] = {}
        for event in events:
            if event.mark is not None:
                run_id, source, position = event.mark
                if position <= made.get((run_id, source), self.position(run_id, source)):
                    continue
                made[run_id, source] = position
            fresh.append(event)
        return fresh, tuple(Mark(*place, position) for place, position in made.items())

    def take(self, marks: Iterable[Mark]) -> None:
        """These stand now."""
        for run_id, source, position in marks:
            self._at[run_id, source] = position

    def forget(self, runs: Sequence[str]) -> None:
        """Nothing of these runs will be published again."""
        if runs:
            self._at = {place: position for place, position in self._at.items() if place[0] not in runs}
