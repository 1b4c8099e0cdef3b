"""Random valid descriptors of every operator: ``descriptors(operator_type)`` is a hypothesis strategy.

Sizes gather around the widths of vectors, ranks and data types are all that the support tables allow, layouts are
packed, permuted, padded, repeated and overlapping, parameters are what the rules accept.
"""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st
from random_operators import choosing, element_wise, folding, moving, normalizations, products, quantized, windows
from random_operators.parts import Build, HugeDraw

from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.enums import OperatorType
from opendml.description.operator_classes import operator_class


def descriptors(operator_type: OperatorType, *, huge: bool = False) -> st.SearchStrategy[Operator]:
    """Valid descriptors of an operator. ``huge``: of sizes and strides up to the largest; not all of them are valid."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Operator:
        source = cast("st.DrawFn", HugeDraw(draw)) if huge else draw
        return BUILDERS[operator_type](source, operator_class(operator_type))

    return drawn()


def is_drawn(operator_type: OperatorType) -> bool:
    """Whether there is a way to draw an operator; the others want a function and a line in their family's file."""
    return operator_type in BUILDERS


_FAMILIES = (element_wise, normalizations, windows, moving, choosing, folding, products, quantized)

_BY_PREFIX = {"ELEMENT_WISE_": element_wise.draw_element_wise, "ACTIVATION_": element_wise.draw_activated}

BUILDERS: dict[OperatorType, Build] = {
    **{known: build for prefix, build in _BY_PREFIX.items() for known in op.implemented() if prefix in known.name},
    **{
        OperatorType[name]: build
        for family in _FAMILIES
        for names, build in family.BUILDERS.items()
        for name in names.split()
    },
}
