"""Statements of little work, whose code is short: to compile it takes a thousand times as long as to run it once, and
what longer code gains is a hundredth of that."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from opendml.expression.affine import Dependencies
from opendml.expression.ir import Axis, Fold, Variable
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Single
from opendml.targets.cpu.target import CpuTarget

PRODUCTS: Final = 8
"""Multiply-adds that take as long as another step: those of a vector."""

STEPS_WRITTEN_OUT: Final = 4
"""Rows of windows are whole still. Products of 19x64 by 64x128 and of 128x128 matrices take as long as with eight
steps, of 1024x1024 3% longer (Zen 3, AVX2)."""


def short_where_little(statement: Single, repeats: Sequence[Axis], target: CpuTarget) -> CpuTarget:
    """The target with the knobs of short code, where a statement has little to do with all its ``repeats``."""
    tuning = target.tuning
    if not isinstance(statement, Compute) or steps_of(statement, repeats) > tuning.little_work:
        return target
    return target.tuned(steps_written_out=min(tuning.steps_written_out, STEPS_WRITTEN_OUT))


def steps_of(statement: Compute, repeats: Sequence[Axis] = ()) -> int:
    """The points of a statement, and the steps of its folds at the points that they differ between, all as often as it
    is repeated."""
    dependencies = Dependencies()
    points = math.prod(axis.size for axis in statement.axes)
    folds = {e for store in statement.stores for e in walk(store.value) if isinstance(e, Fold)}
    steps = points + sum(_steps(fold, dependencies.of(fold).difference(repeats)) for fold in folds)
    return steps * math.prod(axis.size for axis in repeats)


def _steps(fold: Fold, differs: Iterable[Axis | Variable]) -> int:
    points = math.prod(axis.size for axis in differs if isinstance(axis, Axis))
    return points * fold.steps // (PRODUCTS if fold.contract else 1)
