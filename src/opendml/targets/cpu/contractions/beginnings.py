"""What sums of integers begin with: terms that all points of a tile have in common.

Integers are exact modulo 2^32 in any order, so what is added to a sum may as well be there before its first product:
nothing is left to add behind the last one, and registers that keep it are free then.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from opendml.expression.affine import Dependencies
from opendml.expression.element_types import I32
from opendml.expression.ir import Axis, Binary, Expression, Fold, Part, constant
from opendml.expression.rewriting import substitute, walk
from opendml.loops.nest import ElementStore


def begun_with_terms(
    stores: Sequence[ElementStore], fold: Fold, across: Set[Axis]
) -> tuple[tuple[ElementStore, ...], Fold]:
    """The stores and their fold, which begins with what is added to it, if it is the same for all points ``across``."""
    total = Part(fold, 0)
    found = {e for store in stores for e in walk(store.value) if e is not total and _terms(e, total) is not None}
    inner = {child for e in found for child in e.children}
    outermost = [e for e in found if e not in inner]
    if fold.type is not I32 or len(outermost) != 1:
        return tuple(stores), fold
    (sum_of_terms,) = outermost
    terms = _terms(sum_of_terms, total)
    assert terms is not None
    if not across.isdisjoint(Dependencies().of(terms)):
        return tuple(stores), fold
    initial, is_same = (terms + fold.initial[0],), fold.is_same_anywhere
    begun = Fold(fold.axes, initial, fold.elements, fold.combine, fold.where, contract=True, is_same_anywhere=is_same)
    rewrite = substitute({sum_of_terms: Part(begun, 0)})
    made = tuple(replace(store, value=rewrite(store.value)) for store in stores)
    is_left = any(e is total for store in made for e in walk(store.value))
    return (tuple(stores), fold) if is_left else (made, begun)


def _terms(e: Expression, total: Part) -> Expression | None:
    """What is added to a sum, if an expression is the sum and such terms."""
    if e is total:
        return constant(0, I32)
    if not isinstance(e, Binary) or e.type is not I32 or e.operation not in ("add", "sub"):
        return None
    left, right = _terms(e.left, total), _terms(e.right, total)
    if left is not None and not _is_in(total, e.right):
        return left + e.right if e.operation == "add" else left - e.right
    if right is not None and e.operation == "add" and not _is_in(total, e.left):
        return right + e.left
    return None


def _is_in(total: Part, e: Expression) -> bool:
    return any(part is total for part in walk(e))
