"""What the machine can do at best: its parallel copy bandwidth, its peak of fused multiply-adds and that of
products of bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.cases import IMAGE, Case, bytes_moved, identity
from benchmarks.measure import Effort, run_case
from benchmarks.peers import Contestant
from opendml.description.tensor import TensorDesc
from opendml.targets.cpu.limits import byte_peak, fma_peak

COPIED = ((1, 64, 128, 128), (4, 64, 112, 112), IMAGE)
"""What is copied: float32 tensors of 4, 12 and 49 MiB."""


@dataclass(frozen=True)
class Copy:
    """``bandwidth``: bytes a second in copying ``traffic`` bytes (read and written), and who reached it."""

    traffic: int
    bandwidth: float
    by: str


@dataclass(frozen=True)
class Limits:
    """The copies, smallest first; ``fma_peak`` in floating-point operations and ``byte_peak`` in integer operations a
    second, two for each product and its addition."""

    copies: tuple[Copy, ...]
    fma_peak: float
    byte_peak: float

    def copy_bandwidth(self, traffic: int) -> float:
        """Bytes a second of the copy that moves the most similar number of bytes, since caches favour small ones."""
        return min(self.copies, key=lambda copy: abs(math.log(copy.traffic / traffic))).bandwidth

    def or_better(self, other: Limits) -> Limits:
        """The best of two measurements: what disturbs one makes it slower."""
        pairs = zip(self.copies, other.copies, strict=True)
        best = tuple(max(pair, key=lambda copy: copy.bandwidth) for pair in pairs)
        return Limits(best, max(self.fma_peak, other.fma_peak), max(self.byte_peak, other.byte_peak))


def measure_limits(contestants: Sequence[Contestant], threads: int, effort: Effort) -> Limits:
    """The best copies and the peaks."""
    copies = tuple(_best_copy(sizes, contestants, effort) for sizes in COPIED)
    return Limits(copies, fma_peak(threads), byte_peak(threads))


def _best_copy(sizes: Sequence[int], contestants: Sequence[Contestant], effort: Effort) -> Copy:
    case = Case("limits", "copy", identity(TensorDesc("FLOAT32", sizes)))
    timings = run_case(case, contestants, effort).timings
    best = min(timings, key=lambda name: timings[name].median)
    traffic = bytes_moved(case.operator)
    return Copy(traffic, traffic / timings[best].median, best)
