"""Reductions of whole dimensions of a tensor: which loops, pieces and partial results they take.

All of it is decided by the sizes alone, so that the order of a sum is the same for every memory layout. Adjacent
reduced dimensions are walked as one, by the positions of their elements. Few outputs of many elements each are reduced
in pieces, whose partial results are reduced in turn.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from opendml.expression.element_types import I64, U32, ElementType
from opendml.expression.folds import extreme_combine, highest, lowest, partials_for, replaces_nan, simple_combine
from opendml.expression.ir import (
    Axis,
    Combine,
    Expression,
    Fold,
    Part,
    Tensor,
    Variable,
    binary,
    cast,
    constant,
    index,
    load,
    temporary,
)
from opendml.expression.mathematics import square
from opendml.expression.positions import digits, row_major
from opendml.expression.statements import Compute, Statement, Store

# No knobs of a target: the order of a sum follows from these and the sizes, so that it is the same on all of them.
# They are so large, or so small, that processors and GPUs have enough to do side by side.

PIECE: Final = 16384
"""Elements of one partial result, or of those side by side where the last dimension stays in place."""

FEWEST_ROWS: Final = 32
"""Elements, at least, of one partial result of a reduction that leaves the last dimension in place."""

ENOUGH_OUTPUTS: Final = 32
"""Outputs from which on there is work for many threads without partial results."""

VECTOR_OUTPUTS: Final = 64
"""Outputs that are computed together where the last dimension stays in place."""

SHORTEST_PARTIALS: Final = 16
"""Reduced sizes below this are folded into one result each, many outputs at a time."""


class Point(NamedTuple):
    """Where an element of a reduction is: the coordinates of its output (0 where reduced), its row-major position among
    the elements that are reduced together (``U32``), and what the tensors ``beside`` have there."""

    output: tuple[Expression, ...]
    position: Expression
    beside: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Reducer:
    """An associative combination of one or several values, and how an element of the tensor enters it."""

    initial: tuple[Expression, ...]
    combine: Combine
    enter: Callable[[Expression, Point], tuple[Expression, ...]]


def one_value(
    operation: Callable[[Expression, Expression], Expression],
    initial: Expression,
    enter: Callable[[Expression, Point], Expression],
) -> Reducer:
    """The reducer of one value by an associative ``operation``."""
    return Reducer((initial,), simple_combine(operation, initial.type), lambda value, point: (enter(value, point),))


def several_sums(type: ElementType, count: int, enter: Callable[[Expression, Point], Sequence[Expression]]) -> Reducer:
    """The reducer of ``count`` values, each to its sum: what they are made of is loaded once for all."""
    left = tuple(Variable(f"a{n}", type) for n in range(count))
    right = tuple(Variable(f"b{n}", type) for n in range(count))
    combine = Combine(left, right, tuple(a + b for a, b in zip(left, right, strict=True)))
    return Reducer((sum_start(type),) * count, combine, lambda value, point: tuple(enter(value, point)))


def sum_start(type: ElementType) -> Expression:
    """What a sum begins with: -0 for floats, for 0 would turn a sum of nothing but -0 into +0."""
    return constant(-0.0 if type.is_float else 0, type)


def extreme_and_position(
    comparison: str, type: ElementType, enter: Callable[[Expression], Expression], last: bool = False
) -> Reducer:
    """The reducer to the first NaN or else the first largest (``"gt"``) or smallest (``"lt"``) value, and its position;
    with ``last`` to the last ones.

    It begins with position 0, which is right: only a tensor without anything better than the initial value keeps it.
    """
    start = lowest(type) if comparison == "gt" else highest(type)
    combine = extreme_combine(comparison, type, U32, last)
    return Reducer((start, constant(0, U32)), combine, lambda value, point: (enter(value), point.position))


def extreme_number_and_position(
    comparison: str, type: ElementType, enter: Callable[[Expression], Expression], last: bool = False
) -> Reducer:
    """As ``extreme_and_position`` of the numbers alone: NaN are passed over. It begins with one, at position 0."""
    if not type.is_float:
        return extreme_and_position(comparison, type, enter, last)
    combine = extreme_combine(comparison, type, U32, last, replaces_nan)
    start = (constant(math.nan, type), constant(0, U32))
    return Reducer(start, combine, lambda value, point: (enter(value), point.position))


Finish = Callable[[Sequence[Expression], tuple[Expression, ...]], Expression]
"""What is stored, of the reduced values and the coordinates of the output."""


class _Dimension(NamedTuple):
    """A dimension of the tensor that is walked: one kept dimension, or a run of adjacent reduced ones."""

    size: int
    is_reduced: bool
    originals: tuple[int, ...]


class _Pieces(NamedTuple):
    """The dimension that is cut, and the length of a piece."""

    dimension: int
    length: int


class _Cut(NamedTuple):
    """Pieces: their axis; those of their results and those that are folded, one a dimension of either; where an element
    is, and which elements there are."""

    piece: Axis
    axes: list[Axis | None]
    folded: list[Axis | None]
    coordinates: list[Expression]
    where: Expression | None


@dataclass(slots=True, eq=False)
class Reduction:
    """A tensor reduced over axes, once or several times, into outputs whose reduced dimensions have size 1.

    ``dimensions`` are those of ``source``, the tensor, that are walked. ``statements`` and ``temporaries`` grow with
    every ``reduce``. ``beside`` are tensors of the same sizes that are walked together with it.
    """

    source: Tensor
    dimensions: tuple[_Dimension, ...]
    pieces: _Pieces | None
    beside: tuple[Tensor, ...] = ()
    statements: list[Statement] = field(default_factory=list)
    temporaries: list[Tensor] = field(default_factory=list)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Those of the tensor."""
        return self.source.sizes

    @property
    def has_groups(self) -> bool:
        """Whether more than one element is reduced to one value anywhere."""
        return any(d.is_reduced and d.originals for d in self.dimensions)

    def reduce(self, reducer: Reducer, output: Tensor, finish: Finish = lambda values, place: values[0]) -> None:
        """Adds the statements that store ``finish(reduced values, coordinates)`` in every element of ``output``, cast
        to its type."""
        self._reduce(reducer, {output: finish})

    def reduce_all(self, reducer: Reducer, outputs: Sequence[Tensor]) -> None:
        """Adds the statements that store each of the reduced values in an output of its own."""
        self._reduce(reducer, {output: _value_number(n) for n, output in enumerate(outputs)})

    def _reduce(self, reducer: Reducer, finished: Mapping[Tensor, Finish]) -> None:
        if self.pieces is None:
            axes, folded = self._axes()
            values = self._fold_source(reducer, axes, folded, list(map(_optional_index, axes, folded)), None)
            self._store(axes, finished, values)
            return
        self._join(reducer, self._reduce_pieces(reducer, self.pieces), self.pieces, finished)

    def reduce_to_moments(
        self, type: ElementType, mean: Tensor, squares: Tensor, finish: Callable[[Expression], Expression]
    ) -> None:
        """Adds the statements that store the mean, and ``finish(sum of squared deviations from it)``, of what is
        reduced in pieces: each piece is read once, from memory, and has a mean of its own.

        A piece with ``n`` elements of the sum ``s``, and of ``q`` squared deviations from ``s / n``, adds
        ``q + n * (s / n - mean) ** 2`` (Chan, Golub and LeVeque, 1979).
        """
        pieces = self.pieces
        assert pieces is not None
        count = math.prod(self.sizes) // math.prod(self.result_sizes())
        cut = self._cut(pieces)
        total = one_value(operator.add, sum_start(type), lambda value, _: cast(value, type))
        (sums,) = self._fold_piece(total, cut)
        own_mean = sums / self._elements_in(pieces, cut.piece, type)
        around = one_value(operator.add, sum_start(type), lambda value, _: square(cast(value, type) - own_mean))
        partial_results = self._store_pieces(cut, [sums, *self._fold_piece(around, cut)])
        self._join(total, partial_results[:1], pieces, {mean: lambda values, _: values[0] / count})

        def joined(elements: Sequence[Expression], along: Axis, place: tuple[Expression, ...]) -> tuple[Expression]:
            own, own_squares = elements
            number = self._elements_in(pieces, along, type)
            return (own_squares + number * square(own / number - load(mean, place)),)

        self._join(total, partial_results, pieces, {squares: lambda values, _: finish(values[0])}, joined)

    def _join(
        self,
        reducer: Reducer,
        partial_results: Sequence[Tensor],
        pieces: _Pieces,
        finished: Mapping[Tensor, Finish],
        enter: Callable[[Sequence[Expression], Axis, tuple[Expression, ...]], tuple[Expression, ...]] | None = None,
    ) -> None:
        """The statement that reduces partial results in turn, or what ``enter`` makes of those of a piece, its axis and
        the coordinates of the output."""
        axes, _ = self._axes()
        along = Axis("c", partial_results[0].sizes[pieces.dimension])
        coordinates = tuple(index(along) if d == pieces.dimension else _index(a) for d, a in enumerate(axes))
        elements = tuple(load(partial, coordinates) for partial in partial_results)
        if enter is not None:
            elements = enter(elements, along, self._output_point(axes))
        partials = partials_for(along) if self._is_contiguous(pieces.dimension) else 1
        values = _parts(Fold((along,), reducer.initial, elements, self._joining(reducer.combine), None, partials))
        self._store(axes, finished, values)

    def values_along(self, axes: Sequence[Axis], reducer: Reducer) -> tuple[Expression, ...]:
        """The reduced values, not in pieces, as expressions of ``axes``, one a dimension of the tensor."""
        kept = [None if d.is_reduced else axes[d.originals[0]] for d in self.dimensions]
        _, folded = self._axes()
        return self._fold_source(reducer, kept, folded, list(map(_optional_index, kept, folded)), None)

    def position(self, coordinates: Sequence[Expression]) -> Expression:
        """The row-major position (``U32``) of an element among those that are reduced together."""
        runs = [d.originals for d in self.dimensions]
        return self._position([row_major([coordinates[d] for d in run], [self.sizes[d] for d in run]) for run in runs])

    def result_sizes(self) -> list[int]:
        """The sizes of an output: 1 where reduced."""
        kept = {d for dimension in self.dimensions if not dimension.is_reduced for d in dimension.originals}
        return [size if d in kept else 1 for d, size in enumerate(self.sizes)]

    def result_place(self, coordinates: Sequence[Expression]) -> tuple[Expression, ...]:
        """Where an output has the result for the element of the given coordinates."""
        return tuple(_zero() if size == 1 else c for c, size in zip(coordinates, self.result_sizes(), strict=True))

    def intermediate(self, name: str, type: ElementType) -> Tensor:
        """A temporary for an output that later statements read."""
        tensor = temporary(name, type, self.result_sizes())
        self.temporaries.append(tensor)
        return tensor

    def _axes(self) -> tuple[list[Axis | None], list[Axis | None]]:
        """For every dimension the axis of the outputs, or the one that is folded over."""
        kept = [None if d.is_reduced else Axis(f"k{n}", d.size) for n, d in enumerate(self.dimensions)]
        folded = [Axis(f"r{n}", d.size) if d.is_reduced else None for n, d in enumerate(self.dimensions)]
        return kept, folded

    def _reduce_pieces(self, reducer: Reducer, pieces: _Pieces) -> list[Tensor]:
        """The statement that computes the partial results, one tensor for each value."""
        cut = self._cut(pieces)
        return self._store_pieces(cut, self._fold_piece(reducer, cut))

    def _cut(self, pieces: _Pieces) -> _Cut:
        """The axes of partial results and of what each is made of."""
        number, length = pieces
        size = self.dimensions[number].size
        axes, folded = self._axes()
        axes[number], folded[number] = piece, within = Axis("c", -(-size // length)), Axis("r", length)
        coordinates = list(map(_optional_index, axes, folded))
        coordinates[number] = index(piece) * length + index(within)
        where = coordinates[number] < size if size % length else None
        return _Cut(piece, axes, folded, coordinates, where)

    def _fold_piece(self, reducer: Reducer, cut: _Cut) -> tuple[Expression, ...]:
        return self._fold_source(reducer, cut.axes, cut.folded, cut.coordinates, cut.where)

    def _store_pieces(self, cut: _Cut, values: Sequence[Expression]) -> list[Tensor]:
        """The statement that stores the values of all pieces."""
        sizes = [1 if axis is None else axis.size for axis in cut.axes]
        partial_results = [temporary(f"partial{n}", value.type, sizes) for n, value in enumerate(values)]
        self.temporaries += partial_results
        place = tuple(map(_index, cut.axes))
        self._compute(cut.axes, [Store(t, place, value) for t, value in zip(partial_results, values, strict=True)])
        return partial_results

    def _elements_in(self, pieces: _Pieces, piece: Axis, type: ElementType) -> Expression:
        """How many elements of each output a piece has; the last one may have fewer."""
        size = self.dimensions[pieces.dimension].size
        others = math.prod(d.size for d in self.dimensions if d.is_reduced) // size
        if size % pieces.length == 0:
            return constant(others * pieces.length, type)
        rest = binary("min", size - index(piece) * pieces.length, constant(pieces.length, I64))
        return cast(rest * others, type)

    def _joining(self, combine: Combine) -> Combine:
        """The combination for partial results: pieces of an inner dimension interleave in the order of elements."""
        first = next(n for n, dimension in enumerate(self.dimensions) if dimension.is_reduced)
        is_ordered = self.pieces is not None and self.pieces.dimension == first
        return combine if combine.merge is None or is_ordered else replace(combine, result=combine.merge)

    def _fold_source(
        self,
        reducer: Reducer,
        axes: Sequence[Axis | None],
        folded: Sequence[Axis | None],
        coordinates: Sequence[Expression],
        where: Expression | None,
    ) -> tuple[Expression, ...]:
        place = self._place(coordinates)
        beside = tuple(load(tensor, place) for tensor in self.beside)
        point = Point(self._output_point(axes), self._position(coordinates), beside)
        elements = reducer.enter(load(self.source, place), point)
        over = tuple(axis for axis in folded if axis is not None)
        if not over:
            return elements
        partials = partials_for(over[-1]) if self._is_contiguous() and over[-1].size >= SHORTEST_PARTIALS else 1
        return _parts(Fold(over, reducer.initial, elements, reducer.combine, where, partials))

    def _is_contiguous(self, dimension: int | None = None) -> bool:
        """Whether the last dimension is reduced (and is ``dimension``, if given)."""
        last = len(self.dimensions) - 1
        return self.dimensions[last].is_reduced and dimension in (None, last)

    def _output_point(self, axes: Sequence[Axis | None]) -> tuple[Expression, ...]:
        point = [_zero() for _ in self.sizes]
        for axis, dimension in zip(axes, self.dimensions, strict=True):
            if not dimension.is_reduced:
                point[dimension.originals[0]] = _index(axis)
        return tuple(point)

    def _place(self, coordinates: Sequence[Expression]) -> tuple[Expression, ...]:
        """The coordinates in the tensor, by those along the dimensions that are walked."""
        place = [_zero() for _ in self.sizes]
        for coordinate, dimension in zip(coordinates, self.dimensions, strict=True):
            run = dimension.originals
            for d, digit in zip(run, digits(coordinate, [self.sizes[d] for d in run]), strict=True):
                place[d] = digit
        return tuple(place)

    def _position(self, coordinates: Sequence[Expression]) -> Expression:
        position = _zero()
        for coordinate, dimension in zip(coordinates, self.dimensions, strict=True):
            if dimension.is_reduced:
                position = position * dimension.size + coordinate
        return cast(position, U32)

    def _store(
        self, axes: Sequence[Axis | None], finished: Mapping[Tensor, Finish], values: tuple[Expression, ...]
    ) -> None:
        place = self._output_point(axes)
        stores = [Store(output, place, cast(f(values, place), output.type)) for output, f in finished.items()]
        self._compute(axes, stores)

    def _compute(self, axes: Iterable[Axis | None], stores: Sequence[Store]) -> None:
        self.statements.append(Compute(tuple(a for a in axes if a is not None), tuple(stores)))


def reduction(tensor: Tensor, axes: Iterable[int], beside: Sequence[Tensor] = ()) -> Reduction:
    """A tensor prepared for being reduced over ``axes``, and others of its sizes beside it."""
    dimensions = _dimensions(tensor.sizes, frozenset(axes))
    return Reduction(tensor, dimensions, _pieces(dimensions), tuple(beside))


def _dimensions(sizes: Sequence[int], axes: frozenset[int]) -> tuple[_Dimension, ...]:
    """The dimensions larger than 1, runs of reduced ones made one; a single reduced one of size 1 if there is none."""
    dimensions: list[_Dimension] = []
    for d, size in enumerate(sizes):
        if size == 1:
            continue
        if d in axes and dimensions and dimensions[-1].is_reduced:
            run = dimensions.pop()
            dimensions.append(_Dimension(run.size * size, True, (*run.originals, d)))
        else:
            dimensions.append(_Dimension(size, d in axes, (d,)))
    return tuple(dimensions) or (_Dimension(1, True, ()),)


def _pieces(dimensions: Sequence[_Dimension]) -> _Pieces | None:
    """Whether and how the reduction is cut into pieces: by the sizes alone."""
    reduced = [n for n, d in enumerate(dimensions) if d.is_reduced]
    if not reduced:
        return None
    outputs = math.prod(d.size for d in dimensions if not d.is_reduced)
    longest = max(reduced, key=lambda n: dimensions[n].size)
    size = dimensions[longest].size
    others = math.prod(dimensions[n].size for n in reduced) // size
    if dimensions[-1].is_reduced:
        enough, length = ENOUGH_OUTPUTS, max(PIECE // others, 1)
    else:
        enough, length = ENOUGH_OUTPUTS * VECTOR_OUTPUTS, max(PIECE // (others * outputs), FEWEST_ROWS)
    return _Pieces(longest, length) if outputs < enough and size >= 2 * length else None


def _parts(fold: Fold) -> tuple[Expression, ...]:
    return tuple(Part(fold, n) for n in range(len(fold.elements)))


def _value_number(number: int) -> Finish:
    return lambda values, place: values[number]


def _index(axis: Axis | None) -> Expression:
    return _zero() if axis is None else index(axis)


def _optional_index(first: Axis | None, second: Axis | None) -> Expression:
    return _index(first if second is None else second)


def _zero() -> Expression:
    return constant(0, I64)
