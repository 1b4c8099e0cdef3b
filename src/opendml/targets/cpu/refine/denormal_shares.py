"""Softmaxes with many denormal numbers, those of masked scores, without products that processors are slow with."""

from __future__ import annotations

from functools import partial

from opendml.expression.element_types import F32, I32
from opendml.expression.floating_point import is_subnormal, subnormal
from opendml.expression.ir import Binary, Bitcast, Expression, cast, constant, select
from opendml.expression.statements import Compute, Definition, Statement, Store
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings, statement_by_statement


def denormal_shares(definition: Definition, surroundings: Surroundings) -> Definition:
    """The definition with the shares of softmaxes that may be denormal numbers computed as integers where they are."""
    if not surroundings.target.tuning.slow_denormals or surroundings.denormal.isdisjoint(definition.outputs):
        return definition
    return statement_by_statement(definition, partial(_shares, surroundings))


def _shares(surroundings: Surroundings, statement: Statement) -> Refinement | None:
    if not isinstance(statement, Compute):
        return None
    stores = tuple(
        Store(store.tensor, store.coordinates, _share(store.value)) if store.tensor in surroundings.denormal else store
        for store in statement.stores
    )
    return None if stores == statement.stores else Refinement([Compute(statement.axes, stores)])


def _share(value: Expression) -> Expression:
    """A power times what makes their sum 1."""
    if not isinstance(value, Binary) or value.operation != "mul" or value.type is not F32:
        return value
    power, scale = value.left, value.right
    # A denormal number is an integer times the smallest one, and so is its product with what is not above 1.
    units = cast(Bitcast(power, I32), F32)
    is_small = is_subnormal(power) & (power > 0) & (scale >= 0) & (scale <= 1)
    # Lanes that take the other branch do not keep those from the multiplication that do not.
    others = select(is_small, constant(0, F32), power) * scale
    return select(is_small, subnormal(units, scale), others, rare=True)
