"""FILL_VALUE_CONSTANT and FILL_VALUE_SEQUENCE: tensors out of nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.data_types import ALL, ALL_BUT_FLOAT64, UP_TO_32_BIT
from opendml.descriptors import Operator, at, enumeration, levels, scalar_union, tensor_output
from opendml.enums import OperatorType, TensorDataType

if TYPE_CHECKING:
    from opendml.fields import ScalarUnion
    from opendml.rules import Rules
    from opendml.tensor import TensorDesc


class FillValueConstant(Operator, type=OperatorType.FILL_VALUE_CONSTANT, since="2_1"):
    """Writes one constant value to every element of the output."""

    output_tensor: TensorDesc = tensor_output()
    value_data_type: TensorDataType = enumeration(TensorDataType)
    value: ScalarUnion = scalar_union("value_data_type")

    in_place = True
    support = levels(
        at("4_1", (1, 8), ALL),
        at("4_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 4), UP_TO_32_BIT),
    )

    def check(self, rules: Rules) -> None:
        """The value has the output's type."""
        rules.is_data_type_of("value_data_type", "output_tensor")


class FillValueSequence(Operator, type=OperatorType.FILL_VALUE_SEQUENCE, since="2_1"):
    """Writes an arithmetic sequence (start, step) to the output in element order."""

    output_tensor: TensorDesc = tensor_output()
    value_data_type: TensorDataType = enumeration(TensorDataType)
    value_start: ScalarUnion = scalar_union("value_data_type")
    value_delta: ScalarUnion = scalar_union("value_data_type")

    in_place = True
    support = levels(
        at("5_0", (1, 8), ALL_BUT_FLOAT64),
        at("4_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 4), UP_TO_32_BIT),
    )

    def check(self, rules: Rules) -> None:
        """The values have the output's type."""
        rules.is_data_type_of("value_data_type", "output_tensor")
