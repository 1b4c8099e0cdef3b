"""Scatters into a large tensor part by part: what updates go to stays in a near cache.

A copy of a tensor and a ``Scatter`` into it would write it to memory twice, the second time at places that nobody can
foresee. Where the scatter leaves every update in its row, or in its column, the statements become those of a part, some
rows or columns: a thread makes a packed copy of its own, updates it there and writes it to where it belongs. Of columns
this spares more: updates of neighbours would write to one row after another, each on a page of its own, all at the same
places of a cache.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from opendml.expression.ir import Axis, Expression, Index, Tensor, index, indices, load, temporary
from opendml.expression.rewriting import substitute
from opendml.expression.statements import Compute, Definition, Each, Scatter, Statement, Store, reads_of
from opendml.targets.cpu.refine.accesses import is_whole
from opendml.targets.cpu.refine.refinement import Surroundings
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import Tuning


def scatters_in_parts(definition: Definition, around: Surroundings) -> Definition:
    """The definition with the scatters of which that is worth it."""
    statements = list[Statement]()
    temporaries = list(definition.temporaries)
    for statement in definition.statements:
        copy = statements[-1] if statements else None
        found = None
        if isinstance(statement, Scatter) and isinstance(copy, Compute):
            found = _parts(copy, statement, around.target)
        if found is None:
            statements.append(statement)
        else:
            made = list(found.all())
            statements[-1:] = made
            temporaries += [tensor for each in made for tensor in each.own]
    if len(temporaries) == len(definition.temporaries):
        return definition
    return replace(definition, statements=tuple(statements), temporaries=tuple(temporaries))


def _parts(copy: Compute, scatter: Scatter, target: CpuTarget) -> _Parts | None:
    """The parts: None where there is one only, or all is near, or there are few updates."""
    tuning, tensor = target.tuning, scatter.store.tensor
    if not is_whole(copy, tensor) or tensor in reads_of(scatter) | reads_of(copy):
        return None
    updates = math.prod(axis.size for axis in scatter.axes)
    if tuning.updates_worth_copies * updates < math.prod(tensor.sizes):
        return None
    fixed = {d: axis for d in range(len(tensor.sizes)) if (axis := _own_axis(scatter, d)) is not None}
    shape = _rows(tensor, fixed, tuning) or _columns(tensor, fixed, target)
    return None if shape is None else _Parts(copy, scatter, fixed, shape)


class _Shape(NamedTuple):
    """What one part covers: one point of the dimensions ``outer``, along which nothing is scattered, and ``width``
    points of another such one, ``cut``, if there is one."""

    outer: tuple[int, ...]
    cut: int | None = None
    width: int = 0


def _rows(tensor: Tensor, fixed: Collection[int], tuning: Tuning) -> _Shape | None:
    """Rows of first dimensions, as many as make up ``scattered_rows_bytes`` if one does not."""
    left = math.prod(tensor.sizes) * tensor.type.bits // 8
    if left < tuning.prefetched_bytes:
        return None
    outer = list[int]()
    for dimension, size in enumerate(tensor.sizes):
        row = left // size
        if dimension not in fixed:
            break
        if row < tuning.scattered_rows_bytes:
            width = tuning.scattered_rows_bytes // row
            return _Shape(tuple(outer), dimension, width) if width < size else None
        outer.append(dimension)
        left = row
    return _Shape(tuple(outer)) if outer and left <= tuning.most_scattered_rows_bytes else None


def _columns(tensor: Tensor, fixed: Collection[int], target: CpuTarget) -> _Shape | None:
    """Columns of the last dimension, whole cache lines of them."""
    tuning, last, size = target.tuning, len(tensor.sizes) - 1, tensor.type.bits // 8
    if last not in fixed or tensor.strides[last] != 1:
        return None
    outer = tuple(d for d in fixed if d != last and tensor.sizes[d] > 1)
    rows = math.prod(n for d, n in enumerate(tensor.sizes) if d != last and d not in outer)
    line = target.machine.cache_line // max(size, 1)
    width = tuning.scattered_columns_bytes // max(rows * size, 1) // line * line
    width = min(width, tuning.scattered_columns)
    is_far = rows * tensor.sizes[last] * size >= tuning.prefetched_bytes
    return _Shape(outer, last, width) if is_far and 0 < width < tensor.sizes[last] else None


def _own_axis(scatter: Scatter, dimension: int) -> Axis | None:
    """The axis that a dimension's coordinates are, and no other's: no two of its points store to the same element."""
    places, size = scatter.store.coordinates, scatter.store.tensor.sizes[dimension]
    place = places[dimension]
    is_own = isinstance(place, Index) and place.axis.size == size and places.count(place) == 1
    return place.axis if is_own and isinstance(place, Index) else None


class _Range(NamedTuple):
    """So many blocks of ``width`` points of the dimension that is cut, from ``start`` on."""

    start: int
    blocks: int
    width: int


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """The statements, the scatter's axes that are dimensions of its tensor, by these, and what a part covers."""

    copy: Compute
    scatter: Scatter
    fixed: Mapping[int, Axis]
    shape: _Shape

    @property
    def tensor(self) -> Tensor:
        return self.scatter.store.tensor

    def all(self) -> Iterator[Each]:
        """Whole parts, and what is left."""
        if self.shape.cut is None:
            yield self._each(_Range(0, 1, 0))
            return
        whole, rest = divmod(self.tensor.sizes[self.shape.cut], self.shape.width)
        yield self._each(_Range(0, whole, self.shape.width))
        if rest:
            yield self._each(_Range(whole * self.shape.width, 1, rest))

    def _each(self, part: _Range) -> Each:
        """The three statements of the parts of a range. A coordinate of a part's own copy is that of the tensor but for
        what ``begin`` has: where the part begins there."""
        shape = self.shape
        around = {d: Axis(self.copy.axes[d].name, self.tensor.sizes[d]) for d in shape.outer}
        begin: dict[int, Expression] = {d: index(axis) for d, axis in around.items()}
        sizes = [1 if d in around else n for d, n in enumerate(self.tensor.sizes)]
        axes = (*around.values(),)
        if shape.cut is not None:
            block = Axis("block", part.blocks)
            begin[shape.cut] = index(block) * part.width + part.start
            sizes[shape.cut] = part.width
            axes = (*axes, block)
        own = temporary(f"part_of_{self.tensor.name}", self.tensor.type, sizes)
        filled = self._filled(own, begin)
        stored = tuple(Axis(axis.name, axis.size) for axis in filled.axes)
        place = tuple(begin[d] + i if d in begin else i for d, i in enumerate(indices(stored)))
        back = Compute(stored, (Store(self.tensor, place, load(own, indices(stored))),))
        return Each(axes, (filled, self._updated(own, begin), back), (own,))

    def _filled(self, own: Tensor, begin: Mapping[int, Expression]) -> Compute:
        """The copy of the part's elements."""
        axes = tuple(Axis(axis.name, size) for axis, size in zip(self.copy.axes, own.sizes, strict=True))
        here = indices(axes)
        there: dict[Expression, Expression] = {
            Index(axis): begin[d] + here[d] if d in begin else here[d] for d, axis in enumerate(self.copy.axes)
        }
        (store,) = self.copy.stores
        return Compute(axes, (Store(own, here, substitute(there)(store.value)),))

    def _updated(self, own: Tensor, begin: Mapping[int, Expression]) -> Scatter:
        """The updates of the part's elements."""
        scatter = self.scatter
        moved = {self.fixed[d]: Axis(self.fixed[d].name, own.sizes[d]) for d in begin}
        rewrite = substitute({Index(self.fixed[d]): begin[d] + index(moved[self.fixed[d]]) for d in begin})
        store = scatter.store
        inside = {d: index(moved[self.fixed[d]]) for d in begin}
        place = tuple(inside[d] if d in inside else rewrite(c) for d, c in enumerate(store.coordinates))
        axes, apart = (tuple(moved.get(axis, axis) for axis in of) for of in (scatter.axes, scatter.apart))
        return Scatter(axes, rewrite(scatter.where), Store(own, place, rewrite(store.value)), apart)
