"""One figure: what was measured, what the floor was in the same run, and whether the bar is met."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number. `runs` and `floors` are of the same length and were taken in turns; the lower is the better."""

    name: str
    unit: str
    runs: tuple[float, ...]
    target: float | None = None
    """The most that `value` may be, in `unit`; None where only the ratio counts."""
    floors: tuple[float, ...] = ()
    floor_is: str = ""
    most_ratio: float | None = None
    """The most that `value` may be of `floor`; None where only the value counts."""
    beside: dict[str, float | str] = field(default_factory=dict)
    """Other numbers of the same runs, for the reader."""

    @property
    def value(self) -> float:
        """The median of the runs."""
        return statistics.median(self.runs)

    @property
    def floor(self) -> float | None:
        """The median of the floors."""
        return statistics.median(self.floors) if self.floors else None

    @property
    def ratio(self) -> float | None:
        """How many times the floor the value is."""
        return self.value / self.floor if self.floor else None

    @property
    def is_met(self) -> bool:
        """Whether both bars are met, those that there are."""
        return (self.target is None or self.value <= self.target) and (
            self.most_ratio is None or (self.ratio is not None and self.ratio <= self.most_ratio)
        )

    def to_line(self) -> str:
        """The figure as one line of JSON."""
        return json.dumps(
            {
                "name": self.name,
                "value": rounded(self.value),
                "unit": self.unit,
                "floor": None if self.floor is None else rounded(self.floor),
                "floor_is": self.floor_is,
                "ratio": None if self.ratio is None else rounded(self.ratio),
                "target": self.target,
                "most_ratio": self.most_ratio,
                "ok": self.is_met,
                "runs": [rounded(one) for one in self.runs],
                "floors": [rounded(one) for one in self.floors],
                **{name: rounded(one) if isinstance(one, float) else one for name, one in self.beside.items()},
            }
        )


def rounded(number: float) -> float:
    """Four digits that mean something."""
    return float(f"{number:.4g}")


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` (0 to 1) of the values do not exceed: nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * int(share * 1000) // 1000) - 1))]


def in_turns(runs: int, measure: Callable[[], float], floor: Callable[[], float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """`runs` pairs of (value, floor), taken in turns so that both see the same machine. One pair before that is thrown away."""
    measure(), floor()
    pairs = [(measure(), floor()) for _ in range(runs)]
    return tuple(value for value, _ in pairs), tuple(least for _, least in pairs)
