"""NONZERO_COORDINATES: where a tensor is not zero.

The elements are looked at in pieces, which threads share: the numbers of nonzero elements before each piece tell where
its coordinates belong.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Final

from opendml.description.data_types import UINT32_ONLY, UP_TO_32_BIT
from opendml.description.descriptors import Operator, at, levels, tensor_input, tensor_output
from opendml.description.enums import FeatureLevel, OperatorType
from opendml.expression.element_types import I64, U8, U16, U32
from opendml.expression.folds import fold, partials_for
from opendml.expression.ir import (
    Axis,
    Expression,
    Tensor,
    Variable,
    cast,
    constant,
    grid,
    index,
    indices,
    load,
    select,
    temporary,
)
from opendml.expression.statements import Compute, Definition, Scan, Scatter, Statement, Store
from opendml.operators.definition import chosen, digits, every_element, row_major_number, tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc

PIECE: Final = 1024
"""Elements of a piece: their numbers fit into 16 bits, and a piece of a large tensor is little work for a thread."""


class NonzeroCoordinates(Operator, type=OperatorType.NONZERO_COORDINATES, since="3_0"):
    """The coordinates of all elements that are not zero, in element order, and how many they are.

    Every row of the coordinates is an element's last ``OutputCoordinatesTensor.Sizes[-1]`` coordinates. Rows behind the
    count are zeros.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    output_count_tensor: Value[TensorDesc] = tensor_output()
    output_coordinates_tensor: Value[TensorDesc] = tensor_output()

    support = levels(
        at(
            *("4_0", (1, 8), UP_TO_32_BIT, {"output_coordinates_tensor": (2, 8)}),
            output_count_tensor=UINT32_ONLY,
            output_coordinates_tensor=UINT32_ONLY,
        ),
        at(
            *("3_0", (4, 5), UP_TO_32_BIT),
            output_count_tensor=UINT32_ONLY,
            output_coordinates_tensor=UINT32_ONLY,
        ),
    )

    def check(self, rules: Rules) -> None:
        """One count; as many rows as elements, and coordinates for all dimensions but leading ones of size 1."""
        if rules.table_level < FeatureLevel.LEVEL_4_0:
            _check_ranks(rules)
        for place, number in rules.tensors("output_count_tensor"):
            rules.sizes_are(place, [1] * number.rank, why="as it is one number")
        rank = rules.rank("output_coordinates_tensor")
        if rank is None or rank < 2:
            return
        sizes = rules.sizes("input_tensor")
        count = None if sizes is None or None in sizes else math.prod(size for size in sizes if size is not None)
        rules.sizes_are("output_coordinates_tensor", [1] * (rank - 2) + [None, None], why="as all but the last two")
        rules.size_is("output_coordinates_tensor", rank - 2, count, why="the number of elements of InputTensor")
        if sizes is not None:
            self._check_dimensions(rules, rank, [i for i, size in enumerate(sizes) if size != 1], len(sizes))

    def _check_dimensions(self, rules: Rules, rank: int, large: list[int], most: int) -> None:
        size = rules.size("output_coordinates_tensor", rank - 1)
        sizes = rules.sizes("input_tensor") or ()
        least = most - large[0] if large and None not in sizes[: large[0] + 1] else 1
        if size is not None and not least <= size <= most:
            must = f"must be from {least}, the effective rank of InputTensor, to {most}, its DimensionCount"
            rules.violate(f"output_coordinates_tensor.sizes[{rank - 1}]", must, size, breaks=False)

    def define(self) -> Definition:
        """Numbers of elements that are not zero, next to each other; then their digits."""
        source = tensor("InputTensor", self.input_tensor, "input")
        count = tensor("OutputCountTensor", self.output_count_tensor, "output")
        target = tensor("OutputCoordinatesTensor", self.output_coordinates_tensor, "output")
        total = self.input_tensor.element_count
        pieces, size = -(-total // PIECE), min(PIECE, total)
        marks = temporary("is_nonzero", U8, [pieces * size])
        places = temporary("places", U32, [total])
        statements: list[Statement] = list(_marks(source, marks))
        temporaries = [marks, places]
        if pieces == 1:
            statements.append(_compaction(marks, places, count))
        else:
            found, temporaries_of_pieces = _piece_by_piece(marks, places, count, pieces)
            statements += found
            temporaries += temporaries_of_pieces
        statements.append(_coordinates(source, places, count, target))
        return Definition((source,), (count, target), tuple(statements), tuple(temporaries))


def _check_ranks(rules: Rules) -> None:
    """The oldest table's tensors have one rank."""
    rank = rules.rank("input_tensor")
    for place in ("output_count_tensor", "output_coordinates_tensor"):
        other = rules.rank(place)
        if rank is not None and other is not None and other != rank:
            must = f"must have the DimensionCount of InputTensor, {rank}, at feature level {rules.table_level}"
            rules.violate(place, must, f"rank {other}", allowed_at=FeatureLevel.LEVEL_4_0, breaks=False)


def _marks(source: Tensor, marks: Tensor) -> list[Compute]:
    """1 for every element that is not zero, in element order, and zeros behind them."""
    axes = grid(source.sizes)
    element = widen(load(source, indices(axes)))
    number = row_major_number(indices(axes), source.sizes)
    statements = [Compute(axes, (Store(marks, (number,), cast(element.differs(0), U8)),))]
    total, (room,) = math.prod(source.sizes), marks.sizes
    if room > total:
        rest = Axis("i", room - total)
        statements.append(Compute((rest,), (Store(marks, (index(rest) + total,), constant(0, U8)),)))
    return statements


def _compaction(marks: Tensor, places: Tensor, count: Tensor) -> Scan:
    """Every element's number goes to the first free place, which only nonzero ones keep."""
    element, found = Axis("e", marks.sizes[0]), Variable("found", I64)
    following = found + cast(load(marks, (index(element),)), I64)
    kept = Store(places, (found,), cast(index(element), U32))
    counted = Store(count, (constant(0, I64),) * len(count.sizes), cast(following, U32))
    return Scan((), element, (found,), (constant(0, I64),), (following,), (kept, counted))


def _piece_by_piece(
    marks: Tensor, places: Tensor, count: Tensor, pieces: int
) -> tuple[list[Statement], tuple[Tensor, ...]]:
    """As ``_compaction``: each piece by itself, then all next to each other."""
    piece, number, found, before = Axis("p", pieces), Axis("i", PIECE), Variable("found", I64), Variable("before", U32)
    counts, firsts = temporary("counts", U32, [pieces]), temporary("firsts", U32, [pieces])
    lists = temporary("lists", U16, [pieces, PIECE])
    p, i = index(piece), index(number)
    mark = load(marks, (p * PIECE + i,))
    total = fold(operator.add, (number,), constant(0, U32), cast(mark, U32), partials=partials_for(number))
    through = before + load(counts, (p,))
    counted = Store(count, (constant(0, I64),) * len(count.sizes), through)
    statements: list[Statement] = [
        Compute((piece,), (Store(counts, (p,), total),)),
        Scan((), piece, (before,), (constant(0, U32),), (through,), (Store(firsts, (p,), before), counted)),
        Scan(
            (piece,),
            number,
            (found,),
            (constant(0, I64),),
            (found + cast(mark, I64),),
            (Store(lists, (p, found), cast(i, U16)),),
        ),
        Scatter(
            (piece, number),
            i < cast(load(counts, (p,)), I64),
            Store(places, (cast(load(firsts, (p,)), I64) + i,), cast(p * PIECE, U32) + cast(load(lists, (p, i)), U32)),
            apart=(piece,),
        ),
    ]
    return statements, (counts, firsts, lists)


def _coordinates(source: Tensor, places: Tensor, count: Tensor, target: Tensor) -> Compute:
    """The last coordinates of the elements; zeros where there are no more."""
    *_, kept = target.sizes
    found = cast(load(count, [0] * len(count.sizes)), I64)

    def coordinate(o: tuple[Expression, ...]) -> Expression:
        *_, row, dimension = o
        last = digits(load(places, (row,)), source.sizes[-kept:])
        return select(row < found, chosen(last, dimension), constant(0, U32))

    return every_element(target, coordinate)
