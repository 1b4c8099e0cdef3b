"""Operators that reduce groups of elements and then compute every element anew from what came of its group.

Softmax and the normalisations are of this kind. Where a group lies in one run at the end of the output, its reductions
stand inside the one statement that stores the output: they are computed once a run, which stays in the cache. Elsewhere
each reduction is a statement of its own with a temporary. Which of the two depends on strides, the order of the folds
(``reductions``) does not, so the results have the same bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from opendml.definition import computation_type, widen
from opendml.expression.ir import (
    Compute,
    Expression,
    Store,
    Tensor,
    cast,
    grid,
    indices,
    load,
)
from opendml.expression.reductions import SHORTEST_LANES, Reducer, Reduction, one_value, sum_start

Place = tuple[Expression, ...]
Finish = Callable[[Expression], Expression]
GroupValue = Callable[[Place], Expression]
"""A value of the group in which the element at the given coordinates is."""


class Groups:
    """The groups of a ``Reduction``, whose elements are stored in ``output``, one for one.

    ``beside`` are other tensors read at the same coordinates (dimensions of size 1 broadcast), ``with_positions`` says
    that the positions of the elements in their groups are used.
    """

    def __init__(
        self, work: Reduction, output: Tensor, beside: Sequence[Tensor] = (), with_positions: bool = False
    ) -> None:
        self.work = work
        self.output = output
        self.type = computation_type(output.type)
        self._axes = grid(output.sizes)
        self._is_inline = _is_one_run(work, [output, *beside], with_positions)

    def reduced(self, name: str, reducer: Reducer, finish: Finish = lambda value: value, part: int = 0) -> GroupValue:
        """``finish`` (which keeps the type) of one of the values that the elements of each group are reduced to."""
        if self._is_inline:
            value = finish(self.work.values_along(self._axes, reducer)[part])
            return lambda place: value
        result = self.work.intermediate(name, reducer.initial[part].type)
        self.work.reduce(reducer, result, lambda values, place: finish(values[part]))
        return lambda place: load(result, self.work.result_place(place))

    def total(
        self,
        name: str,
        enter: Callable[[Expression, Place], Expression] = lambda x, place: x,
        finish: Finish = lambda value: value,
    ) -> GroupValue:
        """``finish`` of the sum of ``enter(element, coordinates)``, all in the computation type."""
        start = sum_start(self.type)
        reducer = one_value(lambda a, b: a + b, start, lambda value, point: enter(widen(value), point.output))
        return self.reduced(name, reducer, finish)

    def store(self, value: Callable[[Expression, Place], Expression]) -> None:
        """Adds to ``work`` the statement that stores ``value(element, coordinates)``, cast to the output's type."""
        place = indices(self._axes)
        element = widen(load(self.work.source, self.work.place(place)))
        stored = Store(self.output, place, cast(value(element, place), self.output.type))
        self.work.statements.append(Compute(self._axes, (stored,)))


def _is_one_run(work: Reduction, tensors: Sequence[Tensor], with_positions: bool) -> bool:
    """Whether every group is the last dimension of the walk over the output, long enough, and in one piece."""
    *kept, last = work.dimensions
    if not last.is_reduced:
        return not any(d.is_reduced for d in kept)
    run, output = last.originals, tensors[0]
    if not run:
        return True
    if any(d.is_reduced for d in kept) or work.pieces is not None or last.size < SHORTEST_LANES:
        return False
    if with_positions and len(run) > 1:
        return False
    strides = [[0 if n == 1 else s for n, s in zip(t.sizes, t.strides, strict=True)] for t in tensors]
    merge = all(s[a] == s[b] * output.sizes[b] for s in strides for a, b in itertools.pairwise(run))
    return merge and all(output.strides[d.originals[0]] > output.strides[run[0]] for d in kept)
