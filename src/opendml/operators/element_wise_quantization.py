"""Element-wise quantization to and from integers with a scale and a zero point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opendml.description.data_types import BYTES, FLOAT32_ONLY, FLOATS, INTEGERS_UP_TO_32_BIT, UINT8_ONLY, data_types
from opendml.description.descriptors import at, levels, tensor_input, tensor_output
from opendml.description.enums import FeatureLevel, OperatorType, TensorDataType
from opendml.expression.element_types import F32, F64, ElementType
from opendml.expression.ir import Expression, cast, unary
from opendml.expression.statements import Definition
from opendml.operators.definition import widen
from opendml.operators.element_types import ELEMENT_TYPE_OF
from opendml.operators.element_wise import ElementWise, each_element

if TYPE_CHECKING:
    from opendml.description.field_types import Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc

FLOAT32_AND_INT32: Final = data_types("FLOAT32 INT32")
FLOATS_AND_INT32: Final = data_types("FLOAT32 FLOAT16 INT32")


class LinearQuantization(ElementWise):
    """What QUANTIZE_LINEAR and DEQUANTIZE_LINEAR share: the tensors, and since when the zero point may be absent."""

    input_tensor: Value[TensorDesc] = tensor_input()
    scale_tensor: Value[TensorDesc] = tensor_input()
    zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_tensor: Value[TensorDesc] = tensor_output()

    in_place = False

    def check(self, rules: Rules) -> None:
        """Below 6_2 there is no default for the zero point."""
        super().check(rules)
        if self.zero_point_tensor is None and rules.table_level < FeatureLevel.LEVEL_6_2:
            must = f"must be given at feature level {rules.table_level}"
            rules.violate("zero_point_tensor", must, allowed_at=FeatureLevel.LEVEL_6_2)


class ElementWiseQuantizeLinear(LinearQuantization, type=OperatorType.ELEMENT_WISE_QUANTIZE_LINEAR, since="1_0"):
    """Quantizes to INT8 or UINT8: x / scale, rounded, plus the zero point, clamped to the range of the output."""

    alike = (("output_tensor", "zero_point_tensor"),)
    support = levels(
        at("6_2", (1, 8), BYTES, input_tensor=FLOATS_AND_INT32, scale_tensor=FLOATS),
        at("6_0", (1, 8), BYTES, input_tensor=FLOATS_AND_INT32, scale_tensor=FLOATS),
        at("3_0", (1, 8), BYTES, input_tensor=FLOAT32_AND_INT32, scale_tensor=FLOAT32_ONLY),
        at("2_1", (4, 4), BYTES, input_tensor=FLOAT32_AND_INT32, scale_tensor=FLOAT32_ONLY),
        at("1_0", (4, 4), UINT8_ONLY, input_tensor=FLOAT32_ONLY, scale_tensor=FLOAT32_ONLY),
    )

    def check(self, rules: Rules) -> None:
        """The scale has the type of the input, FLOAT32 for INT32."""
        super().check(rules)
        input_type, scale_type = rules.data_type("input_tensor"), rules.data_type("scale_tensor")
        if input_type is not None and scale_type is not None:
            expected = TensorDataType.FLOAT32 if input_type is TensorDataType.INT32 else input_type
            must = f"must have the DataType {expected.name}, as InputTensor is {input_type.name}"
            rules.require(scale_type is expected, "scale_tensor", must, scale_type, breaks=False)

    def define(self) -> Definition:
        """``quantized`` in float32."""
        type = ELEMENT_TYPE_OF[self.output_tensor.data_type]

        def element(x: Expression, scale: Expression, zero_point: Expression | None) -> Expression:
            return quantized(cast(x, F32) / widen(scale), zero_point, type)

        return each_element(self, element)


class ElementWiseDequantizeLinear(LinearQuantization, type=OperatorType.ELEMENT_WISE_DEQUANTIZE_LINEAR, since="1_0"):
    """Dequantizes integers: (x - zero point) * scale."""

    alike = (("input_tensor", "zero_point_tensor"), ("output_tensor", "scale_tensor"))
    support = levels(
        at("6_2", (1, 8), INTEGERS_UP_TO_32_BIT, scale_tensor=FLOATS, output_tensor=FLOATS),
        at("6_0", (1, 8), INTEGERS_UP_TO_32_BIT, scale_tensor=FLOATS, output_tensor=FLOATS),
        at("3_0", (1, 8), INTEGERS_UP_TO_32_BIT, scale_tensor=FLOAT32_ONLY, output_tensor=FLOAT32_ONLY),
        at("2_1", (4, 4), INTEGERS_UP_TO_32_BIT, scale_tensor=FLOAT32_ONLY, output_tensor=FLOAT32_ONLY),
        at("1_0", (4, 4), UINT8_ONLY, scale_tensor=FLOAT32_ONLY, output_tensor=FLOAT32_ONLY),
    )

    def define(self) -> Definition:
        """``dequantized`` in float32."""
        return each_element(self, lambda x, scale, zero_point: dequantized(x, widen(scale), zero_point))


class ElementWiseQuantizedLinearAdd(ElementWise, type=OperatorType.ELEMENT_WISE_QUANTIZED_LINEAR_ADD, since="4_0"):
    """Adds two quantized tensors: dequantizes both, adds, quantizes. Scales and zero points have one element."""

    a_tensor: Value[TensorDesc] = tensor_input()
    a_scale_tensor: Value[TensorDesc] = tensor_input()
    a_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    b_tensor: Value[TensorDesc] = tensor_input()
    b_scale_tensor: Value[TensorDesc] = tensor_input()
    b_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_scale_tensor: Value[TensorDesc] = tensor_input()
    output_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_tensor: Value[TensorDesc] = tensor_output()

    in_place = False
    alike = (
        ("a_tensor", "a_zero_point_tensor"),
        ("b_tensor", "b_zero_point_tensor"),
        ("output_tensor", "output_zero_point_tensor"),
    )
    support = levels(
        at(
            "4_0",
            (1, 8),
            BYTES,
            a_scale_tensor=FLOAT32_ONLY,
            b_scale_tensor=FLOAT32_ONLY,
            output_scale_tensor=FLOAT32_ONLY,
        )
    )

    def check(self, rules: Rules) -> None:
        """Three quantized tensors of the same sizes, each with the type of its own zero point."""
        whole = ("a_tensor", "b_tensor", "output_tensor")
        single = [name for name in self.fields if "scale" in name or "zero_point" in name]
        for group in self.alike:
            rules.same_data_type(*group)
        rules.same_rank(*whole, *single)
        rules.same_sizes(*whole)
        for place, _ in rules.tensors(*single):
            rules.sizes_are(place, [1] * (rules.rank(place) or 0), why="as it holds one value")

    def define(self) -> Definition:
        """Every operation rounded to float32."""
        type = ELEMENT_TYPE_OF[self.output_tensor.data_type]

        def element(
            a: Expression,
            a_scale: Expression,
            a_zero_point: Expression | None,
            b: Expression,
            b_scale: Expression,
            b_zero_point: Expression | None,
            scale: Expression,
            zero_point: Expression | None,
        ) -> Expression:
            total = dequantized(a, a_scale, a_zero_point) + dequantized(b, b_scale, b_zero_point)
            return quantized(total / scale, zero_point, type)

        return each_element(self, element)


def quantized(x: Expression, zero_point: Expression | None, type: ElementType) -> Expression:
    """The float32 ``x`` rounded to an integer (halves to even), plus the zero point, clamped; 0 for NaN.

    Where the sum is not exact, it is beyond the 8 bits of any ``type``.
    """
    rounded = unary("round_even", x)
    return cast(rounded if zero_point is None else rounded + cast(zero_point, F32), type)


def dequantized(x: Expression, scale: Expression, zero_point: Expression | None) -> Expression:
    """The exact difference of integers of up to 32 bits, rounded to float32, times the float32 ``scale``."""
    if zero_point is None:
        return cast(x, F32) * scale
    exact = F32 if x.type.bits <= 16 else F64
    return cast(cast(x, exact) - cast(zero_point, exact), F32) * scale
