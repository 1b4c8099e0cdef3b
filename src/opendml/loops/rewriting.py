"""Loads and stores lowered to addresses, and conditions decided by ranges."""

from __future__ import annotations

from collections.abc import Sequence

from opendml.expression.affine import Element, Ranges, address_of, always_inside, decide
from opendml.expression.element_types import BOOL
from opendml.expression.ir import Binary, Expression, Load, constant
from opendml.expression.rewriting import Rewriter
from opendml.expression.statements import Store
from opendml.loops.nest import ElementStore


def lower_loads(ranges: Ranges) -> Rewriter:
    """A rewriter that turns loads by coordinates into elements by address."""

    def read(e: Expression, lowered: Expression) -> Expression:
        if isinstance(e, Load) and isinstance(lowered, Load):
            return Element(e.tensor, address_of(e.tensor, lowered.coordinates), always_inside(e, ranges))
        return lowered

    return Rewriter(read=read)


def simplify(ranges: Ranges) -> Rewriter:
    """A rewriter that replaces the comparisons which ``ranges`` decide."""

    def visit(e: Expression) -> Expression | None:
        if e.type is BOOL and isinstance(e, Binary):
            answer = decide(e, ranges)
            return None if answer is None else constant(answer, BOOL)
        return None

    return Rewriter(visit)


def lowered_stores(stores: Sequence[Store]) -> tuple[ElementStore, ...]:
    """Stores and the loads in them by address instead of by coordinates."""
    lower, decided = lower_loads({}), simplify({})
    return tuple(
        ElementStore(store.tensor, address.rebuilt(decided), decided(lower(store.value)), store.margins)
        for store in stores
        for address in [address_of(store.tensor, map(lower, store.coordinates))]
    )
