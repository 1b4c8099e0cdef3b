"""TOP_K and TOP_K1: the largest or smallest elements along an axis, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.description.data_types import ALL_BUT_FLOAT64, FLOATS, UINT32_ONLY, UINT32_OR_64, UP_TO_32_BIT
from opendml.description.descriptors import Operator, at, enumeration, levels, tensor_input, tensor_output, uint
from opendml.description.enums import AxisDirection, OperatorType
from opendml.expression.element_types import I16, I32, I64
from opendml.expression.ir import (
    Axis,
    Bitcast,
    Expression,
    Variable,
    cast,
    constant,
    grid,
    index,
    indices,
    load,
    select,
)
from opendml.expression.statements import Definition, Order, Store
from opendml.operators.definition import tensor

if TYPE_CHECKING:
    from opendml.description.field_types import Integer, Member, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc

INFINITIES = {16: 0x7C00, 32: 0x7F800000}
"""The bits of infinity by the bits of a type."""


class Selection(Operator):
    """What the two share."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_value_tensor: Value[TensorDesc] = tensor_output()
    output_index_tensor: Value[TensorDesc] = tensor_output()
    axis: Integer = uint()
    k: Integer = uint()

    @property
    def is_decreasing(self) -> bool:
        """Whether the largest elements are wanted, the largest first."""
        return True

    def check(self, rules: Rules) -> None:
        """As many outputs along the axis as are wanted, which are no more than there are."""
        rules.same_data_type("input_tensor", "output_value_tensor")
        rules.same_rank("input_tensor", "output_value_tensor", "output_index_tensor")
        rules.axis_in_range("axis", "input_tensor")
        rules.at_least("k", 1)
        axis, k = rules.integer("axis"), rules.integer("k")
        size = None if axis is None else rules.size("input_tensor", axis)
        if size is not None and k is not None:
            must = f"must be at most InputTensor.Sizes[{axis}] = {size}, as the dimension is Axis"
            rules.require(k <= size, "k", must, k, breaks=False)
        for name in ("output_value_tensor", "output_index_tensor"):
            rules.same_sizes_but_for_axis(name, "input_tensor")
            if axis is not None:
                rules.size_is(name, axis, k, "K", "as the dimension is Axis")

    def define(self) -> Definition:
        """An order by integer keys."""
        source = tensor("InputTensor", self.input_tensor, "input")
        values = tensor("OutputValueTensor", self.output_value_tensor, "output")
        positions = tensor("OutputIndexTensor", self.output_index_tensor, "output")
        axes = grid(source.sizes)
        along, rank = axes[self.axis], Axis("r", self.k)
        others = tuple(axis for axis in axes if axis is not along)
        key = order_key(load(source, indices(axes)), self.is_decreasing)
        chosen = Variable("chosen", I64)
        place = tuple(index(rank) if axis is along else index(axis) for axis in axes)
        there = tuple(chosen if axis is along else index(axis) for axis in axes)
        stores = (Store(values, place, load(source, there)), Store(positions, place, cast(chosen, positions.type)))
        return Definition((source,), (values, positions), (Order(others, along, key, rank, chosen, stores),))


def order_key(value: Expression, is_decreasing: bool) -> Expression:
    """An integer of the order of a value: that of numbers, -0 and +0 being equal, and NaN above all of them."""
    type = value.type
    if type.is_float:
        bits = Bitcast(value, I16 if type.bits == 16 else I32)
        magnitude = bits & ((1 << (type.bits - 1)) - 1)
        number = select(bits < 0, constant(0, bits.type) - magnitude, magnitude)
        value = select(magnitude > INFINITIES[type.bits], (1 << (type.bits - 1)) - 1, number)
    return value ^ -1 if is_decreasing else value


class TopK(Selection, type=OperatorType.TOP_K, since="1_0"):
    """The K largest elements along an axis, the largest first, and their positions.

    Equal elements come in the order of their positions; NaN is larger than every number.
    """

    # The page has 2_0 for the oldest table; the header, and the history of feature levels, have the operator from 1_0.
    support = levels(
        at("5_0", (1, 8), ALL_BUT_FLOAT64, output_index_tensor=UINT32_OR_64),
        at("3_1", (1, 8), UP_TO_32_BIT, output_index_tensor=UINT32_ONLY),
        at("2_1", (4, 4), UP_TO_32_BIT, output_index_tensor=UINT32_ONLY),
        at("1_0", (4, 4), FLOATS, output_index_tensor=UINT32_ONLY),
    )


class TopK1(Selection, type=OperatorType.TOP_K1, since="2_1"):
    """The K largest or smallest elements along an axis, in order, and their positions.

    DECREASING gives the largest elements, the largest first, INCREASING the smallest ones, the smallest first. Equal
    elements come in the order of their positions; NaN is larger than every number.
    """

    axis_direction: Member[AxisDirection] = enumeration(AxisDirection)

    support = levels(
        at("5_0", (1, 8), ALL_BUT_FLOAT64, output_index_tensor=UINT32_OR_64),
        at("3_1", (1, 8), UP_TO_32_BIT, output_index_tensor=UINT32_ONLY),
        at("2_1", (4, 4), UP_TO_32_BIT, output_index_tensor=UINT32_ONLY),
    )

    @property
    def is_decreasing(self) -> bool:
        """Whether the largest elements are wanted, the largest first."""
        return self.axis_direction is AxisDirection.DECREASING
