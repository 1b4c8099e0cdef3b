"""Scatters of blocks: where updates go is found out once a block, and what takes time is then one copy.

A copy of a tensor and a ``Scatter`` into it, whose places along some dimensions are its own coordinates there, become
a scatter of nothing but the numbers of updates, one a block, and a copy that looks up the update of its block. That
many threads share; a scatter they do not, as its points are in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from opendml.expression.affine import Dependencies
from opendml.expression.element_types import I64, U32
from opendml.expression.ir import (
    Axis,
    Expression,
    Index,
    Load,
    Tensor,
    cast,
    constant,
    index,
    indices,
    load,
    packed_strides,
    select,
    temporary,
)
from opendml.expression.rewriting import Rewriter, substitute
from opendml.expression.statements import Compute, Definition, Scatter, Statement, Store, reads_of
from opendml.targets.cpu.refine.accesses import is_whole
from opendml.targets.cpu.refine.refinement import Surroundings


def blocks_of_updates(definition: Definition, around: Surroundings) -> Definition:
    """The definition with the scatters of blocks that have ``Tuning.scattered_block`` elements or more."""
    statements = list[Statement]()
    temporaries = list(definition.temporaries)
    for statement in definition.statements:
        copy = statements[-1] if statements else None
        if isinstance(statement, Scatter) and isinstance(copy, Compute):
            blocks = _blocks(copy, statement)
            sizes = statement.store.tensor.sizes
            if math.prod(sizes[d] for d in blocks) >= around.target.tuning.scattered_block:
                found, last = _block_by_block(copy, statement, blocks)
                statements[-1:] = found
                temporaries.append(last)
                continue
        statements.append(statement)
    if len(temporaries) == len(definition.temporaries):
        return definition
    return replace(definition, statements=tuple(statements), temporaries=tuple(temporaries))


def _blocks(copy: Compute, scatter: Scatter) -> dict[int, Axis]:
    """The dimensions of the tensor along which blocks are updated as a whole, and the scatter's axes there."""
    target = scatter.store.tensor
    if not is_whole(copy, target) or target in reads_of(scatter):
        return {}
    dependencies, places = Dependencies(), [_moving(c) for c in scatter.store.coordinates]
    where = dependencies.of(_moving(scatter.where))
    found = dict[int, Axis]()
    for d, (place, size) in enumerate(zip(places, target.sizes, strict=True)):
        elsewhere = where.union(*(dependencies.of(p) for i, p in enumerate(places) if i != d))
        if isinstance(place, Index) and place.axis.size == size and place.axis not in elsewhere:
            found[d] = place.axis
    return found


def _moving(e: Expression) -> Expression:
    """An expression without the coordinates along which what it loads is the same element again and again."""

    def read(_: Expression, e: Expression) -> Expression:
        if not isinstance(e, Load):
            return e
        strides = e.tensor.strides
        return load(e.tensor, [0 if s == 0 else c for c, s in zip(e.coordinates, strides, strict=True)])

    return Rewriter(read=read)(e)


def _block_by_block(
    copy: Compute, scatter: Scatter, blocks: dict[int, Axis]
) -> tuple[tuple[Compute, Scatter, Compute], Tensor]:
    """The number of the last update of every block, from 1 on, 0 for none; and the copy with the updates."""
    target = scatter.store.tensor
    along = {axis: d for d, axis in blocks.items()}
    axes = tuple(Axis(axis.name, 1) if axis in along else axis for axis in scatter.axes)
    strides = packed_strides([axis.size for axis in axes])
    last = temporary("last_update", U32, [1 if d in blocks else size for d, size in enumerate(target.sizes)])
    number: Expression = constant(1, I64)
    for axis, stride in zip(axes, strides, strict=True):
        number = number + index(axis) * stride
    first = substitute({Index(axis): constant(0, I64) for axis in along})
    place = tuple(first(_moving(c)) for c in scatter.store.coordinates)
    where = first(_moving(scatter.where))

    here = indices(copy.axes)
    given = cast(load(last, [0 if d in blocks else i for d, i in enumerate(here)]), I64)
    parts = dict[Expression, Expression]()
    for axis, size, stride in zip(scatter.axes, [axis.size for axis in axes], strides, strict=True):
        parts[Index(axis)] = here[along[axis]] if axis in along else (given - 1) // stride % size
    update = substitute(parts)(scatter.store.value)
    zeros = tuple(Axis(axis.name, size) for axis, size in zip(copy.axes, last.sizes, strict=True))
    (kept,) = copy.stores
    return (
        Compute(zeros, (Store(last, indices(zeros), constant(0, U32)),)),
        Scatter(axes, where, Store(last, place, cast(number, U32)), _apart(scatter, axes)),
        Compute(copy.axes, (Store(target, kept.coordinates, select(given > 0, update, kept.value)),)),
    ), last


def _apart(scatter: Scatter, axes: Sequence[Axis]) -> tuple[Axis, ...]:
    moved = dict(zip(scatter.axes, axes, strict=True))
    return tuple(moved[axis] for axis in scatter.apart)
