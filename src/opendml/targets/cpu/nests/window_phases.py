"""Windows that reach over an end, in two phases: the steps along one axis that are outside, and those that are inside.

At every place of the border a condition on the outermost axis of a window holds from some step on, or up to one. So the
sum is one of as many steps as are outside and, from that on, one of those inside, or the other way around: each is a
loop in whose body the condition is known, and the places of a border have the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opendml.expression.affine import Affine, Element, total
from opendml.expression.element_types import BOOL
from opendml.expression.ir import Axis, Expression, Fold, Index, Part, constant, index
from opendml.expression.rewriting import Rewriter, substitute, walk
from opendml.targets.cpu.nests.making import Piece, Stores, rewritten


@dataclass(frozen=True, slots=True, eq=False)
class _Border:
    """Places of an ``axis`` from ``first`` to before ``last``, and the first phase of each window there: ``count``
    steps along ``tap`` at which the ``condition`` is ``known`` to hold, or not to."""

    axis: Axis
    first: int
    last: int
    tap: Axis
    condition: Expression
    count: Affine
    known: bool

    @property
    def counts(self) -> tuple[int, int]:
        """The least and the greatest number of steps in the first phase."""
        found = self.count.range({self.axis: (self.first, self.last - 1)})
        assert found is not None
        return found


def in_phases(
    stores: Stores, conditions: Mapping[Expression, Affine], axis: Axis, first: int, last: int
) -> Stores | None:
    """The stores at some places of an axis with their sum in two phases, if one of the ``conditions`` is left there,
    which tells one step along the outermost axis of the sum from another."""
    here = Piece(stores, axis, first, last).stores
    parts = {e for store in here for e in walk(store.value)}
    folds, left = [e for e in parts if isinstance(e, Fold)], parts & conditions.keys()
    if len(folds) != 1 or len(left) != 1:
        return None
    (fold,), (condition,) = folds, left
    border = _border(fold, condition, conditions[condition], axis, (first, last))
    if border is None or not fold.contract or fold.where is not None or fold.partials > 1:
        return None
    return rewritten(here, substitute({Part(fold, 0): Part(_phased(fold, border), 0)}))


def _border(fold: Fold, condition: Expression, form: Affine, axis: Axis, places: tuple[int, int]) -> _Border | None:
    tap = next((tap for tap in fold.axes if tap.size > 1), None)
    if tap is None or set(form.axes) != {axis, tap} or abs(form.coefficient(tap)) != 1:
        return None
    is_later = form.coefficient(tap) == 1  # the condition holds from some step on
    rest = form.plus(Affine(((tap, 1),), 0), -form.coefficient(tap))
    count = total(((rest, -1),)) if is_later else rest.plus(Affine((), 1))
    border = _Border(axis, *places, tap, condition, count, not is_later)
    least, most = border.counts
    return border if least >= 0 and 0 < most <= tap.size and least < tap.size else None


def _phased(fold: Fold, border: _Border) -> Fold:
    """The second phase, which begins with the sum of the first."""
    least, most = border.counts
    nothing, size = Affine((), 0), Affine((), border.tap.size)
    before = _phase(fold, border, border.known, nothing, border.count, most)
    behind = _phase(fold, border, not border.known, border.count, size.plus(border.count, -1), border.tap.size - least)
    return Fold(behind.axes, (Part(before, 0),), behind.elements, behind.combine, where=behind.where, contract=True)


def _phase(fold: Fold, border: _Border, known: bool, start: Affine, count: Affine, most: int) -> Fold:
    """``count`` steps along the tap from ``start`` on, ``most`` at most; the condition is ``known`` at all of them."""
    tap = Axis(border.tap.name, most)
    decided = substitute({border.condition: constant(known, BOOL)})
    moved = _moved(border.tap, start.plus(Affine(((tap, 1),), 0)))
    axes = tuple(tap if axis is border.tap else axis for axis in fold.axes)
    where = None if border.counts[0] == border.counts[1] else index(tap) < count.as_expression()
    elements = tuple(moved(decided(e)) for e in fold.elements)
    return Fold(axes, fold.initial, elements, fold.combine, where=where, contract=True)


def _moved(axis: Axis, place: Affine) -> Rewriter:
    """A rewriter that puts a place where an axis stands."""

    def visit(e: Expression) -> Expression | None:
        return place.as_expression() if isinstance(e, Index) and e.axis is axis else None

    def read(_: Expression, e: Expression) -> Expression:
        if not isinstance(e, Element) or not e.address.coefficient(axis):
            return e
        step = e.address.coefficient(axis)
        address = total(((e.address, 1), (Affine(((axis, 1),), 0), -step), (place, step)))
        return Element(e.tensor, address, e.safe)

    return Rewriter(visit, read)
