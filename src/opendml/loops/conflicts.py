"""Which accesses of statements conflict: what must wait for what has been read and written since the last barrier."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from opendml.expression.affine import Interval, Region, affine, meet
from opendml.expression.ir import Expression, Tensor
from opendml.expression.statements import Store
from opendml.loops.memory_plan import MemoryPlan

Who = int | None
"""By whom something is read or written: the thread that has the turn of this number, or all threads together."""


class Regions:
    """Parts of one tensor and who writes them, in the order in which they begin along each dimension: whether another
    one meets any of them is asked of those alone that come near it, along the dimension where these are the fewest."""

    def __init__(self, rank: int) -> None:
        self._writers: dict[Region, set[Who]] = {}
        self._begins: list[list[tuple[int, Region]]] = [[] for _ in range(rank)]
        self._longest = [0] * rank

    def add(self, region: Region, who: Who = None) -> None:
        """Another part of the tensor."""
        if region in self._writers:
            self._writers[region].add(who)
            return
        self._writers[region] = {who}
        for d, (low, high) in enumerate(region):
            insort(self._begins[d], (low, region))
            self._longest[d] = max(self._longest[d], high - low)

    def met_by(self, region: Region) -> Iterator[Set[Who]]:
        """Who writes the parts that ``region`` has elements in common with."""
        near: Sequence[tuple[int, Region]] | None = None
        for begins, longest, (low, high) in zip(self._begins, self._longest, region, strict=True):
            first, last = bisect_left(begins, (low - longest,)), bisect_left(begins, (high + 1,))
            if near is None or last - first < len(near):
                near = begins[first:last]
        parts = self._writers if near is None else (part for _, part in near)
        return (self._writers[part] for part in parts if meet(part, region))


class _Memory:
    """Temporary tensors in the order in which they lie in memory."""

    def __init__(self, plan: MemoryPlan) -> None:
        self._plan = plan
        self._tensors: dict[Tensor, None] = {}
        self._begins: list[tuple[int, int, Tensor]] = []
        self._longest = 0

    def add(self, tensors: Iterable[Tensor]) -> None:
        """More tensors; those that are no temporaries are left out."""
        for tensor in tensors:
            if tensor in self._plan.offsets and tensor not in self._tensors:
                start, end = self._plan.span(tensor)
                insort(self._begins, (start, len(self._tensors), tensor))
                self._tensors[tensor] = None
                self._longest = max(self._longest, end - start)

    def met_by(self, tensors: Iterable[Tensor]) -> Iterator[Tensor]:
        """Those that any of some tensors, another one, has bytes in common with."""
        for tensor in tensors:
            if tensor in self._plan.offsets:
                start, end = self._plan.span(tensor)
                first, last = bisect_left(self._begins, (start - self._longest,)), bisect_left(self._begins, (end,))
                for _, _, other in self._begins[first:last]:
                    if other is not tensor and self._plan.span(other)[1] > start:
                        yield other


class Accesses:
    """What has been read and written since the last barrier, writes with the regions they cover."""

    def __init__(self, plan: MemoryPlan) -> None:
        self._readers: dict[Tensor, set[Who]] = {}
        self._writers: dict[Tensor, set[Who]] = {}
        self._regions: dict[Tensor, Regions] = {}
        self._read_memory, self._written_memory = _Memory(plan), _Memory(plan)

    def conflicts(self, reads: Set[Tensor], writes: Mapping[Tensor, Sequence[Region]]) -> Set[Who]:
        """Whom a statement that reads and writes some tensors must come behind: nobody, one, or at least two."""
        found = set[Who]()
        for others in self._met_by(reads, writes):
            found |= others
            if len(found) > 1:
                break
        return found

    def _met_by(self, reads: Set[Tensor], writes: Mapping[Tensor, Sequence[Region]]) -> Iterator[Set[Who]]:
        readers, writers = self._readers, self._writers
        yield from (writers[tensor] for tensor in self._written_memory.met_by((*reads, *writes)))
        yield from (readers[tensor] for tensor in self._read_memory.met_by(writes))
        yield from (writers[tensor] for tensor in reads if tensor in writers)
        yield from (readers[tensor] for tensor in writes if tensor in readers)
        for tensor, regions in writes.items():
            if tensor in self._regions:
                yield from (who for region in regions for who in self._regions[tensor].met_by(region))

    def add(self, reads: Set[Tensor], writes: Mapping[Tensor, Sequence[Region]], who: Who) -> None:
        """Another statement, before the next barrier."""
        self._read_memory.add(reads)
        self._written_memory.add(writes)
        for tensor in reads:
            self._readers.setdefault(tensor, set()).add(who)
        for tensor, regions in writes.items():
            self._writers.setdefault(tensor, set()).add(who)
            before = self._regions.setdefault(tensor, Regions(len(tensor.sizes)))
            for region in regions:
                before.add(region, who)


def written_regions(stores: Iterable[Store]) -> dict[Tensor, list[Region]]:
    """The regions of tensors that stores write to."""
    found: dict[Tensor, list[Region]] = {}
    for store in stores:
        found.setdefault(store.tensor, []).append(_region(store))
    return found


def _region(store: Store) -> Region:
    """Where in its tensor a store writes to; whole dimensions where that is not known."""

    def reach(coordinate: Expression, size: int) -> Interval:
        return affine(coordinate).range({}) or (0, size - 1)

    region = tuple(map(reach, store.coordinates, store.tensor.sizes))
    if store.margins is None:
        return region
    low, high = region[-1]
    return (*region[:-1], (low - store.margins.before, high + store.margins.behind))
