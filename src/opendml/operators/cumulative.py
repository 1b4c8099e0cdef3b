"""CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT: running totals along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from opendml.description.data_types import FLOATS_AND_32_BIT, FLOATS_AND_32_TO_64_BIT
from opendml.description.descriptors import (
    Operator,
    at,
    boolean,
    enumeration,
    levels,
    tensor_input,
    tensor_output,
    uint,
)
from opendml.description.enums import AxisDirection, OperatorType
from opendml.expression.ir import Variable, binary, cast, constant, grid, index, load
from opendml.expression.statements import Definition, Scan, Store
from opendml.operators.definition import tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import Integer, Member, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class Cumulative(Operator):
    """What the two share. Exclusive totals leave the current element out."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    axis: Integer = uint()
    axis_direction: Member[AxisDirection] = enumeration(AxisDirection)

    in_place = True
    operation: ClassVar[str]
    initial: ClassVar[int]

    @property
    def is_exclusive(self) -> bool:
        """Whether the current element is left out."""
        raise AttributeError(f"{type(self).__name__} has no is_exclusive")

    def check(self, rules: Rules) -> None:
        """Two tensors alike, and one of their axes."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "output_tensor")
        rules.same_sizes("input_tensor", "output_tensor")
        rules.axis_in_range("axis", "input_tensor")

    def define(self) -> Definition:
        """A scan along the axis; the tally of float16 values is kept in float32."""
        source = tensor("InputTensor", self.input_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        axes = grid(target.sizes)
        along = axes[self.axis]
        others = tuple(axis for axis in axes if axis is not along)
        is_increasing = self.axis_direction is AxisDirection.INCREASING
        position = index(along) if is_increasing else along.size - 1 - index(along)
        place = tuple(position if axis is along else index(axis) for axis in axes)
        element = widen(load(source, place))
        tally = Variable("tally", element.type)
        following = binary(self.operation, tally, element)
        written = Store(target, place, cast(tally if self.is_exclusive else following, target.type))
        initial = constant(self.initial, tally.type)
        return Definition((source,), (target,), (Scan(others, along, (tally,), (initial,), (following,), (written,)),))


class CumulativeSummation(Cumulative, type=OperatorType.CUMULATIVE_SUMMATION, since="2_1"):
    """Running sum along one axis, inclusive or exclusive, in either direction."""

    has_exclusive_sum: Value[bool] = boolean()

    operation = "add"
    initial = 0

    support = levels(
        at("5_0", (1, 8), FLOATS_AND_32_TO_64_BIT),
        at("4_0", (1, 8), FLOATS_AND_32_BIT),
        at("2_1", (4, 4), FLOATS_AND_32_BIT),
    )

    @property
    def is_exclusive(self) -> bool:
        """Whether the current element is left out."""
        return self.has_exclusive_sum


class CumulativeProduct(Cumulative, type=OperatorType.CUMULATIVE_PRODUCT, since="3_1"):
    """Running product along one axis, inclusive or exclusive, in either direction."""

    has_exclusive_product: Value[bool] = boolean()

    operation = "mul"
    initial = 1

    support = levels(
        at("5_0", (1, 8), FLOATS_AND_32_TO_64_BIT),
        at("4_0", (1, 8), FLOATS_AND_32_BIT),
        at("3_1", (4, 4), FLOATS_AND_32_BIT),
    )

    @property
    def is_exclusive(self) -> bool:
        """Whether the current element is left out."""
        return self.has_exclusive_product
