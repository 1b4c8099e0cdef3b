"""Sums over windows that may leave out what is outside of what they read."""

from __future__ import annotations

from dataclasses import dataclass

from opendml.expression.affine import Affine, Element, affine
from opendml.expression.ir import Binary, Const, Expression, Fold
from opendml.expression.rewriting import conjuncts


@dataclass(frozen=True, slots=True)
class Inside:
    """Where a ``coordinate``, a sum of axes, is from ``first`` to before ``end``; None: there is no such limit."""

    coordinate: Affine
    first: int | None
    end: int | None

    def holds(self, coordinate: int) -> bool:
        """Whether a coordinate is inside."""
        return (self.first is None or coordinate >= self.first) and (self.end is None or coordinate < self.end)


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
    first, end = dict[Affine, int](), dict[Affine, int]()
    for one in conjuncts(inside):
        found = _limit(one)
        if found is None:
            return None
        coordinate, limit, is_first = found
        (first if is_first else end)[coordinate] = limit
    parts = (Inside(coordinate, first.get(coordinate), end.get(coordinate)) for coordinate in first | end)
    return Windows(equal.left, tuple(parts))


def _limit(one: Expression) -> tuple[Affine, int, bool] | None:
    """A coordinate, the number that it is not less than, or that it is less than, and whether it is the former."""
    if not isinstance(one, Binary) or one.operation not in ("ge", "lt") or not isinstance(one.right, Const):
        return None
    coordinate = affine(one.left)
    return (coordinate, int(one.right.value), one.operation == "ge") if coordinate.is_pure else None
