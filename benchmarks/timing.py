"""What is kept of the samples of a time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the median, the minimum and the quartiles of the samples, one a round."""

    median: float
    minimum: float
    lower: float
    upper: float
    rounds: int

    @staticmethod
    def of(samples: Sequence[float]) -> Timing:
        """What there is to say of one sample or more."""
        several = samples if len(samples) > 1 else [*samples, *samples]
        lower, median, upper = statistics.quantiles(several, n=4, method="inclusive")
        return Timing(median, min(samples), lower, upper, len(samples))
