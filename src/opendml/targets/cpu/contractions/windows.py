"""Sums over windows that may leave out what is outside of what they read."""

from __future__ import annotations

from dataclasses import dataclass

from opendml.expression.affine import Element
from opendml.expression.ir import Binary, Const, Expression, Fold
from opendml.expression.limits import Inside, limits_of


@dataclass(frozen=True, slots=True)
class Windows:
    """The steps of a sum may be those ``inside`` alone, unless ``may_leave_out``, if it is there, is 0: all others add
    nothing."""

    may_leave_out: Element | None
    inside: tuple[Inside, ...]


def windows_of(fold: Fold) -> Windows | None:
    """Which steps a fold may leave out, if it is one that may."""
    if fold.where is None or not fold.is_same_anywhere:
        return None
    may_leave_out, inside = _parts(fold.where)
    limits = limits_of(inside)
    return None if limits is None else Windows(may_leave_out, tuple(limits))


def _parts(where: Expression) -> tuple[Element | None, Expression]:
    """The flag of a condition of the form ``flag == 0 or inside``, and what is inside; any other is that alone."""
    if not isinstance(where, Binary) or where.operation != "or":
        return None, where
    equal = where.left
    if not isinstance(equal, Binary) or equal.operation != "eq" or not isinstance(equal.left, Element):
        return None, where
    is_flag = isinstance(equal.right, Const) and not equal.right.bits
    return (equal.left, where.right) if is_flag else (None, where)
