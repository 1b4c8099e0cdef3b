"""CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT: running totals along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.data_types import FLOATS_AND_32_BIT, FLOATS_AND_32_TO_64_BIT
from opendml.descriptors import Operator, at, boolean, enumeration, levels, tensor_input, tensor_output, uint
from opendml.enums import AxisDirection, OperatorType

if TYPE_CHECKING:
    from opendml.rules import Rules
    from opendml.tensor import TensorDesc


class Cumulative(Operator):
    """What the two share. Exclusive totals leave the current element out."""

    input_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()
    axis: int = uint()
    axis_direction: AxisDirection = enumeration(AxisDirection)

    in_place = True

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


class CumulativeSummation(Cumulative, type=OperatorType.CUMULATIVE_SUMMATION, since="2_1"):
    """Running sum along one axis, inclusive or exclusive, in either direction."""

    has_exclusive_sum: bool = boolean()

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

    has_exclusive_product: bool = boolean()

    support = levels(
        at("5_0", (1, 8), FLOATS_AND_32_TO_64_BIT),
        at("4_0", (1, 8), FLOATS_AND_32_BIT),
        at("3_1", (4, 4), FLOATS_AND_32_BIT),
    )

    @property
    def is_exclusive(self) -> bool:
        """Whether the current element is left out."""
        return self.has_exclusive_product
