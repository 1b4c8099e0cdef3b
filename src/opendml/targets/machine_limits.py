"""What a machine can do at best: bandwidth of copies, peaks of fused multiply-adds and of products of bytes."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineLimits:
    """Limits for a number of threads.

    ``copies`` are pairs of bytes moved (read and written together) and bytes a second, smallest first: caches favour
    small ones. ``fma_peak`` is in float32 operations a second, two for each fused multiply-add;
    ``byte_peak`` in integer operations a second, two for each product of bytes and its addition.
    """

    thread_count: int
    copies: tuple[tuple[int, float], ...]
    fma_peak: float
    byte_peak: float = math.inf

    def bandwidth(self, traffic: float) -> float:
        """Bytes a second of a copy that moves as many bytes, between those that were measured."""
        sizes = [size for size, _ in self.copies]
        place = bisect.bisect(sizes, traffic)
        if place in (0, len(sizes)):
            return self.copies[min(place, len(sizes) - 1)][1]
        (low, slow), (high, fast) = self.copies[place - 1 : place + 1]
        share = math.log(traffic / low) / math.log(high / low)
        return math.exp((1 - share) * math.log(slow) + share * math.log(fast))

    def least_seconds(self, traffic: float, operations: float, integer_operations: float = 0) -> float:
        """What moving the bytes or computing takes, whichever is longer."""
        return max(traffic / self.bandwidth(traffic), self.computing(operations, integer_operations))

    def computing(self, operations: float, integer_operations: float) -> float:
        """Seconds that operations take, of numbers of either kind."""
        return operations / self.fma_peak + integer_operations / self.byte_peak
