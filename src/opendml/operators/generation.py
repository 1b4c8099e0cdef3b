"""FILL_VALUE_CONSTANT and FILL_VALUE_SEQUENCE: tensors out of nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.description.data_types import ALL, ALL_BUT_FLOAT64, UP_TO_32_BIT
from opendml.description.descriptors import Operator, at, enumeration, levels, scalar_union, tensor_output
from opendml.description.enums import OperatorType, TensorDataType
from opendml.expression.element_types import I32, I64
from opendml.expression.ir import Expression, cast, constant, packed_strides
from opendml.expression.statements import Definition
from opendml.operators.definition import every_element, scalar, tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import Member, Scalar, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class FillValueConstant(Operator, type=OperatorType.FILL_VALUE_CONSTANT, since="2_1"):
    """Writes one constant value to every element of the output."""

    output_tensor: Value[TensorDesc] = tensor_output()
    value_data_type: Member[TensorDataType] = enumeration(TensorDataType)
    value: Scalar = scalar_union("value_data_type")

    in_place = True
    support = levels(
        at("4_1", (1, 8), ALL),
        at("4_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 4), UP_TO_32_BIT),
    )

    def check(self, rules: Rules) -> None:
        """The value has the output's type."""
        rules.is_data_type_of("value_data_type", "output_tensor")

    def define(self) -> Definition:
        """The bits of Value in every element."""
        target = tensor("OutputTensor", self.output_tensor, "output")
        value = scalar(self.value, target.type)
        return Definition((), (target,), (every_element(target, lambda _: value),))


class FillValueSequence(Operator, type=OperatorType.FILL_VALUE_SEQUENCE, since="2_1"):
    """Writes an arithmetic sequence (start, step) to the output in element order."""

    output_tensor: Value[TensorDesc] = tensor_output()
    value_data_type: Member[TensorDataType] = enumeration(TensorDataType)
    value_start: Scalar = scalar_union("value_data_type")
    value_delta: Scalar = scalar_union("value_data_type")

    in_place = True
    support = levels(
        at("5_0", (1, 8), ALL_BUT_FLOAT64),
        at("4_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 4), UP_TO_32_BIT),
    )

    def check(self, rules: Rules) -> None:
        """The values have the output's type."""
        rules.is_data_type_of("value_data_type", "output_tensor")

    def define(self) -> Definition:
        """``i * ValueDelta + ValueStart`` for element number i in logical order, in the computation type."""
        target = tensor("OutputTensor", self.output_tensor, "output")
        start, delta = widen(scalar(self.value_start, target.type)), widen(scalar(self.value_delta, target.type))

        def value(o: tuple[Expression, ...]) -> Expression:
            number: Expression = constant(0, I64)
            for i, stride in zip(o, packed_strides(target.sizes), strict=True):
                number = number + i * stride
            # 32-bit integers become floats faster than 64-bit ones, and as exactly.
            if start.type.is_float and self.output_tensor.element_count <= 1 << 31:
                number = cast(number, I32)
            return cast(cast(number, start.type) * delta + start, target.type)

        return Definition((), (target,), (every_element(target, value),))
