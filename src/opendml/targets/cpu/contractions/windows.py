"""Sums over windows that may leave out what is outside of what they read."""

from __future__ import annotations

from dataclasses import dataclass

from opendml.expression.affine import Element
from opendml.expression.ir import Binary, Const, Fold
from opendml.expression.limits import Inside, limits_of


@dataclass(frozen=True, slots=True)
class Windows:
    """The steps of a sum may be those ``inside`` alone, unless ``may_leave_out`` is 0: all others add nothing."""

    may_leave_out: Element
    inside: tuple[Inside, ...]


def windows_of(fold: Fold) -> Windows | None:
    """Which steps a fold may leave out, if it is one that may."""
    where = fold.where
    if not isinstance(where, Binary) or where.operation != "or":
        return None
    equal, inside = where.left, where.right
    if not isinstance(equal, Binary) or equal.operation != "eq" or not isinstance(equal.left, Element):
        return None
    if not isinstance(equal.right, Const) or equal.right.bits:
        return None
    limits = limits_of(inside)
    return None if limits is None else Windows(equal.left, tuple(limits))
