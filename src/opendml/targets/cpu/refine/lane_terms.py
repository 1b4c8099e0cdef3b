"""Terms that only some lanes of a vector have are added by all of them, as 0 where there is none.

Whether a step of a sum is taken, found by what is loaded for each lane, is a branch that some lane takes nearly always
and that no processor foresees. Such a condition becomes a choice: those who have no term add +0, which changes no sum
that begins with +0, for that is never -0. Conditions that all lanes share still leave out steps.
"""

from __future__ import annotations

import functools
import math
import operator

from opendml.expression.affine import Dependencies
from opendml.expression.ir import Axis, Const, Expression, Fold, Index, Load, constant, select
from opendml.expression.rewriting import Rewriter, conjuncts, walk
from opendml.expression.statements import Compute, Definition, Statement, rewritten
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings, statement_by_statement


def terms_of_all_lanes(definition: Definition, around: Surroundings) -> Definition:
    """The definition with such choices."""
    return statement_by_statement(definition, _with_choices)


def _with_choices(statement: Statement) -> Refinement | None:
    if not isinstance(statement, Compute) or len(statement.stores) != 1:
        return None
    (store,) = statement.stores
    sizes, strides = store.tensor.sizes, store.tensor.strides
    fastest = min(range(len(sizes)), key=lambda d: abs(strides[d]) if sizes[d] > 1 else math.inf)
    lane = store.coordinates[fastest]
    if not isinstance(lane, Index):
        return None
    dependencies, replaced = Dependencies(), dict[Expression, Expression]()
    for e in walk(store.value):
        if isinstance(e, Fold) and e.where is not None and _is_sum_of_lanes(e):
            made = _with_choice(e, e.where, lane.axis, dependencies)
            if made is not e:
                replaced[e] = made
    return Refinement([rewritten(statement, Rewriter(replaced.get), {})]) if replaced else None


def _with_choice(fold: Fold, where: Expression, lane: Axis, dependencies: Dependencies) -> Fold:
    """The fold with what each lane loads for a condition in its element."""
    parts = conjuncts(where)
    own = [c for c in parts if lane in dependencies.of(c) and any(isinstance(x, Load) for x in walk(c))]
    if not own:
        return fold
    shared = [c for c in parts if c not in own]
    element = select(functools.reduce(operator.and_, own), fold.elements[0], constant(0, fold.type))
    left = functools.reduce(operator.and_, shared) if shared else None
    return Fold(fold.axes, fold.initial, (element,), fold.combine, left, fold.partials)


def _is_sum_of_lanes(fold: Fold) -> bool:
    """Whether a fold is a sum from +0 on of what is read at the points of the loops, where there is something to read
    whatever the conditions are."""
    if len(fold.elements) != 1 or not fold.type.is_float or fold.contract or fold.initial != (constant(0, fold.type),):
        return False
    if fold.combine.result != (fold.combine.left[0] + fold.combine.right[0],):
        return False
    return all(
        isinstance(c, Const) or (isinstance(c, Index) and isinstance(c.axis, Axis) and c.axis.size <= size)
        for e in walk(fold)
        if isinstance(e, Load)
        for c, size in zip(e.coordinates, e.tensor.sizes, strict=True)
    )
