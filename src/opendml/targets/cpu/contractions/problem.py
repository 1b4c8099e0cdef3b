"""What the loops of a sum of products depend on: its axes, its factors and where these lie."""

from __future__ import annotations

import math
from collections.abc import Sequence

from opendml.expression.affine import Dependencies, Element, loads_of
from opendml.expression.ir import WORD_PRODUCTS, Axis, Binary, Expression, Fold
from opendml.loops.nest import ElementStore
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.words_in_memory import word_in_memory


class Problem:
    """A sum of products: ``axes`` of the outputs, ``stores`` of one ``fold``, and what is asked about its two
    ``factors``, each by its number, the ``side``."""

    def __init__(self, stores: tuple[ElementStore, ...], fold: Fold, axes: list[Axis], target: CpuTarget) -> None:
        product = fold.elements[0]
        assert isinstance(product, Binary)
        self.stores = stores
        self.fold = fold
        self.axes = axes
        self.target, self.machine, self.tuning = target, target.machine, target.tuning
        self.factors = (product.left, product.right)
        dependencies = Dependencies()
        self.sides = tuple(frozenset(a for a in axes if a in dependencies.of(f)) for f in self.factors)
        self.steps = fold.steps
        self.points = math.prod(axis.size for axis in axes)
        self.points_across = tuple(
            math.prod(a.size for a in axes if a in self.sides[1 - s] - self.sides[s]) for s in (0, 1)
        )
        """Points that go through each vector of a side."""
        self.words = tuple(map(word_in_memory, self.factors))
        self.elements = tuple(map(_elements, self.factors))
        self._known_coefficients: dict[tuple[int, Axis], set[int]] = {}
        self._distances = tuple(map(self._steps_apart, (0, 1)))
        self.has_planes = tuple(map(self._is_in_planes, (0, 1)))
        """Whether each step of a side is on pages of its own, at whole lines."""
        self.is_deep = self._is_of_deep_sums()
        self._contiguous = {axis for axis in axes if all(s.address.coefficient(axis) == 1 for s in stores)}

    def _is_of_deep_sums(self) -> bool:
        """Whether there are few sums of so many steps that what these read does not stay in a near cache."""
        tuning, size = self.tuning, self.fold.type.bits // 8
        fewest = tuning.fewest_interrupted * tuning.steps_of_deep_sums
        fewest = max(fewest, tuning.steps_of_deep_sums + self.machine.vector_bytes // size)
        is_long = self.steps >= fewest and [a.size for a in self.fold.axes if a.size > 1] == [self.steps]
        is_plain = len(self.axes) == 2 and self.words == (None, None) and not self.sides[0] & self.sides[1]
        is_small = self.points * size <= tuning.waiting_bytes
        sides = [self.side_bytes(side) for side in (0, 1)]
        is_far = min(sides) >= tuning.vector_side_bytes and sum(sides) > tuning.prefetched_bytes
        return is_long and is_plain and is_small and is_far

    def is_along(self, axis: Axis) -> bool:
        """Whether neighbours along an axis are neighbours in all that is stored."""
        return axis in self._contiguous

    def coefficients(self, side: int, axis: Axis) -> set[int]:
        """How far apart neighbours along an axis are in what a factor loads."""
        found = self._known_coefficients.get((side, axis))
        if found is None:
            found = {e.address.coefficient(axis) for e in self.elements[side]}
            self._known_coefficients[side, axis] = found
        return found

    def is_readable(self, side: int, vector: Axis, packed: bool) -> bool:
        """Whether vectors of a factor can be loaded, or (``packed``) made: it is contiguous along some axis."""
        if self.has_vectors(side, vector):
            return True
        return packed and self.contiguous_step(side) is not None

    def has_vectors(self, side: int, vector: Axis) -> bool:
        """Whether vectors of a factor can be loaded where they lie."""
        return all(0 <= step <= self.tuning.shuffled_stride for step in self.coefficients(side, vector))

    def contiguous_step(self, side: int) -> Axis | None:
        """The axis of the fold along which a factor is contiguous."""
        return next((a for a in self.fold.axes if a.size > 1 and self.coefficients(side, a) == {1}), None)

    def side(self, vector: Axis) -> int:
        """The number of the factor that an axis of its own moves along."""
        return 0 if vector in self.sides[0] else 1

    def distances(self, side: int) -> Sequence[int]:
        """Bytes from one step of the fold to the next one."""
        return self._distances[side]

    def _steps_apart(self, side: int) -> list[int]:
        last = [axis for axis in self.fold.axes if axis.size > 1][-1:]
        size = self.fold.type.bits // 8
        return [abs(step) * size for axis in last for step in self.coefficients(side, axis)]

    def _is_in_planes(self, side: int) -> bool:
        page, line = self.tuning.page_bytes, self.machine.cache_line
        return all(d > page and d % line == 0 for d in self.distances(side) or [0])

    def issued(self, lanes: int) -> int:
        """Multiply-adds of so many lanes that begin in a cycle."""
        is_whole = lanes >= self.machine.lanes(self.fold.type.bits)
        return self.tuning.issued if is_whole else self.tuning.issued_halves

    def packing(self, side: int, vector: Axis) -> float:
        """Cycles for copying the factor of the vector axis."""
        elements = self.steps * math.prod(axis.size for axis in self.axes if axis in self.sides[side])
        return elements * (self.tuning.packing if self.has_vectors(side, vector) else self.tuning.transposing)

    def side_bytes(self, side: int) -> int:
        """Bytes that a factor loads in all, at one point of the axes that both factors share."""
        shared = self.sides[0] & self.sides[1]
        return self.bytes_of(self.elements[side]) // max(1, math.prod(axis.size for axis in shared))

    @staticmethod
    def bytes_of(elements: Sequence[Element]) -> int:
        """Bytes of all tensors that are read."""
        result = 0
        for tensor in {e.tensor for e in elements}:
            size = math.prod(n for n, stride in zip(tensor.sizes, tensor.strides, strict=True) if stride)
            result += size * tensor.type.bits // 8
        return result

    def most_near_bytes(self) -> int:
        """Bytes of the vector side that work items are to have at most."""
        product = self.fold.elements[0]
        is_of_words = isinstance(product, Binary) and product.operation in WORD_PRODUCTS
        return self.tuning.vector_side_bytes_of_words if is_of_words else self.tuning.vector_side_bytes


def _elements(factor: Expression) -> list[Element]:
    """What a factor loads: a word that lies in memory as one element."""
    word = word_in_memory(factor)
    element = None if word is None else word.element
    return loads_of(factor) if element is None else [element]
