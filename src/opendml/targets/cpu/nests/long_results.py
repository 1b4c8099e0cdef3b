"""Long results of sums of products: written out once for the points of a tile, not at each of them.

An activation of twenty operations at each of twelve registers of sums is most of the code of a kernel, and of the time
that LLVM takes for it. Sums that wait in the nearest cache for a loop over the points of their tile take no longer.
Where tiles are transposed, what single sums are for is computed before that: all lanes are of use then, also where a
tile has fewer points than a register has lanes. They are stored in a loop, too, as are those of the narrower tiles of
what is left, where these are few.
"""

from __future__ import annotations

from collections.abc import Callable

from opendml.expression.affine import Affine, Element
from opendml.expression.ir import Axis, Expression, Part, Variable, temporary
from opendml.expression.rewriting import substitute, walk
from opendml.loops.nest import Body, ElementStore, Kind, Leaf
from opendml.targets.cpu.contraction import ContractionKernel
from opendml.targets.cpu.kernel_parts import is_part, work_of_values
from opendml.targets.cpu.nests.corners import Corner, corner_of, each_from_here
from opendml.targets.cpu.nests.tile_counts import TileCounts
from opendml.targets.cpu.tuning import Tuning

Tiling = Callable[[Kind, TileCounts, Body], Body]
"""A body at all registers of a tile."""


class LongResults:
    """A loop over the sums of tiles, which are in ``memory``: a row of registers for each point of a tile. Of a tile
    that is transposed behind it, it computes what is ``made`` of single sums; without that, tiles are transposed from
    there where they are narrower than others."""

    def __init__(self, kernel: ContractionKernel, made: Expression | None, total: Variable, tile: Tiling) -> None:
        rest = 0 if kernel.rest is None else kernel.rest.size * kernel.rest.rows
        rows = max(kernel.tile_size * kernel.row_count, rest)
        self.memory = temporary("waiting", kernel.fold.type, (rows, kernel.strip))
        self.made = made
        self._kernel = kernel
        self._total = total
        self._tile = tile

    def stored(self, counts: TileCounts, leaves: Callable[[Expression], Body]) -> Body:
        """The registers of sums to memory, and from there to the leaves."""
        corner = self._corner(counts)
        waiting = Element(self.memory, corner.address, True)
        return corner.begins((*self._kept(counts, corner.address), *self._each(counts, leaves(waiting))))

    def replaced(self, counts: TileCounts, stored: Callable[[TileCounts], Body]) -> Body:
        """What is made of the registers of sums takes their place, and is stored a row and a register at a time."""
        corner = self._corner(counts)
        made: Body = ()
        waiting = Element(self.memory, corner.address, True)
        if self.made is not None:
            value = substitute({Part(self._kernel.fold, 0): waiting})(self.made)
            made = self._each(counts, (Leaf((ElementStore(self.memory, corner.address, value),)),))
        one = counts._replace(rows=1, vectors=1)
        back = self._tile("together", one, (Leaf(registers=(self._total,), values=(waiting,)),))
        body = each_from_here(self._kernel.vector, counts.vectors, (*back, *stored(one)), self._kernel.lanes)
        if counts.row is not None:
            body = each_from_here(counts.row, counts.rows, body, counts.row_step)
        return corner.begins((*self._kept(counts, corner.address), *made, *body))

    def _corner(self, counts: TileCounts) -> Corner:
        kernel = self._kernel
        rows = {} if counts.row is None else {counts.row: counts.points * kernel.strip}
        return corner_of({**rows, kernel.tile: kernel.strip, kernel.vector: 1})

    def _kept(self, counts: TileCounts, place: Affine) -> Body:
        return self._tile("unrolled", counts, (Leaf((ElementStore(self.memory, place, self._total),)),))

    def _each(self, counts: TileCounts, leaves: Body) -> Body:
        """Loops over the points of a tile."""
        row = counts._replace(points=1, rows=1)
        body = self._tile("unrolled", row, leaves)
        for axis in dict.fromkeys((counts.tile, counts.row)):
            if axis is not None:
                body = each_from_here(axis, counts.along(axis), body)
        return body


def long_results(kernel: ContractionKernel, tuning: Tuning, total: Variable, tile: Tiling) -> LongResults | None:
    """What is made of the registers ``total`` of a ``tile``, if it is worth a loop: bytes, which are packed from
    several registers, are not, nor what is made of sums that are in memory anyway."""
    if kernel.words is not None or kernel.steps_at_once or any(s.tensor.type.bits <= 8 for s in kernel.stores):
        return None
    made = _made_of_single_sums(kernel) if kernel.turned else None
    values = [store.value for store in kernel.stores] if made is None else [made]
    if work_of_values(values, tuning) < tuning.long_results:
        made, is_of_use = None, kernel.turned and kernel.rest is not None
    else:
        is_of_use = made is not None or not kernel.turned or kernel.rest is not None
    return LongResults(kernel, made, total, tile) if is_of_use else None


def _made_of_single_sums(kernel: ContractionKernel) -> Expression | None:
    """What all results are made of, the more the better, that belongs to single sums, with whatever lies beside these
    along the vector axis."""
    total, values = Part(kernel.fold, 0), [store.value for store in kernel.stores]
    candidates = (e for e in walk(values[0], is_part) if e.type is total.type)
    made = next((e for e in candidates if _is_of_single_sums(e, total, kernel.vector)), None)
    others = (e for value in values for e in walk(value, lambda e: e in (made, total)))
    return None if total in others else made


def _is_of_single_sums(e: Expression, total: Part, vector: Axis) -> bool:
    parts = list(walk(e, is_part))
    return total in parts and all(
        part.address.coefficient(vector) in (0, 1) for part in parts if isinstance(part, Element)
    )
