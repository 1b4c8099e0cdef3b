"""What is kept of the samples of a time, and of a race."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

OPENDML: Final = "opendml"


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the median, the minimum and the quartiles of the samples, one a round."""

    median: float
    minimum: float
    lower: float
    upper: float
    rounds: int

    def __post_init__(self) -> None:
        times = [self.median, self.minimum, self.lower, self.upper]
        if not all(time > 0 for time in times) or self.rounds < 1:
            raise ValueError(f"times and rounds must be positive, got {times} of {self.rounds}")

    @staticmethod
    def of(samples: Sequence[float]) -> Timing:
        """What there is to say of one sample or more."""
        several = samples if len(samples) > 1 else [*samples, *samples]
        lower, median, upper = statistics.quantiles(several, n=4, method="inclusive")
        return Timing(median, min(samples), lower, upper, len(samples))


@dataclass(kw_only=True)
class Outcome:
    """A race. ``faults`` says which contestant failed or disagreed, ``absent`` who cannot take part."""

    timings: dict[str, Timing] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    @property
    def own(self) -> Timing | None:
        """The timing of opendml."""
        return self.timings.get(OPENDML)

    @property
    def best_peer(self) -> str | None:
        """Whose median is the shortest of all but opendml's."""
        peers = [name for name in self.timings if name != OPENDML]
        return min(peers, key=lambda name: self.timings[name].median) if peers else None

    def ratio(self, attribute: str = "median") -> float | None:
        """How many times faster than the best peer opendml is."""
        peers = [getattr(timing, attribute) for name, timing in self.timings.items() if name != OPENDML]
        return min(peers) / getattr(self.own, attribute) if peers and self.own is not None else None

    def ratio_to(self, name: str) -> float | None:
        """How many times faster than one peer opendml is, in the median."""
        peer = self.timings.get(name)
        return None if peer is None or self.own is None else peer.median / self.own.median
