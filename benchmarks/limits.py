"""What the machine can do at best: its parallel copy bandwidth, its peak of fused multiply-adds and that of
products of bytes.

Processors that others use too are not equally fast all the time, and what disturbs a measurement makes it slower. So
the limits of a section are the best of several measurements: copies before and after its rows, peaks between them too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.cases import IMAGE, Case, bytes_moved, floating_point_operations, identity, integer_operations
from benchmarks.measure import Effort, run_case
from benchmarks.peers import Contestant
from opendml.description.tensor import TensorDesc
from opendml.targets.cpu.limits import byte_peak, fma_peak
from opendml.targets.machine_limits import MachineLimits

Sizes = tuple[int, ...]

COPIED: Final[tuple[Sizes, ...]] = ((1, 64, 128, 128), (4, 64, 112, 112), IMAGE)
"""What is copied: float32 tensors of 4, 12 and 49 MiB."""

PEAK_SECONDS: Final = 0.1
"""How long a peak is measured each time."""


@dataclass(frozen=True)
class Copy:
    """``bandwidth``: bytes a second in copying ``traffic`` bytes (read and written), and who reached it."""

    traffic: int
    bandwidth: float
    by: str

    def __post_init__(self) -> None:
        if self.traffic < 1 or not self.bandwidth > 0:
            raise ValueError(f"bytes and their rate must be positive, got {self.traffic} and {self.bandwidth}")


@dataclass(frozen=True)
class Limits:
    """The copies, smallest first; ``fma_peak`` in floating-point operations and ``byte_peak`` in integer operations a
    second, two for each product and its addition. What no row needs has not been measured."""

    copies: tuple[Copy, ...] = ()
    fma_peak: float | None = None
    byte_peak: float | None = None

    def __post_init__(self) -> None:
        if self.fma_peak == 0 or self.byte_peak == 0:
            raise ValueError("peaks must be positive")

    def copy_bandwidth(self, traffic: int) -> float | None:
        """Bytes a second of the copy that moves the most similar number of bytes, since caches favour small ones."""
        similar = min(self.copies, key=lambda copy: _distance(copy.traffic, traffic), default=None)
        return None if similar is None else similar.bandwidth

    def or_better(self, other: Limits) -> Limits:
        """The best of two measurements."""
        best: dict[int, Copy] = {}
        for copy in (*self.copies, *other.copies):
            known = best.get(copy.traffic)
            best[copy.traffic] = copy if known is None or copy.bandwidth > known.bandwidth else known
        peaks = (_larger(self.fma_peak, other.fma_peak), _larger(self.byte_peak, other.byte_peak))
        return Limits(tuple(best[traffic] for traffic in sorted(best)), *peaks)


def _larger(one: float | None, other: float | None) -> float | None:
    return max((peak for peak in (one, other) if peak is not None), default=None)


def _distance(one: int, other: int) -> float:
    return abs(math.log(one / other)) if one and other else math.inf


@dataclass(frozen=True)
class Needs:
    """Which limits tell something about some cases: copies of these sizes, and the peaks."""

    copies: tuple[Sizes, ...] = ()
    fma_peak: bool = False
    byte_peak: bool = False

    @staticmethod
    def of(cases: Iterable[Case]) -> Needs:
        """That of what cases compute, or else of a copy as large as what they move."""
        copies: set[Sizes] = set()
        peaks = [False, False]
        for case in cases:
            counts = (floating_point_operations(case.operator), integer_operations(case.operator))
            peaks = [peak or count > 0 for peak, count in zip(peaks, counts, strict=True)]
            if not any(counts):
                traffic = bytes_moved(case.operator)
                copies.add(min(COPIED, key=lambda sizes: _distance(8 * math.prod(sizes), traffic)))
        return Needs(tuple(sizes for sizes in COPIED if sizes in copies), *peaks)


@dataclass
class Watch:
    """Measures what is needed: ``copy`` the best bandwidth for a tensor's sizes, ``fma_peak`` and ``byte_peak`` the
    machine's."""

    copy: Callable[[Sizes], Copy]
    fma_peak: Callable[[], float]
    byte_peak: Callable[[], float]
    _last: dict[Sizes, Copy] = field(default_factory=dict)

    def before(self, needs: Needs) -> Limits:
        """Before a section. Copies that were measured behind the last one are those."""
        known = {sizes: copy for sizes, copy in self._last.items() if sizes in needs.copies}
        copies = tuple(known[sizes] if sizes in known else self.copy(sizes) for sizes in needs.copies)
        return Limits(copies).or_better(self.between(needs))

    def between(self, needs: Needs) -> Limits:
        """Between two rows: the peaks, which take a moment."""
        return Limits(
            fma_peak=self.fma_peak() if needs.fma_peak else None,
            byte_peak=self.byte_peak() if needs.byte_peak else None,
        )

    def after(self, needs: Needs) -> Limits:
        """Behind a section."""
        self._last = {sizes: self.copy(sizes) for sizes in needs.copies}
        return Limits(tuple(self._last.values())).or_better(self.between(needs))


def watch(contestants: Sequence[Contestant], threads: int, effort: Effort) -> Watch:
    """Of this machine, whose copies all contestants try."""
    return Watch(
        lambda sizes: _best_copy(sizes, contestants, effort),
        lambda: fma_peak(threads, PEAK_SECONDS),
        lambda: byte_peak(threads, PEAK_SECONDS),
    )


def _best_copy(sizes: Sequence[int], contestants: Sequence[Contestant], effort: Effort) -> Copy:
    case = Case("limits", "copy", identity(TensorDesc("FLOAT32", sizes)))
    timings = run_case(case, contestants, effort).timings
    best = min(timings, key=lambda name: timings[name].median)
    traffic = bytes_moved(case.operator)
    return Copy(traffic, traffic / timings[best].median, best)


def better(one: MachineLimits | None, other: MachineLimits | None) -> MachineLimits | None:
    """The best of two measurements of the limits of kernels, for the same copies."""
    if one is None or other is None:
        return other if one is None else one
    rates = dict(one.copies)
    for traffic, rate in other.copies:
        rates[traffic] = max(rate, rates.get(traffic, 0.0))
    peaks = (max(one.fma_peak, other.fma_peak), max(one.byte_peak, other.byte_peak))
    return MachineLimits(one.thread_count, tuple(sorted(rates.items())), *peaks)
