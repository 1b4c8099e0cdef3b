"""Tables of weights: what the steps of a sum have in common for all rows is computed once.

A sum whose terms are weighed by what depends on the step and on one coordinate of the result only, as the filters of a
resampling, reads the weight from a table where that is not out of proportion to what is summed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from opendml.expression.affine import Dependencies
from opendml.expression.ir import (
    Axis,
    Expression,
    Fold,
    Load,
    constant,
)
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Compute, Definition, Statement, rewritten
from opendml.targets.cpu.refine.accesses import operations
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings, statement_by_statement
from opendml.targets.cpu.tuning import Tuning


def tables_of_weights(definition: Definition, around: Surroundings) -> Definition:
    """The definition with tables of the weights of its sums."""

    def with_tables(statement: Statement) -> Refinement | None:
        made, replaced = Refinement(), dict[Expression, Expression]()
        for weight, step, axis in _weights(statement, around.target.tuning):
            replaced[weight] = made.values("weights", weight, (step, axis))
        if not replaced:
            return None
        made.statements.append(rewritten(statement, substitute(replaced), {}))
        return made

    return statement_by_statement(definition, with_tables)


def _weights(statement: Statement, tuning: Tuning) -> Iterator[tuple[Expression, Axis, Axis]]:
    """Weights that are worth a table, each with its step and the axis of the result."""
    if not isinstance(statement, Compute) or len(statement.stores) != 1:
        return
    (store,) = statement.stores
    folds = [e for e in walk(store.value) if isinstance(e, Fold)]
    if len(folds) != 1 or len(folds[0].axes) != 1 or folds[0].contract or folds[0].where is not None:
        return
    (fold,) = folds
    if fold.initial != (constant(0, fold.type),):
        return
    dependencies, (step,) = Dependencies(), fold.axes
    read = max((math.prod(e.tensor.sizes) for e in walk(fold) if isinstance(e, Load)), default=0)
    room = tuning.table_growth * (read + math.prod(store.tensor.sizes))

    def axis_of(e: Expression) -> Axis | None:
        """The axis of the result that a weight depends on; None for what is none."""
        moving = dependencies.of(e)
        axes = [axis for axis in statement.axes if axis in moving]
        is_of_step = step in moving or step.size == 1
        is_weight = e.type.is_float and len(moving - {step}) == len(axes) == 1 and is_of_step
        return axes[0] if is_weight and operations(e) >= tuning.table_operations else None

    (element,) = fold.elements
    for e in walk(element, lambda e: isinstance(e, Load) or axis_of(e) is not None):
        axis = None if isinstance(e, Load) else axis_of(e)
        if axis is None or axis.size * step.size > room:
            continue
        if any(a.size > 1 and a is not axis for a in statement.axes):
            yield e, step, axis
