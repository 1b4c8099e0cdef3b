"""In which order a kernel goes through its axes, and which of them its work items take: outer ones first.

What a result lies like in memory decides, but for folds that are the same along several axes, as the mean of a channel
is for all of its points: inside of an axis that they do not depend on they would be computed once for each of its
places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from opendml.expression.affine import Dependencies
from opendml.expression.ir import Axis, Fold
from opendml.expression.rewriting import walk
from opendml.loops.nest import ElementStore
from opendml.targets.cpu.kernel_parts import all_folds
from opendml.targets.cpu.kernels import ComputeKernel


def ordered_axes(axes: Sequence[Axis], stores: Sequence[ElementStore]) -> list[Axis]:
    """From the largest steps in memory to the smallest; first what long folds depend on that are the same along the
    last axis."""
    ordered = sorted(axes, key=lambda axis: -abs(stores[0].address.coefficient(axis)))
    if len(ordered) < 3:
        return ordered
    dependencies, first = Dependencies(), set[Axis]()
    for fold in {e for store in stores for e in walk(store.value) if isinstance(e, Fold)}:
        needed = dependencies.of(fold)
        if ordered[-1] not in needed and fold.steps > ordered[-1].size:
            first |= {axis for axis in ordered if axis in needed}
    return sorted(ordered, key=lambda axis: axis not in first)


def repeats_folds(kernel: ComputeKernel, axes: Sequence[Axis]) -> bool:
    """Whether work items that take the first of ``axes``, too, repeat folds, of more steps than they have points
    left."""
    if kernel.vector is None:
        return False
    dependencies, (shared, *inner) = Dependencies(), axes
    points = kernel.vector.size * math.prod(axis.size for axis in inner)
    around = {shared, kernel.vector, *inner}
    return any(fold.steps > points and not around & dependencies.of(fold) for fold in all_folds(kernel))
