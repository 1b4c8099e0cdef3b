"""Copies that take turns within short rows, as one statement.

Several tensors put together along the dimension in which the elements of the result lie next to each other: a copy
each would write a few bytes of every row, one row after the other. One statement writes rows as a whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from opendml.expression.affine import affine
from opendml.expression.ir import Axis, Const, Expression, Index, Load, Tensor, grid, index, indices, select
from opendml.expression.rewriting import substitute
from opendml.expression.statements import Compute, Definition, Statement, Store
from opendml.targets.cpu.refine.refinement import Surroundings, are_side_by_side, has_channel_runs
from opendml.targets.cpu.target import CpuTarget


def joined_copies(definition: Definition, around: Surroundings) -> Definition:
    """The definition with such copies, one behind the other, joined."""
    statements = list[Statement]()
    for tensor, run in itertools.groupby(definition.statements, _copied_to):
        copies = list(run)
        joined = None if tensor is None else _joined(tensor, copies, around.target)
        statements += copies if joined is None else [joined]
    same = len(statements) == len(definition.statements)
    return definition if same else replace(definition, statements=tuple(statements))


def _copied_to(statement: Statement) -> Tensor | None:
    """The tensor that a statement copies elements to, and nothing else."""
    if not isinstance(statement, Compute) or len(statement.stores) != 1:
        return None
    (store,) = statement.stores
    is_copy = isinstance(store.value, Load | Const) and getattr(store.value, "tensor", None) is not store.tensor
    return store.tensor if is_copy else None


def _joined(tensor: Tensor, copies: Sequence[Statement], target: CpuTarget) -> Compute | None:
    """One statement for copies that are the pieces of a tensor along its fastest dimension, in order. Whole lines of
    channels stay pieces where a graph's sums store channels side by side: what computes them can store them there."""
    tuning = target.tuning
    axis = next((d for d, stride in enumerate(tensor.strides) if stride == 1 and tensor.sizes[d] > 1), None)
    if axis is None or not 1 < len(copies) <= tuning.alternating_copies:
        return None
    if tensor.sizes[axis] * tensor.type.bits // 8 > tuning.alternating_bytes:
        return None
    axes, pieces, end = grid(tensor.sizes), list[tuple[int, Expression]](), 0
    for copy in copies:
        assert isinstance(copy, Compute)
        start, (store,) = end, copy.stores
        if len(copy.axes) != len(axes):
            return None
        sizes = [a.size for a in copy.axes]
        end = start + sizes[axis]
        whole = [*tensor.sizes[:axis], sizes[axis], *tensor.sizes[axis + 1 :]]
        place = [i + start if d == axis else i for d, i in enumerate(indices(copy.axes))]
        if sizes != whole or list(store.coordinates) != place or not _is_contiguous(store.value, copy.axes[axis]):
            return None
        own: list[Expression] = [Index(a) for a in copy.axes]
        moved = dict(zip(own, (index(a) - start if d == axis else index(a) for d, a in enumerate(axes)), strict=True))
        pieces.append((end, substitute(moved)(store.value)))
    if end != tensor.sizes[axis]:
        return None
    line = target.machine.cache_line * 8 // tensor.type.bits
    if has_channel_runs(target) and are_side_by_side(tensor) and all(n % line == 0 for n, _ in pieces):
        return None
    *before, (_, value) = pieces
    for end, piece in reversed(before):
        value = select(index(axes[axis]) < end, piece, value)
    return Compute(axes, (Store(tensor, indices(axes), value),))


def _is_contiguous(value: Expression, axis: Axis) -> bool:
    """Whether elements that follow each other along an axis lie next to each other in what is copied."""
    if not isinstance(value, Load):
        return True
    steps = zip(value.coordinates, value.tensor.strides, strict=True)
    return sum(affine(c).coefficient(axis) * stride for c, stride in steps) in (0, 1)
