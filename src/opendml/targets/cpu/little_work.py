"""What has little to do. Its code is short: to compile it takes a thousand times as long as to run it once, and what
longer code gains is a hundredth of that. And a program of little work is over before a thread that sleeps is awake, so
how long one thread takes is estimated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from opendml.expression.affine import Dependencies
from opendml.expression.ir import Axis, Fold, Variable
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Scatter, Single, reads_of, writes_of
from opendml.targets.cpu.kernel_parts import work_of_operation
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import Tuning

PRODUCTS: Final = 8
"""Multiply-adds that take as long as another step: those of a vector."""

OPERATIONS: Final = 16
"""Operations of a point that take as long as bringing what it reads and writes: those of a vector of points, of which a
processor does two at a time."""

ONE_BY_ONE: Final = 32
"""Steps that a point counts as of what is done point by point: scans, scatters, orders."""

STEPS_WRITTEN_OUT: Final = 4
"""Rows of windows are whole still. Products of 19x64 by 64x128 and of 128x128 matrices take as long as with eight
steps, of 1024x1024 3% longer (Zen 3, AVX2)."""


def short_where_little(statement: Single, repeats: Sequence[Axis], target: CpuTarget) -> CpuTarget:
    """The target with the knobs of short code, where a statement has little to do with all its ``repeats``."""
    tuning = target.tuning
    if not isinstance(statement, Compute) or steps_of(statement, repeats) > tuning.little_work:
        return target
    return target.tuned(steps_written_out=min(tuning.steps_written_out, STEPS_WRITTEN_OUT))


def microseconds_of(statements: Iterable[tuple[Single, Sequence[Axis]]], tuning: Tuning) -> int:
    """About how long one thread takes for statements, each with what it is repeated along, up to ``longest_alone``."""
    steps, most = 0, tuning.steps_a_microsecond * tuning.longest_alone
    for statement, repeats in statements:
        steps = min(steps + _time_of(statement, repeats, tuning), most)
        if steps == most:
            break
    return steps // tuning.steps_a_microsecond


def steps_of(statement: Compute, repeats: Sequence[Axis] = ()) -> int:
    """The points of a statement, and the steps of its folds at the points that they differ between, all as often as it
    is repeated."""
    dependencies = Dependencies()
    points = _count(statement.axes)
    folds = {e for store in statement.stores for e in walk(store.value) if isinstance(e, Fold)}
    steps = points + sum(_steps(fold, dependencies.of(fold).difference(repeats)) for fold in folds)
    return steps * _count(repeats)


def _steps(fold: Fold, differs: Iterable[Axis | Variable]) -> int:
    points = _count(axis for axis in differs if isinstance(axis, Axis))
    return points * fold.steps // (PRODUCTS if fold.contract else 1)


def _time_of(statement: Single, repeats: Sequence[Axis], tuning: Tuning) -> int:
    """About so many steps of nothing but a load and a store take as long as a statement."""
    if isinstance(statement, Compute):
        operations = {e for store in statement.stores for e in walk(store.value)}
        work = sum(work_of_operation(e, tuning) for e in operations)
        steps = steps_of(statement, repeats) * (1 + work // OPERATIONS)
    else:
        along = () if isinstance(statement, Scatter) else (statement.along,)
        steps = ONE_BY_ONE * _count((*statement.axes, *along, *repeats))
    tensors = reads_of(statement) | writes_of(statement)
    far = sum(tensor.extent * tensor.type.bits // 8 for tensor in tensors) - tuning.near_program_bytes
    return max(steps, far * tuning.steps_a_microsecond // tuning.bytes_a_microsecond)


def _count(axes: Iterable[Axis]) -> int:
    return math.prod(axis.size for axis in axes)
