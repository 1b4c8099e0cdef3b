"""Where temporary tensors lie: one piece of memory for all, used again as soon as a tensor is no longer needed."""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from opendml.expression.ir import Tensor
from opendml.expression.statements import Definition, own_of, reads_of, writes_of
from opendml.loops.alignment import aligned
from opendml.loops.placement import PLACEMENT, Placement


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Offsets of temporaries in bytes, their sizes, and the size of the whole.

    ``least_size`` is the most that is alive during one statement: these statements in this order need no less.
    """

    offsets: dict[Tensor, int]
    sizes: dict[Tensor, int]
    size: int
    least_size: int

    def span(self, tensor: Tensor) -> tuple[int, int]:
        """Where a temporary begins and ends, in bytes."""
        start = self.offsets[tensor]
        return start, start + self.sizes[tensor]


def plan_memory(definition: Definition, placement: Placement = PLACEMENT) -> MemoryPlan:
    """Offsets for all temporaries: each at the lowest place that is free all through its life, in the one of several
    orders that takes the least memory; or apart from others, where that takes little more."""
    roots = dict(definition.views)
    own = frozenset(own_of(definition.statements))
    sizes = {t: bytes_of(t) for t in definition.temporaries if t not in own}  # threads have those alone
    for view, root in definition.views:
        if root in sizes:
            sizes[root] = max(sizes[root], bytes_of(view))
    found = _lives(definition, roots) if sizes else {}
    lives = {t: found[t] for t in sizes if t in found}
    least_size = _most_alive(lives, sizes)
    best: dict[Tensor, int] = {}
    best_size = -1
    for order in _orders(lives, sizes, placement):
        offsets = _placed(order, lives, sizes)
        size = _size_of(offsets, sizes)
        if best_size < 0 or size < best_size:
            best, best_size = offsets, size
        if size == least_size:
            break
        # Next time those come first that found no place below the least size.
        order.sort(key=lambda t: offsets[t] + sizes[t] <= least_size)
    room = min(int(best_size * placement.growth), best_size + placement.most_growth)
    apart = _apart(lives, sizes, room) if room > best_size else None
    if apart is not None:
        best, best_size = apart, _size_of(apart, sizes)
    return MemoryPlan(best, sizes, best_size, least_size)


def _apart(lives: Mapping[Tensor, tuple[int, int]], sizes: Mapping[Tensor, int], room: int) -> dict[Tensor, int] | None:
    """Offsets of tensors in the order in which they are needed: each where one as large has been, else behind all
    others, else, where there is no room for it, at the lowest free place. None where there is no such place either."""
    offsets: dict[Tensor, int] = {}
    alive, taken, end = list[tuple[int, int, int]](), list[tuple[int, int]](), 0
    known: dict[tuple[int, int], int] = {}  # places in the order in which they were first taken
    left: dict[int, list[tuple[int, int]]] = {}  # those of a size whose tensors are no longer needed, in that order
    for tensor in sorted(lives, key=lambda t: (lives[t][0], -sizes[t])):
        (first, last), size = lives[tensor], sizes[tensor]
        while alive and alive[0][0] < first:
            _, start, stop = heappop(alive)
            del taken[bisect_left(taken, (start, stop))]
            insort(left.setdefault(stop - start, []), (known[start, stop], start))
        places = left.get(size, [])
        found = next((entry for entry in reversed(places) if _is_free(entry[1], entry[1] + size, taken)), None)
        if found is not None:
            places.remove(found)
            place = found[1]
        else:
            place = end if end + size <= room else _first_gap(taken, size)
        if place + size > room:
            return None
        offsets[tensor] = place
        end = max(end, place + size)
        heappush(alive, (last, place, place + size))
        insort(taken, (place, place + size))
        known.setdefault((place, place + size), len(known))
    return offsets


def _is_free(start: int, end: int, taken: Sequence[tuple[int, int]]) -> bool:
    """Whether nothing of what is ``taken``, in order, overlaps a place."""
    number = bisect_left(taken, (start, start))
    is_behind = number == 0 or taken[number - 1][1] <= start
    return is_behind and (number == len(taken) or end <= taken[number][0])


def _size_of(offsets: Mapping[Tensor, int], sizes: Mapping[Tensor, int]) -> int:
    """Where the last tensor ends."""
    return max((start + sizes[tensor] for tensor, start in offsets.items()), default=0)


def _orders(
    lives: Mapping[Tensor, tuple[int, int]], sizes: Mapping[Tensor, int], placement: Placement
) -> Iterator[list[Tensor]]:
    """Lists in which tensors get their places: each by one of ``ORDERS``, then again as it has been changed since."""
    rounds = min(placement.rounds, placement.compared_pairs // max(len(lives), 1) ** 2)
    for order in ORDERS:
        tensors = sorted(lives, key=lambda t: order(sizes[t], *lives[t]))
        for _ in range(1 + rounds):
            yield tensors


ORDERS: Final[tuple[Callable[[int, int, int], tuple[int, ...]], ...]] = (
    lambda size, first, last: (-size, first, last),
    lambda size, first, last: (first - last, -size, first),
    lambda size, first, last: (size * (first - last - 1), first),
    lambda size, first, last: (first, -size, last),
    lambda size, first, last: (-last, -size, first),
)
"""Which tensors get their place first, by size and the first and the last statement that needs them: large ones, those
with a long life, both, and in the order of their beginnings or ends."""


def _placed(
    order: Iterable[Tensor], lives: Mapping[Tensor, tuple[int, int]], sizes: Mapping[Tensor, int]
) -> dict[Tensor, int]:
    """Offsets of tensors that are placed one after another."""
    offsets: dict[Tensor, int] = {}
    alive: dict[int, list[Tensor]] = {}  # those that have a place, by every statement of their lives
    begun: dict[int, list[Tensor]] = {}  # and by the first one
    for tensor in order:
        first, last = lives[tensor]
        later = (other for statement in range(first + 1, last + 1) for other in begun.get(statement, ()))
        taken = sorted((offsets[o], offsets[o] + sizes[o]) for o in (*alive.get(first, ()), *later))
        offsets[tensor] = _first_gap(taken, sizes[tensor])
        begun.setdefault(first, []).append(tensor)
        for statement in range(first, last + 1):
            alive.setdefault(statement, []).append(tensor)
    return offsets


def _most_alive(lives: dict[Tensor, tuple[int, int]], sizes: dict[Tensor, int]) -> int:
    """The largest sum of the sizes of tensors that are needed at the same time."""
    changes: dict[int, int] = {}
    for tensor, (first, last) in lives.items():
        changes[first] = changes.get(first, 0) + sizes[tensor]
        changes[last + 1] = changes.get(last + 1, 0) - sizes[tensor]
    return max(itertools.accumulate(changes[time] for time in sorted(changes)), default=0)


def bytes_of(tensor: Tensor) -> int:
    """The memory of a tensor, whole cache lines."""
    return aligned(tensor.extent * tensor.type.bits // 8)


def _lives(definition: Definition, roots: dict[Tensor, Tensor]) -> dict[Tensor, tuple[int, int]]:
    """The first and the last statement that touches each tensor."""
    lives: dict[Tensor, tuple[int, int]] = {}
    for number, statement in enumerate(definition.statements):
        for tensor in reads_of(statement) | writes_of(statement):
            root = roots.get(tensor, tensor)
            lives[root] = (lives.get(root, (number, number))[0], number)
    return lives


def _first_gap(taken: list[tuple[int, int]], size: int) -> int:
    place = 0
    for start, end in taken:
        if start - place >= size:
            break
        place = max(place, end)
    return place
