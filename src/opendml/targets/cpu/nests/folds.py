"""Which steps of folds are written out one after the other."""

from __future__ import annotations

from collections.abc import Iterable

from opendml.expression.ir import Axis, Fold
from opendml.expression.rewriting import walk
from opendml.loops.nest import Folding
from opendml.targets.cpu.tuning import Tuning


def foldings(folds: Iterable[Fold], copies: int, most: int, tuning: Tuning) -> tuple[Folding, ...]:
    """The loops of folds at ``copies`` points side by side, of which up to ``most`` steps are written out."""
    return tuple(Folding(fold, unrolled_axes(fold, copies, most, tuning)) for fold in folds)


def unrolled_axes(fold: Fold, copies: int, most: int, tuning: Tuning) -> tuple[Axis, ...]:
    """The inner axes of a fold that are written out, innermost first; one with partial results has a loop there."""
    if fold.partials > 1:
        return ()
    steps = most * 2 // max(copies, 1) if copies > 1 else most
    operations = sum(1 for e in (*fold.elements, *fold.combine.result) for _ in walk(e))
    budget, result = max(1, min(steps, tuning.unrolled_operations // operations)), list[Axis]()
    for axis in reversed(fold.axes):
        if axis.size > budget:
            break
        budget //= max(axis.size, 1)
        result.append(axis)
    return tuple(result)
