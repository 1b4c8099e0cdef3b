"""Quantization whose scale is found from the data: DYNAMIC_QUANTIZE_LINEAR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opendml.description.data_types import FLOATS, data_types
from opendml.description.descriptors import Operator, at, levels, tensor_input, tensor_output
from opendml.description.enums import OperatorType
from opendml.expression.folds import maximum, minimum
from opendml.expression.ir import F32, Definition, ElementType, Expression, cast, constant, load, select
from opendml.expression.reductions import one_value, reduction
from opendml.operators.definition import every_element, tensor, widen
from opendml.operators.element_wise_quantization import quantized
from opendml.operators.quantization_parameters import check_single

if TYPE_CHECKING:
    from opendml.description.field_types import Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc

BYTES: Final = data_types("INT8 UINT8")
FLOAT32_ONLY: Final = data_types("FLOAT32")


class DynamicQuantizeLinear(Operator, type=OperatorType.DYNAMIC_QUANTIZE_LINEAR, since="4_0"):
    """Quantizes to 8 bits by a scale and zero point that are computed from the range of the input, 0 included.

    Scale and zero point, of one element each, are outputs too.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    output_scale_tensor: Value[TensorDesc] = tensor_output()
    output_zero_point_tensor: Value[TensorDesc] = tensor_output()

    support = levels(at("4_0", (1, 8), BYTES, input_tensor=FLOATS, output_scale_tensor=FLOAT32_ONLY))

    def check(self, rules: Rules) -> None:
        """The output has the input's sizes, and its type is that of its zero point."""
        rules.same_data_type("output_tensor", "output_zero_point_tensor")
        rules.same_rank("input_tensor", "output_tensor", "output_scale_tensor", "output_zero_point_tensor")
        rules.same_sizes("input_tensor", "output_tensor")
        check_single(rules, "output_scale_tensor", "output_zero_point_tensor")

    def define(self) -> Definition:
        """All in float32: extremes, then scale and zero point, then every element as QUANTIZE_LINEAR has it."""
        output = tensor("OutputTensor", self.output_tensor, "output")
        scale_output = tensor("OutputScaleTensor", self.output_scale_tensor, "output")
        zero_point_output = tensor("OutputZeroPointTensor", self.output_zero_point_tensor, "output")
        work = reduction(tensor("InputTensor", self.input_tensor, "input"), range(self.input_tensor.rank))
        largest, smallest, scale, zero_point = (
            work.intermediate(name, type)
            for name, type in (("largest", F32), ("smallest", F32), ("scale", F32), ("zero_point", output.type))
        )
        for extreme, operation in ((largest, maximum), (smallest, minimum)):
            work.reduce(one_value(operation, constant(0, F32), lambda value, _: widen(value)), extreme)
        one = [0] * len(scale.sizes)
        high, low = load(largest, one), load(smallest, one)
        lowest, steps = constant(_lowest(output.type), F32), constant(255, F32)
        work.statements += [
            every_element(scale, lambda _: select(high.equals(low), constant(1, F32), high - low) / steps),
            every_element(zero_point, lambda _: quantized(lowest - low / load(scale, one), None, output.type)),
            every_element(scale_output, lambda _: load(scale, one)),
            every_element(zero_point_output, lambda _: load(zero_point, one)),
        ]

        def element(place: tuple[Expression, ...]) -> Expression:
            x = widen(load(work.source, work.place(place)))
            return quantized(x / load(scale, one), load(zero_point, one), output.type)

        work.statements.append(every_element(output, lambda place: cast(element(place), output.type)))
        outputs = (output, scale_output, zero_point_output)
        return Definition((work.input,), outputs, tuple(work.statements), tuple(work.temporaries))


def _lowest(type: ElementType) -> int:
    """The least value of an 8-bit type."""
    return -128 if type.kind == "int" else 0
