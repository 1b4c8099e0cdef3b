"""Quantization whose scale is found from the data: dynamic_quantize_linear."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Operand, evaluate
from opendml.functions.several import several
from opendml.functions.signatures import operator_function
from opendml.operators.quantization import DynamicQuantizeLinear
from opendml.programs.device import Device

T = TypeVar("T")


@several
class DynamicQuantizeLinearOutputs(NamedTuple, Generic[T]):
    """What ``dynamic_quantize_linear`` returns; scale and zero point have one element and the rank of the output."""

    output: T
    scale: T
    zero_point: T


@operator_function
def dynamic_quantize_linear(
    input: Operand,
    *,
    output_data_type: TensorDataType | str | Any = TensorDataType.UINT8,
    device: Device | None = None,
    out: Any = None,
) -> DynamicQuantizeLinearOutputs[Any]:
    """The input quantized by a scale and zero point that its own range gives (DYNAMIC_QUANTIZE_LINEAR).

    ``input``: float32 or float16, any rank. ``output_data_type``: uint8 or int8. The range is that of the input and 0;
    the scale is a 255th of it, in float32, the zero point what 0 becomes.

    >>> quantized = dml.dynamic_quantize_linear(np.array([-1, 0, 2, 4], "float32"))
    >>> quantized.output.tolist(), quantized.scale.tolist(), quantized.zero_point.tolist()
    ([0, 51, 153, 255], [0.019607843831181526], [51])
    """
    outputs = evaluate(_dynamic_quantize_linear, (input,), (output_data_type,), device=device, out=out)
    return DynamicQuantizeLinearOutputs(*outputs)


def _dynamic_quantize_linear(input: TensorDesc, output_data_type: Any) -> Operator:
    one = [1] * input.rank
    return DynamicQuantizeLinear(
        input_tensor=input,
        output_tensor=TensorDesc(output_data_type, input.sizes),
        output_scale_tensor=TensorDesc(TensorDataType.FLOAT32, one),
        output_zero_point_tensor=TensorDesc(output_data_type, one),
    )
