"""How the speed grows with the size of the arrays, from the first level of the cache to 512 MiB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.cases import Case, Growth, bytes_moved
from benchmarks.measure import Effort, run_case
from benchmarks.peers import Contestant

SIZES = tuple(1 << exponent for exponent in (14, 16, 18, 20, 22, 24, 26, 28, 29))
QUICK_SIZES = tuple(1 << exponent for exponent in (14, 18, 22, 26))


@dataclass
class Curve:
    """Bytes a second of each contestant, read and written, over the size of the first input in bytes."""

    name: str
    speeds: dict[str, list[tuple[int, float]]] = field(default_factory=dict)


def measure_growth(
    chosen: Iterable[Growth],
    contestants: Sequence[Contestant],
    sizes: Sequence[int],
    effort: Effort,
    progress: Callable[[str], None],
) -> Iterator[Curve]:
    """A curve for each chosen operator of the plot."""
    for growth in chosen:
        curve = Curve(growth.name)
        for size in sizes:
            progress(f"growth: {growth.name}, {size >> 10} KiB")
            operator = growth.build(size)
            for name, timing in run_case(Case("growth", growth.name, operator), contestants, effort).timings.items():
                curve.speeds.setdefault(name, []).append((size, bytes_moved(operator) / timing.median))
        yield curve
