"""Orders of sequences that do not lie in one run: their keys are computed beforehand, side by side."""

from __future__ import annotations

from dataclasses import replace

from opendml.expression.affine import address_of
from opendml.expression.ir import Load, indices, load, temporary
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Definition, Order, Statement, Store
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings, statement_by_statement


def keys_side_by_side(definition: Definition, around: Surroundings) -> Definition:
    """The definition with the keys of such orders in tensors of their own."""
    return statement_by_statement(definition, _with_keys)


def _with_keys(statement: Statement) -> Refinement | None:
    if not isinstance(statement, Order) or _is_along(statement):
        return None
    axes = (*statement.axes, statement.along)
    keys = temporary("keys", statement.key.type, [axis.size for axis in axes])
    computed = Compute(axes, (Store(keys, indices(axes), statement.key),))
    return Refinement([computed, replace(statement, key=load(keys, indices(axes)))], [keys])


def _is_along(order: Order) -> bool:
    """Whether no other axis of what the keys are computed from has smaller steps than the sequence."""
    for read in (e for e in walk(order.key) if isinstance(e, Load)):
        address = address_of(read.tensor, read.coordinates)
        steps = {axis: address.coefficient(axis) for axis in (*order.axes, order.along) if axis.size > 1}
        least = min((step for step in steps.values() if step), default=1)
        if steps.get(order.along, 0) > least:
            return False
    return True
