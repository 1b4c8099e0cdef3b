"""Tables of weights: what the steps of a sum have in common for all rows is computed once.

A sum whose terms are weighed by what depends on the step and on one coordinate of the result only, as the filters of a
resampling, reads the weight from a table where that is not out of proportion to what is summed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from opendml.expression.affine import Dependencies
from opendml.expression.ir import (
    Axis,
    Expression,
    Fold,
    Index,
    Load,
    Tensor,
    constant,
    grid,
    index,
    indices,
    load,
    temporary,
)
from opendml.expression.rewriting import Rewriter, substitute, walk
from opendml.expression.statements import Compute, Definition, Statement, Store, rewritten, tensors_read
from opendml.targets.cpu.refine.accesses import operations
from opendml.targets.cpu.refine.refinement import Surroundings
from opendml.targets.cpu.tuning import Tuning


def tables_of_weights(definition: Definition, around: Surroundings) -> Definition:
    """The definition with tables of the weights of its sums."""
    statements, temporaries = list[Statement](), list(definition.temporaries)
    for statement in definition.statements:
        replaced = dict[Expression, Expression]()
        for weight, step, axis in _weights(statement, around.target.tuning):
            table = temporary("weights", weight.type, [step.size, axis.size])
            axes = grid(table.sizes)
            value = substitute({Index(step): index(axes[0]), Index(axis): index(axes[1])})(weight)
            statements.append(Compute(axes, (Store(table, indices(axes), value),)))
            temporaries.insert(_behind(temporaries, weight), table)
            replaced[weight] = load(table, (index(step), index(axis)))
        statements.append(rewritten(statement, Rewriter(replaced.get), {}) if replaced else statement)
    if len(temporaries) == len(definition.temporaries):
        return definition
    return replace(definition, statements=tuple(statements), temporaries=tuple(temporaries))


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
    seen, stack = set[Expression](), list(fold.elements)
    while stack:
        e = stack.pop()
        if isinstance(e, Load) or e in seen:
            continue
        seen.add(e)
        moving = dependencies.of(e) - {step}
        axes = [axis for axis in statement.axes if axis in moving]
        is_of_step = step in dependencies.of(e) or step.size == 1
        is_weight = e.type.is_float and len(moving) == len(axes) == 1 and is_of_step
        if not is_weight or operations(e) < tuning.table_operations:
            stack += e.children
        elif axes[0].size * step.size <= room and any(a.size > 1 and a is not axes[0] for a in statement.axes):
            yield e, step, axes[0]


def _behind(temporaries: list[Tensor], weight: Expression) -> int:
    """The place behind all tensors that a weight is made of."""
    read = tensors_read([weight])
    return max((n + 1 for n, t in enumerate(temporaries) if t in read), default=len(temporaries))
