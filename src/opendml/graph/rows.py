"""Rows of memory that the loops of a statement walk: where one runs on in the next, both are one loop."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from opendml.expression.affine import Dependencies, address_of, follows_axes
from opendml.expression.ir import Axis, Fold, Index, Load, Variable
from opendml.expression.rewriting import asks_for, walk
from opendml.expression.statements import Compute, Store


def run_on(statement: Compute, axes: Sequence[Axis]) -> bool:
    """Whether a statement moves through memory along several axes as along one wherever it uses them."""
    places = [(store.tensor, store.coordinates) for store in statement.stores]
    for store in statement.stores:
        for x in walk(store.value, lambda part: isinstance(part, Load)):
            if isinstance(x, Load):
                places.append((x.tensor, x.coordinates))
            elif isinstance(x, Index) and x.axis in axes:
                return False
    for tensor, coordinates in places:
        address = address_of(tensor, coordinates)
        if not address.is_pure:
            return False
        moves = [address.coefficient(axis) for axis in axes]
        if any(moves[i] != moves[i + 1] * axes[i + 1].size for i in range(len(axes) - 1)):
            return False
    return True


def last_rows_run_on(statement: Compute) -> bool:
    """Whether the two innermost loops of a statement are one."""
    axes = innermost_last(statement)
    return len(axes) > 1 and run_on(statement, axes[-2:])


def loops_run_on(statement: Compute) -> int:
    """How many loops of a statement are one with the loop around them."""
    axes = innermost_last(statement)
    return sum(run_on(statement, pair) for pair in itertools.pairwise(axes))


def innermost_last(statement: Compute) -> tuple[Axis, ...]:
    """The axes as loops nest, but for those of one point: the one with the smallest steps in what is stored is the
    innermost."""
    axes = (axis for axis in statement.axes if axis.size > 1)
    return tuple(sorted(axes, key=lambda axis: -_pace(statement.stores[0], axis)))


def loops_around(loops: Sequence[tuple[Axis, ...]], free: frozenset[Axis | Variable]) -> list[tuple[Axis, ...]]:
    """The loops that a fold with these free axes has to stand in: the statement's down to the last one that it depends
    on, and those of folds that it depends on."""
    outer, *folds = loops
    last = max((number for number, axis in enumerate(outer) if axis in free), default=-1)
    return [outer[: last + 1], *(nest for nest in folds if free.intersection(nest))]


def fold_evaluations(statement: Compute) -> int:
    """How often a statement computes its folds, all together: each once for all inner loops that it is the same in."""
    outer, free = innermost_last(statement), Dependencies()
    folds = {x for store in statement.stores for x in walk(store.value) if isinstance(x, Fold)}
    nests = (nest for fold in folds for nest in loops_around((outer,), free.of(fold)))
    return sum(math.prod(axis.size for axis in nest) for nest in nests)


def has_loops(statement: Compute) -> bool:
    """Whether there are loops for a statement: every store is at a sum of its axes.

    Digits of a coordinate that are put together again are one: ``i / 3 * 3 + i % 3``. What reads them in another order
    stores at a place that is none.
    """
    return all(follows_axes(address_of(s.tensor, s.coordinates), statement.axes) for s in statement.stores)


def _pace(store: Store, axis: Axis) -> int:
    """How far what is stored moves in memory with an axis."""
    pairs = zip(store.coordinates, store.tensor.strides, strict=True)
    return max((abs(stride) for coordinate, stride in pairs if asks_for(coordinate, (axis,))), default=0)
