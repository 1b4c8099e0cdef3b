"""Conditions that are limits of coordinates, and how much of a grid of points they leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendml.expression.affine import Affine, affine
from opendml.expression.ir import Binary, Const, Expression
from opendml.expression.rewriting import conjuncts


@dataclass(frozen=True, slots=True)
class Inside:
    """Where a ``coordinate``, a sum of axes, is from ``first`` to before ``end``; None: there is no such limit."""

    coordinate: Affine
    first: int | None = None
    end: int | None = None

    def holds(self, coordinate: int) -> bool:
        """Whether a coordinate is inside."""
        return (self.first is None or coordinate >= self.first) and (self.end is None or coordinate < self.end)

    @property
    def share(self) -> float:
        """The part of all points of the coordinate's axes that are inside."""
        places = np.full((), self.coordinate.constant)
        for axis in self.coordinate.axes:
            places = np.add.outer(places, self.coordinate.coefficient(axis) * np.arange(axis.size))
        is_behind = True if self.first is None else places >= self.first
        is_before = True if self.end is None else places < self.end
        return float(np.mean(np.broadcast_to(is_behind & is_before, places.shape)))


def limits_of(condition: Expression) -> list[Inside] | None:
    """What a condition is the conjunction of, a limit or two for each coordinate; None if it is something else."""
    first, end = dict[Affine, int](), dict[Affine, int]()
    for one in conjuncts(condition):
        if not isinstance(one, Binary) or one.operation not in ("ge", "lt") or not isinstance(one.right, Const):
            return None
        coordinate, limit = affine(one.left), int(one.right.value)
        if not coordinate.is_pure:
            return None
        if one.operation == "ge":
            first[coordinate] = max(first.get(coordinate, limit), limit)
        else:
            end[coordinate] = min(end.get(coordinate, limit), limit)
    return [Inside(coordinate, first.get(coordinate), end.get(coordinate)) for coordinate in first | end]


def share_inside(condition: Expression) -> float:
    """The part of all points at which a condition holds, if that is a conjunction of limits of coordinates, each of
    axes of its own; any other one is taken to hold everywhere. Of two alternatives the second counts."""
    if isinstance(condition, Binary) and condition.operation == "or":
        return share_inside(condition.right)
    share = 1.0
    for inside in limits_of(condition) or ():
        share *= inside.share
    return share
