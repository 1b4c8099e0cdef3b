"""How much of a grid of points conditions on sums of its axes leave."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from opendml.expression.affine import Affine, affine
from opendml.expression.ir import Binary, Const, Expression
from opendml.expression.rewriting import conjuncts


def share_inside(condition: Expression) -> float:
    """The part of all points at which all conditions hold that a condition is the conjunction of, if these are limits
    of coordinates, each of axes of its own; others hold everywhere. Of two alternatives the second counts."""
    if isinstance(condition, Binary) and condition.operation == "or":
        return share_inside(condition.right)
    limits = dict[Affine, list[Binary]]()
    for one in conjuncts(condition):
        if isinstance(one, Binary) and one.operation in ("ge", "lt") and isinstance(one.right, Const):
            coordinate = affine(one.left)
            if coordinate.is_pure:
                limits.setdefault(coordinate, []).append(one)
    share = 1.0
    for coordinate, some in limits.items():
        share *= _share(coordinate, some)
    return share


def _share(coordinate: Affine, limits: Iterable[Binary]) -> float:
    places = np.full((), coordinate.constant)
    for axis in coordinate.axes:
        places = np.add.outer(places, coordinate.coefficient(axis) * np.arange(axis.size))
    holds = np.ones(places.shape, np.bool_)
    for one in limits:
        assert isinstance(one.right, Const)
        holds &= places >= one.right.value if one.operation == "ge" else places < one.right.value
    return float(holds.mean())
