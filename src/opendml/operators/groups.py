"""Operators that reduce groups of elements and then compute every element anew from what came of its group.

Softmax and the normalisations are of this kind. One statement computes the values of all groups, another one stores the
elements; those of few large groups are computed in pieces, one value after the other. Sizes alone decide that, as it
changes the order of the folds (``reductions``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from opendml.expression.ir import Expression, Tensor, cast, grid, indices, load
from opendml.expression.mathematics import square
from opendml.expression.reductions import Reducer, Reduction, one_value, several_sums, sum_start
from opendml.expression.statements import Compute, Store
from opendml.operators.definition import computation_type, every_element, widen

Place = tuple[Expression, ...]
Finish = Callable[[Expression], Expression]


class GroupValue:
    """A value of every group: called with the coordinates of an element, that of the element's group."""

    def __init__(self, work: Reduction, name: str, value: Expression) -> None:
        self.work = work
        self.name = name
        self.value = value
        self.stored: Tensor | None = None

    def __call__(self, place: Place) -> Expression:
        """The value as it stands in its own statement, or loaded once it is stored."""
        return self.value if self.stored is None else load(self.stored, self.work.result_place(place))


class Groups:
    """The groups of a ``Reduction``, whose elements are stored in ``output``, one for one.

    First the values of the groups are named, with ``reduced`` and ``total``, each in terms of those before it; then
    ``store`` adds the statements to the reduction. ``keeps_values`` says that ``keep`` will store values of the groups,
    too.
    """

    def __init__(self, work: Reduction, output: Tensor, keeps_values: bool = False) -> None:
        self.work = work
        self.output = output
        self.type = computation_type(output.type)
        self._axes = grid(output.sizes)
        # An element that is a group by itself has its values beside it.
        self._is_inline = not keeps_values and not work.has_groups
        self._group_axes = self._axes if self._is_inline else grid(output.sizes)
        self._values: list[GroupValue] = []

    def reduced(self, name: str, reducer: Reducer, finish: Finish = lambda value: value, part: int = 0) -> GroupValue:
        """``finish`` (which keeps the type) of one of the values that the elements of each group are reduced to."""
        work = self.work
        if work.pieces is None:
            value = GroupValue(work, name, finish(work.values_along(self._group_axes, reducer)[part]))
            self._values.append(value)
            return value
        value = GroupValue(work, name, reducer.initial[part])
        value.stored = work.intermediate(name, value.value.type)
        work.reduce(reducer, value.stored, lambda values, place: finish(values[part]))
        return value

    def total(
        self,
        name: str,
        enter: Callable[[Expression, Place], Expression] = lambda x, place: x,
        finish: Finish = lambda value: value,
    ) -> GroupValue:
        """``finish`` of the sum of ``enter(element, coordinates)``, all in the computation type."""
        reducer = one_value(
            lambda a, b: a + b, sum_start(self.type), lambda value, point: enter(widen(value), point.output)
        )
        return self.reduced(name, reducer, finish)

    def totals(
        self,
        names: Sequence[str],
        enter: Callable[[Expression, Sequence[Expression], Place], Sequence[Expression]],
    ) -> list[GroupValue]:
        """The sums of the values that ``enter(element, elements of the tensors beside it, coordinates)`` gives, one a
        name, by one pass over the elements."""
        work, count = self.work, len(names)
        reducer = several_sums(
            self.type, count, lambda value, point: enter(widen(value), [widen(x) for x in point.beside], point.output)
        )
        sums = reducer.initial if work.pieces is not None else work.values_along(self._group_axes, reducer)
        values = [GroupValue(work, name, total) for name, total in zip(names, sums, strict=True)]
        if work.pieces is None:
            self._values += values
            return values
        for value in values:
            value.stored = work.intermediate(value.name, self.type)
        work.reduce_all(reducer, [value.stored for value in values if value.stored is not None])
        return values

    def moments(self, name: str, finish: Finish) -> tuple[GroupValue, GroupValue]:
        """The mean of each group, and ``finish`` (which keeps the type), with a ``name``, of the sum of squared
        deviations from it."""
        work = self.work
        if work.pieces is None:
            count = math.prod(work.sizes) // math.prod(work.result_sizes())
            mean = self.total("mean", finish=lambda total: total / count)
            return mean, self.total(name, lambda x, place: square(x - mean(place)), finish)
        start = sum_start(self.type)
        values = GroupValue(work, "mean", start), GroupValue(work, name, start)
        tensors = [work.intermediate(value.name, self.type) for value in values]
        for value, tensor in zip(values, tensors, strict=True):
            value.stored = tensor
        work.reduce_to_moments(self.type, tensors[0], tensors[1], finish)
        return values

    def derived(
        self, name: str, function: Callable[[Sequence[Expression], Place], Expression], *values: GroupValue
    ) -> GroupValue:
        """``function(other values of each group, coordinates)``, all in one type."""
        there = self.work.result_place(indices(self._group_axes))
        result = GroupValue(self.work, name, function([value.value for value in values], there))
        stored = [value.stored for value in values if value.stored is not None]
        if not stored:
            self._values.append(result)
            return result
        assert len(stored) == len(values)
        result.stored = self.work.intermediate(name, result.value.type)
        self.work.statements.append(
            every_element(result.stored, lambda place: function([load(t, place) for t in stored], place))
        )
        return result

    def keep(
        self, value: GroupValue, tensor: Tensor, finish: Callable[[Expression, Place], Expression] = lambda x, place: x
    ) -> None:
        """Adds the statement that stores ``finish(value of the group, coordinates)`` in ``tensor``, which has one
        element a group, cast to its type."""
        self.settle()
        kept = value.stored
        assert kept is not None
        self.work.statements.append(
            every_element(tensor, lambda place: cast(finish(load(kept, place), place), tensor.type))
        )

    def store(self, value: Callable[[Expression, Place], Expression]) -> None:
        """Adds the statements that store ``value(element, coordinates)``, cast to the output's type."""
        self.settle()
        place = indices(self._axes)
        element = widen(load(self.work.source, place))
        stored = Store(self.output, place, cast(value(element, place), self.output.type))
        self.work.statements.append(Compute(self._axes, (stored,)))

    def settle(self) -> None:
        """Adds the statements that compute the values named so far, unless they stand in that of the elements."""
        if self._values and not self._is_inline:
            self._store_values()
            self._values = []

    def _store_values(self) -> None:
        """One statement for the values of all groups."""
        place = self.work.result_place(indices(self._group_axes))
        tensors = [self.work.intermediate(value.name, value.value.type) for value in self._values]
        stores = [Store(t, place, value.value) for t, value in zip(tensors, self._values, strict=True)]
        axes = [axis for axis, size in zip(self._group_axes, self.work.result_sizes(), strict=True) if size > 1]
        self.work.statements.append(Compute(tuple(axes), tuple(stores)))
        for value, tensor in zip(self._values, tensors, strict=True):
            value.stored = tensor
