"""NONZERO_COORDINATES: where a tensor is not zero."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from opendml.description.data_types import UINT32_ONLY, UP_TO_32_BIT
from opendml.description.descriptors import Operator, at, levels, tensor_input, tensor_output
from opendml.description.enums import FeatureLevel, OperatorType
from opendml.expression.element_types import I64, U8, U32
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
from opendml.expression.positions import digits, row_major
from opendml.expression.statements import Compute, Definition, Scan, Store
from opendml.operators.definition import chosen, every_element, tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


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
        marks, places = temporary("is_nonzero", U8, [total]), temporary("places", U32, [total])
        statements = (
            _marks(source, marks),
            _compaction(marks, places, count),
            _coordinates(source, places, count, target),
        )
        return Definition((source,), (count, target), statements, (marks, places))


def _check_ranks(rules: Rules) -> None:
    """The oldest table's tensors have one rank."""
    rank = rules.rank("input_tensor")
    for place in ("output_count_tensor", "output_coordinates_tensor"):
        other = rules.rank(place)
        if rank is not None and other is not None and other != rank:
            must = f"must have the DimensionCount of InputTensor, {rank}, at feature level {rules.table_level}"
            rules.violate(place, must, f"rank {other}", allowed_at=FeatureLevel.LEVEL_4_0, breaks=False)


def _marks(source: Tensor, marks: Tensor) -> Compute:
    """1 for every element that is not zero, in element order."""
    axes = grid(source.sizes)
    element = widen(load(source, indices(axes)))
    number = row_major(indices(axes), source.sizes)
    return Compute(axes, (Store(marks, (number,), cast(element.differs(0), U8)),))


def _compaction(marks: Tensor, places: Tensor, count: Tensor) -> Scan:
    """Every element's number goes to the first free place, which only nonzero ones keep."""
    element, found = Axis("e", marks.sizes[0]), Variable("found", I64)
    following = found + cast(load(marks, (index(element),)), I64)
    kept = Store(places, (found,), cast(index(element), U32))
    counted = Store(count, (constant(0, I64),) * len(count.sizes), cast(following, U32))
    return Scan((), element, (found,), (constant(0, I64),), (following,), (kept, counted))


def _coordinates(source: Tensor, places: Tensor, count: Tensor, target: Tensor) -> Compute:
    """The last coordinates of the elements; zeros where there are no more."""
    *_, kept = target.sizes
    found = cast(load(count, [0] * len(count.sizes)), I64)

    def coordinate(o: tuple[Expression, ...]) -> Expression:
        *_, row, dimension = o
        last = digits(load(places, (row,)), source.sizes[-kept:])
        return select(row < found, chosen(last, dimension), constant(0, U32))

    return every_element(target, coordinate)
