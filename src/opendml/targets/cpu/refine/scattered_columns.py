"""Scatters along the rows of a large matrix, some columns at a time: what updates go to stays in a near cache.

A copy of a tensor and a ``Scatter`` into it which leaves every update in its column would write to one row after
another, each on a page of its own, all at the same places of a cache. Columns are independent: the statements become
those of a block of columns, of which a thread has a copy that is packed, updates it there and writes it to where it
belongs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from opendml.expression.ir import Axis, Expression, Index, Tensor, index, indices, load, temporary
from opendml.expression.rewriting import substitute
from opendml.expression.statements import Compute, Definition, Each, Scatter, Statement, Store, reads_of
from opendml.targets.cpu.refine.accesses import is_whole
from opendml.targets.cpu.refine.refinement import Surroundings
from opendml.targets.cpu.target import CpuTarget


def blocks_of_columns(definition: Definition, around: Surroundings) -> Definition:
    """The definition with the scatters of which that is worth it."""
    statements = list[Statement]()
    temporaries = list(definition.temporaries)
    for statement in definition.statements:
        copy = statements[-1] if statements else None
        found = None
        if isinstance(statement, Scatter) and isinstance(copy, Compute):
            found = _columns(copy, statement, around.target)
        if found is None:
            statements.append(statement)
        else:
            made = list(found.in_blocks())
            statements[-1:] = made
            temporaries += [tensor for each in made for tensor in each.own]
    if len(temporaries) == len(definition.temporaries):
        return definition
    return replace(definition, statements=tuple(statements), temporaries=tuple(temporaries))


def _columns(copy: Compute, scatter: Scatter, target: CpuTarget) -> _Columns | None:
    """The blocks: None where columns are what is scattered, or all is near, or there are few updates or one block."""
    tuning, tensor = target.tuning, scatter.store.tensor
    if not is_whole(copy, tensor) or tensor in reads_of(scatter) | reads_of(copy):
        return None
    fixed = {d: axis for d in range(len(tensor.sizes)) if (axis := _own_axis(scatter, d)) is not None}
    last, size = len(tensor.sizes) - 1, tensor.type.bits // 8
    if last not in fixed or tensor.strides[last] != 1:
        return None
    outer = {d: axis for d, axis in fixed.items() if d != last and axis.size > 1}
    rows = math.prod(n for d, n in enumerate(tensor.sizes) if d != last and d not in outer)
    line = target.machine.cache_line // max(size, 1)
    width = tuning.scattered_columns_bytes // max(rows * size, 1) // line * line
    width = min(width, tuning.scattered_columns)
    is_far = rows * tensor.sizes[last] * size >= tuning.prefetched_bytes
    updates = math.prod(axis.size for axis in scatter.axes)
    is_worth = tuning.updates_worth_copies * updates >= math.prod(tensor.sizes) and width < tensor.sizes[last]
    return _Columns(copy, scatter, outer, last, width) if width and is_far and is_worth else None


def _own_axis(scatter: Scatter, dimension: int) -> Axis | None:
    """The axis that a dimension's coordinates are, and no other's: no two of its points store to the same element."""
    places, size = scatter.store.coordinates, scatter.store.tensor.sizes[dimension]
    place = places[dimension]
    is_own = isinstance(place, Index) and place.axis.size == size and places.count(place) == 1
    return place.axis if is_own and isinstance(place, Index) else None


class _Part(NamedTuple):
    """So many blocks of ``width`` columns from ``start`` on."""

    start: int
    blocks: int
    width: int


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """The statements, the dimensions ``outer`` along which nothing is scattered, with the scatter's axes there, and the
    ``last`` one, which is cut."""

    copy: Compute
    scatter: Scatter
    outer: Mapping[int, Axis]
    last: int
    width: int

    @property
    def tensor(self) -> Tensor:
        return self.scatter.store.tensor

    def in_blocks(self) -> Iterator[Each]:
        """Whole blocks, and what is left."""
        whole, rest = divmod(self.tensor.sizes[self.last], self.width)
        for part in (_Part(0, whole, self.width), _Part(whole * self.width, 1, rest)):
            if part.blocks and part.width:
                yield self._each(part)

    def _each(self, part: _Part) -> Each:
        around = {d: Axis(axis.name, axis.size) for d, axis in self.outer.items()}
        block = Axis("block", part.blocks)
        sizes = [1 if d in around else n for d, n in enumerate(self.tensor.sizes)]
        sizes[self.last] = part.width
        own = temporary(f"columns_of_{self.tensor.name}", self.tensor.type, sizes)
        begin = {d: index(axis) for d, axis in around.items()} | {self.last: index(block) * part.width + part.start}
        filled = self._filled(own, begin)
        stored = tuple(Axis(axis.name, axis.size) for axis in filled.axes)
        place = tuple(begin[d] + i if d in begin else i for d, i in enumerate(indices(stored)))
        back = Compute(stored, (Store(self.tensor, place, load(own, indices(stored))),))
        return Each((*around.values(), block), (filled, self._updated(own, begin), back), (own,))

    def _filled(self, own: Tensor, begin: Mapping[int, Expression]) -> Compute:
        """The copy of the block's elements."""
        axes = tuple(Axis(axis.name, size) for axis, size in zip(self.copy.axes, own.sizes, strict=True))
        here = indices(axes)
        there: dict[Expression, Expression] = {
            Index(axis): begin[d] + here[d] if d in begin else here[d] for d, axis in enumerate(self.copy.axes)
        }
        (store,) = self.copy.stores
        return Compute(axes, (Store(own, here, substitute(there)(store.value)),))

    def _updated(self, own: Tensor, begin: Mapping[int, Expression]) -> Scatter:
        """The updates of the block's elements."""
        scatter = self.scatter
        parts = {axis: d for d, axis in self.outer.items()} | {self._last_axis: self.last}
        moved = {axis: Axis(axis.name, own.sizes[d]) for axis, d in parts.items()}
        rewrite = substitute({Index(axis): begin[d] + index(moved[axis]) for axis, d in parts.items()})
        store = scatter.store
        inside = {d: index(moved[axis]) for axis, d in parts.items()}
        place = tuple(inside[d] if d in inside else rewrite(c) for d, c in enumerate(store.coordinates))
        axes, apart = (tuple(moved.get(axis, axis) for axis in of) for of in (scatter.axes, scatter.apart))
        return Scatter(axes, rewrite(scatter.where), Store(own, place, rewrite(store.value)), apart)

    @property
    def _last_axis(self) -> Axis:
        place = self.scatter.store.coordinates[self.last]
        assert isinstance(place, Index)
        return place.axis
