"""Orders of sequences that do not lie in one run: their keys are computed beforehand, side by side."""

from __future__ import annotations

from dataclasses import replace

from opendml.expression.affine import address_of
from opendml.expression.ir import Load, indices, load, temporary
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Definition, Order, Statement, Store
from opendml.targets.cpu.refine.refinement import Surroundings


def keys_side_by_side(definition: Definition, around: Surroundings) -> Definition:
    """The definition with the keys of such orders in tensors of their own."""
    statements, temporaries = list[Statement](), list(definition.temporaries)
    for statement in definition.statements:
        if isinstance(statement, Order) and not _is_along(statement):
            axes = (*statement.axes, statement.along)
            keys = temporary("keys", statement.key.type, [axis.size for axis in axes])
            statements.append(Compute(axes, (Store(keys, indices(axes), statement.key),)))
            temporaries.append(keys)
            statement = replace(statement, key=load(keys, indices(axes)))
        statements.append(statement)
    if len(temporaries) == len(definition.temporaries):
        return definition
    return replace(definition, statements=tuple(statements), temporaries=tuple(temporaries))


def _is_along(order: Order) -> bool:
    """Whether no other axis of what the keys are computed from has smaller steps than the sequence."""
    for read in (e for e in walk(order.key) if isinstance(e, Load)):
        address = address_of(read.tensor, read.coordinates)
        steps = {axis: address.coefficient(axis) for axis in (*order.axes, order.along) if axis.size > 1}
        least = min((step for step in steps.values() if step), default=1)
        if steps.get(order.along, 0) > least:
            return False
    return True
