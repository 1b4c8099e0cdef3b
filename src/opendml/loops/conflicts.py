"""Which accesses of statements conflict: what must wait for what has been read and written since the last barrier."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence, Set

from opendml.expression.affine import Interval, affine
from opendml.expression.ir import Expression, Tensor
from opendml.expression.statements import Store
from opendml.loops.memory_plan import MemoryPlan

Region = tuple[Interval, ...]
"""The least and the greatest coordinate in every dimension."""


class Regions:
    """Parts of one tensor, in the order in which they begin along each dimension: whether another one meets any of them
    is asked of those alone that come near it, along the dimension where these are the fewest."""

    def __init__(self, rank: int) -> None:
        self._regions: list[Region] = []
        self._begins: list[list[tuple[int, int]]] = [[] for _ in range(rank)]
        self._longest = [0] * rank

    def add(self, region: Region) -> None:
        """Another part of the tensor."""
        number = len(self._regions)
        self._regions.append(region)
        for d, (low, high) in enumerate(region):
            insort(self._begins[d], (low, number))
            self._longest[d] = max(self._longest[d], high - low)

    def meet(self, region: Region) -> bool:
        """Whether ``region`` has elements in common with any part."""
        near: Sequence[tuple[int, int]] | None = None
        for begins, longest, (low, high) in zip(self._begins, self._longest, region, strict=True):
            first, last = bisect_left(begins, (low - longest,)), bisect_left(begins, (high + 1,))
            if near is None or last - first < len(near):
                near = begins[first:last]
        return bool(self._regions) if near is None else any(meet(self._regions[n], region) for _, n in near)


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

    def meet(self, tensors: Iterable[Tensor]) -> bool:
        """Whether any of some tensors has bytes in common with another one of these."""
        for tensor in tensors:
            if tensor in self._plan.offsets:
                start, end = self._plan.span(tensor)
                first, last = bisect_left(self._begins, (start - self._longest,)), bisect_left(self._begins, (end,))
                for _, _, other in self._begins[first:last]:
                    if other is not tensor and self._plan.span(other)[1] > start:
                        return True
        return False


class Accesses:
    """What has been read and written since the last barrier, writes with the regions they cover."""

    def __init__(self, plan: MemoryPlan) -> None:
        self._reads: set[Tensor] = set()
        self._writes: dict[Tensor, Regions] = {}
        self._read_memory, self._written_memory = _Memory(plan), _Memory(plan)

    def conflict(self, reads: Set[Tensor], writes: Mapping[Tensor, Sequence[Region]]) -> bool:
        """Whether what reads and writes some tensors must wait for these."""
        if self._written_memory.meet((*reads, *writes)) or self._read_memory.meet(writes):
            return True
        if any(tensor in self._writes for tensor in reads) or any(tensor in self._reads for tensor in writes):
            return True
        earlier = ((self._writes[tensor], regions) for tensor, regions in writes.items() if tensor in self._writes)
        return any(before.meet(region) for before, regions in earlier for region in regions)

    def add(self, reads: Set[Tensor], writes: Mapping[Tensor, Sequence[Region]]) -> None:
        """Another statement, before the next barrier."""
        self._reads |= reads
        self._read_memory.add(reads)
        self._written_memory.add(writes)
        for tensor, regions in writes.items():
            before = self._writes.setdefault(tensor, Regions(len(tensor.sizes)))
            for region in regions:
                before.add(region)


def written_regions(stores: Iterable[Store]) -> dict[Tensor, list[Region]]:
    """The regions of tensors that stores write to."""
    found: dict[Tensor, list[Region]] = {}
    for store in stores:
        found.setdefault(store.tensor, []).append(_region(store))
    return found


def meet(a: Region, b: Region) -> bool:
    """Whether two regions have elements in common."""
    return all(x[0] <= y[1] and y[0] <= x[1] for x, y in zip(a, b, strict=True))


def _region(store: Store) -> Region:
    """Where in its tensor a store writes to; whole dimensions where that is not known."""

    def reach(coordinate: Expression, size: int) -> Interval:
        return affine(coordinate).range({}) or (0, size - 1)

    return tuple(map(reach, store.coordinates, store.tensor.sizes))
