"""Where temporary tensors lie: one piece of memory for all, used again as soon as a tensor is no longer needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opendml.expression.ir import Definition, Tensor
from opendml.expression.statements import reads_of, writes_of

ALIGNMENT = 64
"""Bytes to which tensors are aligned: a cache line, and the widest vector."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Offsets of temporaries in bytes, their sizes, and the size of the whole."""

    offsets: dict[Tensor, int]
    sizes: dict[Tensor, int]
    size: int

    def conflict(self, some: Iterable[Tensor], others: Iterable[Tensor]) -> bool:
        """Whether any of some temporaries has bytes in common with another one of others."""
        spans = [(t, *self._span(t)) for t in others if t in self.offsets]
        for tensor in some:
            if tensor in self.offsets:
                start, end = self._span(tensor)
                if any(start < e and s < end for other, s, e in spans if other is not tensor):
                    return True
        return False

    def _span(self, tensor: Tensor) -> tuple[int, int]:
        start = self.offsets[tensor]
        return start, start + self.sizes[tensor]


def plan_memory(definition: Definition) -> MemoryPlan:
    """Offsets for all temporaries: the largest first, each at the lowest place that is free all through its life."""
    roots = dict(definition.views)
    sizes = {t: _bytes(t) for t in definition.temporaries}
    for view, root in definition.views:
        if root in sizes:
            sizes[root] = max(sizes[root], _bytes(view))
    lives = _lives(definition, roots)
    offsets: dict[Tensor, int] = {}
    for tensor in sorted(definition.temporaries, key=lambda t: (-sizes[t], lives.get(t, (0, 0)))):
        if tensor in lives:
            taken = sorted((offsets[o], offsets[o] + sizes[o]) for o in offsets if _overlap(lives[o], lives[tensor]))
            offsets[tensor] = _first_gap(taken, sizes[tensor])
    return MemoryPlan(offsets, sizes, max((offsets[t] + sizes[t] for t in offsets), default=0))


def _bytes(tensor: Tensor) -> int:
    return -(-(tensor.extent * tensor.type.bits // 8) // ALIGNMENT) * ALIGNMENT


def _lives(definition: Definition, roots: dict[Tensor, Tensor]) -> dict[Tensor, tuple[int, int]]:
    """The first and the last statement that touches each tensor."""
    lives: dict[Tensor, tuple[int, int]] = {}
    for number, statement in enumerate(definition.statements):
        for tensor in reads_of(statement) | writes_of(statement):
            root = roots.get(tensor, tensor)
            lives[root] = (lives.get(root, (number, number))[0], number)
    return lives


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]


def _first_gap(taken: list[tuple[int, int]], size: int) -> int:
    place = 0
    for start, end in taken:
        if start - place >= size:
            break
        place = max(place, end)
    return place
