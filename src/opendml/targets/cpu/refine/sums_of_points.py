"""Folds over the points of an image whose channels lie side by side, as means of channels are.

Their partial results are those of every 64th point or so, by definition. Where points are next to each other these are
the lanes of a vector. Where channels are, lanes had to be gathered point by point: here they are channels, and the sums
of few points are written out, in the order of the definition. Of more points partial results are elements of a tensor.
Rows of all partial results of all channels follow one another in memory, so the first statement is a fold over rows
that lie there as they are wanted, and the second one joins what it comes to, and the points behind the last whole row.
"""

from __future__ import annotations

from functools import partial

from opendml.expression.affine import Dependencies
from opendml.expression.element_types import ElementType
from opendml.expression.ir import (
    Axis,
    Const,
    Expression,
    Fold,
    Index,
    Load,
    Part,
    constant,
    index,
)
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Compute, Definition, Statement, rewritten
from opendml.targets.cpu.refine.refinement import (
    CHANNEL,
    Refinement,
    Surroundings,
    are_side_by_side,
    statement_by_statement,
)
from opendml.targets.cpu.refine.sums import at
from opendml.targets.cpu.target import CpuTarget


def sums_of_points(definition: Definition, surroundings: Surroundings) -> Definition:
    """The definition with such folds in two statements each."""
    return statement_by_statement(definition, partial(_in_rows, surroundings.target))


def fold_of_points(statement: Statement) -> Fold | None:
    """The only fold of a statement if it is one of those that go over points, wherever their channels lie."""
    if not isinstance(statement, Compute) or len(statement.stores) != 1:
        return None
    folds = list(dict.fromkeys(e for e in walk(statement.stores[0].value) if isinstance(e, Fold)))
    return folds[0] if len(folds) == 1 and _is_plain(folds[0]) else None


def _in_rows(target: CpuTarget, statement: Statement) -> Refinement | None:
    fold = fold_of_points(statement)
    if fold is None:
        return None
    assert isinstance(statement, Compute)
    channel = _channel(fold, statement)
    if channel is None or channel.size < target.machine.lanes(fold.type.bits):
        return None
    return _Rows(fold, channel, statement).refinement(target.tuning.most_points_written_out)


def _is_plain(fold: Fold) -> bool:
    """Whether a fold has partial results, of one value, all of whose steps are taken."""
    is_one = len(fold.axes) == len(fold.elements) == 1 and isinstance(fold.initial[0], Const)
    is_alone = not any(isinstance(e, Fold) for e in walk(fold.elements[0]))
    return fold.partials > 1 and is_one and is_alone and fold.where is None and not fold.contract


def _channel(fold: Fold, statement: Compute) -> Axis | None:
    """The axis of the channels of all that a fold goes through, if these lie side by side in all of it."""
    (point,), dependencies = fold.axes, Dependencies()
    loads = [e for e in walk(fold.elements[0]) if isinstance(e, Load) and point in dependencies.of(e)]
    found = {e.coordinates[CHANNEL] if are_side_by_side(e.tensor) else None for e in loads}
    channel = found.pop() if len(found) == 1 else None
    if not isinstance(channel, Index) or channel.axis not in statement.axes:
        return None
    return channel.axis


class _Rows:
    """One statement, whose fold becomes one over rows of partial results."""

    def __init__(self, fold: Fold, channel: Axis, statement: Compute) -> None:
        self.fold, self.channel, self.statement = fold, channel, statement
        (self.point,) = fold.axes
        self.place: ElementType = index(self.point).type
        self.found = Refinement()

    def refinement(self, most_points: int) -> Refinement:
        """The rows, where these have more than ``most_points``, and the statement that joins their partial results."""
        count, rows = self.fold.partials, self.point.size // self.fold.partials
        if self.point.size <= most_points:
            states, first = [*self.fold.initial] * count, 0
        else:
            states, first = self._of_rows(rows), rows * count
        states = [self._with_points(state, first + number) for number, state in enumerate(states)]
        combine = self.fold.combine
        merge = combine.result if combine.merge is None else combine.merge
        while len(states) > 1:
            half = len(states) // 2
            states = [self._joined(a, b, merge) for a, b in zip(states[:half], states[half:], strict=True)]
        self.found.statements.append(rewritten(self.statement, substitute({Part(self.fold, 0): states[0]}), {}))
        return self.found

    def _element(self, place: Expression) -> Expression:
        """What the fold takes at a point."""
        return at(self.fold.elements[0], {self.point: place})

    def _joined(self, left: Expression, right: Expression, result: tuple[Expression, ...]) -> Expression:
        combine = self.fold.combine
        return substitute({combine.left[0]: left, combine.right[0]: right})(result[0])

    def _with_points(self, state: Expression, first: int) -> Expression:
        """A partial result behind the steps at those of its points that are not before ``first``."""
        for place in range(first, self.point.size, self.fold.partials):
            state = self._joined(state, self._element(constant(place, self.place)), self.fold.combine.result)
        return state

    def _of_rows(self, rows: int) -> list[Expression]:
        """A tensor of partial results, those of all channels next to one another."""
        fold, count = self.fold, self.fold.partials
        row, within = Axis("row", rows), Axis("within", count)
        element = self._element(index(row) * count + index(within))
        folded = Part(Fold((row,), fold.initial, (element,), fold.combine), 0)
        moving = Dependencies().of(folded)
        others = [axis for axis in self.statement.axes if axis in moving and axis is not self.channel]
        read = self.found.values("partial_results", folded, (*others, within, self.channel))
        return [at(read, {within: constant(number, self.place)}) for number in range(count)]
