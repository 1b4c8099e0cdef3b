"""Sums of products as rules of refinement see them: two factors, each an element of a tensor, and the axes they move
along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opendml.expression.affine import Dependencies, affine
from opendml.expression.ir import Axis, Binary, Cast, Const, Expression, Fold, Index, Load, Part, Select, index
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Compute, Statement, Store


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """An ``element`` in the type of the sum, less a ``zero_point`` that is the same at all steps, and 0 where it is not
    ``inside``; both are None where there is nothing of the kind. ``whole`` is the factor as it stands."""

    whole: Expression
    element: Expression
    load: Load
    zero_point: Expression | None = None
    inside: Expression | None = None

    def less_zero_point(self, element: Expression) -> Expression:
        """The factor, by its element in the type of the sum."""
        return element if self.zero_point is None else element - self.zero_point


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """The only fold of a statement: from 0 on it adds the products of two factors, step by step."""

    compute: Compute
    fold: Fold
    left: Factor
    right: Factor

    @property
    def has_window_axes(self) -> bool:
        """Whether the sum is one over channels and the taps of a filter by the numbers of axes and dimensions: for each
        batch, group, channel and place."""
        spatial, (left, right) = len(self.fold.axes) - 1, (self.left.load, self.right.load)
        ranks = {len(left.coordinates), len(right.coordinates), len(self.compute.axes) - 1}
        is_plain = self.fold.partials == 1 and self.right.inside is None
        if self.fold.type.is_float and (self.left.zero_point is not None or self.right.zero_point is not None):
            return False
        return is_plain and spatial >= 1 and ranks == {spatial + 2}

    def rewritten(self, replacements: Mapping[Expression, Expression], axes: Sequence[Axis]) -> Compute:
        """The statement over other axes, with other expressions in the place of some."""
        rewrite = substitute(dict(replacements))
        stores = [Store(s.tensor, tuple(map(rewrite, s.coordinates)), rewrite(s.value)) for s in self.compute.stores]
        return Compute(tuple(axes), tuple(stores))


def sum_of(statement: Statement) -> Sum | None:
    """The sum of products that a statement computes; None if it has no fold, several or another one."""
    if not isinstance(statement, Compute):
        return None
    folds = {e for store in statement.stores for e in walk(store.value) if isinstance(e, Fold)}
    if len(folds) != 1:
        return None
    (fold,) = folds
    product, start = fold.elements[0], fold.initial[0]
    if not fold.contract or not isinstance(start, Const) or start.bits:
        return None
    if not isinstance(product, Binary) or product.operation != "mul":
        return None
    left, right = (_factor(e, fold) for e in (product.left, product.right))
    return None if left is None or right is None else Sum(statement, fold, left, right)


def _factor(whole: Expression, fold: Fold) -> Factor | None:
    e, zero_point, inside = whole, None, None
    if isinstance(e, Select):
        if not isinstance(e.otherwise, Const) or e.otherwise.bits:
            return None
        inside, e = e.condition, e.then
    if isinstance(e, Binary) and e.operation == "sub":
        zero_point, e = e.right, e.left
        folded = Dependencies().of(zero_point)
        if any(axis in folded for axis in fold.axes) or any(isinstance(x, Part) for x in walk(zero_point)):
            return None
    element = e.operand if isinstance(e, Cast) else e
    return Factor(whole, e, element, zero_point, inside) if isinstance(element, Load) else None


def order_of(source: Load, axes: Sequence[Axis]) -> tuple[int, ...] | None:
    """The dimensions of a tensor that is read at the coordinates of these axes, one each, in their order. What axes of
    size 1 do is not to be seen: they have the dimensions that are left, in order."""
    if len(source.coordinates) != len(axes):
        return None
    places = {c.axis: d for d, c in enumerate(source.coordinates) if isinstance(c, Index)}
    rest = [d for d, c in enumerate(source.coordinates) if isinstance(c, Const) and not c.bits]
    if len(places) + len(rest) != len(axes) or places.keys() != {axis for axis in axes if axis.size > 1}:
        return None
    left = iter(rest)
    return tuple(places[axis] if axis in places else next(left) for axis in axes)


def coordinate_is(coordinate: Expression, terms: Mapping[Axis, int], constant: int = 0) -> bool:
    """Whether a coordinate is ``constant`` + the sum of coefficient * axis."""
    form = affine(coordinate)
    return form.constant == constant and dict(form.terms) == {axis: c for axis, c in terms.items() if axis.size > 1}


def moved(coordinates: Mapping[Axis, Expression]) -> dict[Expression, Expression]:
    """What takes the place of the coordinates of some axes; those of axes of size 1 are not to be seen."""
    return {index(axis): place for axis, place in coordinates.items() if axis.size > 1}


def at(e: Expression, coordinates: Mapping[Axis, Expression]) -> Expression:
    """An expression with other coordinates for some axes."""
    return substitute(moved(coordinates))(e)
