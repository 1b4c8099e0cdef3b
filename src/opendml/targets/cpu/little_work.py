"""What has little to do. Its code is short: to compile it takes a thousand times as long as to run it once, and what
longer code gains is a hundredth of that. And a program of little work is over before a thread that sleeps is awake, so
how long one thread takes is estimated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from opendml.expression.affine import Dependencies
from opendml.expression.ir import Axis, Fold, Variable
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Scatter, Single, reads_of, writes_of
from opendml.targets.cpu.kernel_parts import work_of_operation
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import Tuning


def short_where_little(statement: Single, repeats: Sequence[Axis], target: CpuTarget) -> CpuTarget:
    """The target with the knobs of short code, where a statement has little to do with all its ``repeats``."""
    tuning = target.tuning
    if not isinstance(statement, Compute) or steps_of(statement, repeats, tuning) > tuning.little_work:
        return target
    return target.tuned(steps_written_out=min(tuning.steps_written_out, tuning.few_steps_written_out))


def microseconds_of(statements: Iterable[tuple[Single, Sequence[Axis]]], tuning: Tuning) -> int:
    """About how long one thread takes for statements, each with what it is repeated along, up to ``longest_alone``."""
    steps, most = 0, tuning.steps_a_microsecond * tuning.longest_alone
    for statement, repeats in statements:
        steps = min(steps + _time_of(statement, repeats, tuning), most)
        if steps == most:
            break
    return steps // tuning.steps_a_microsecond


def steps_of(statement: Compute, repeats: Sequence[Axis], tuning: Tuning) -> int:
    """The points of a statement, and the steps of its folds at the points that they differ between, all as often as it
    is repeated."""
    dependencies = Dependencies()
    points = _count(statement.axes)
    folds = {e for store in statement.stores for e in walk(store.value) if isinstance(e, Fold)}
    steps = points + sum(_steps(fold, dependencies.of(fold).difference(repeats), tuning) for fold in folds)
    return steps * _count(repeats)


def _steps(fold: Fold, differs: Iterable[Axis | Variable], tuning: Tuning) -> int:
    points = _count(axis for axis in differs if isinstance(axis, Axis))
    return points * fold.steps // (tuning.products_a_step if fold.contract else 1)


def _time_of(statement: Single, repeats: Sequence[Axis], tuning: Tuning) -> int:
    """About so many steps of nothing but a load and a store take as long as a statement."""
    if isinstance(statement, Compute):
        operations = {e for store in statement.stores for e in walk(store.value)}
        work = sum(work_of_operation(e, tuning) for e in operations)
        steps = steps_of(statement, repeats, tuning) * (1 + work // tuning.operations_a_step)
    else:
        along = () if isinstance(statement, Scatter) else (statement.along,)
        steps = tuning.steps_one_by_one * _count((*statement.axes, *along, *repeats))
    tensors = reads_of(statement) | writes_of(statement)
    far = sum(tensor.extent * tensor.type.bits // 8 for tensor in tensors) - tuning.near_program_bytes
    return max(steps, far * tuning.steps_a_microsecond // tuning.bytes_a_microsecond)


def _count(axes: Iterable[Axis]) -> int:
    return math.prod(axis.size for axis in axes)
