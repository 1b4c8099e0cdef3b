"""Pooling of quantized tensors: quantized_linear_average_pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opendml.building.operands import OperandRules, Sizes, View
from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, operand_rules
from opendml.functions.pooling import Window, pooled_sizes, window_fields, window_of
from opendml.functions.quantized_operands import counted, type_or
from opendml.functions.signatures import operator_function
from opendml.operators.pooling_quantized import QuantizedLinearAveragePooling
from opendml.programs.device import Device


@operator_function
def quantized_linear_average_pooling(
    input: Operand,
    input_scale: Operand,
    input_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = None,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    include_padding: bool = False,
    output_sizes: Sequence[int] | None = None,
    output_data_type: TensorDataType | str | Any = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The mean of every window of a quantized input, quantized (QUANTIZED_LINEAR_AVERAGE_POOLING).

    ``input``: {N, C, H, W} or {N, C, D, H, W}, int8 or uint8. Scales: float32, zero points: of the type of what they
    belong to; each a number (or a tensor of one element), or an array of one dimension, one for each channel. The
    window is that of ``average_pooling``. ``output_data_type``: by default that of the output's zero point, where there
    is none that of the input. Rounded to nearest, halves to even, clamped.

    >>> x = np.array([[[[1, 2], [3, 7]]]], "uint8")
    >>> dml.quantized_linear_average_pooling(x, 0.5, 1, 0.25, 10, window_size=[2, 2]).tolist()
    [[[[14]]]]
    """
    window = window_of(window_size, strides, start_padding, end_padding, dilations, output_sizes)
    operands = (input, input_scale, input_zero_point, output_scale, output_zero_point)
    parameters = (window, include_padding, output_data_type)
    return evaluate_single(_quantized_linear_average_pooling, operands, parameters, optional=3, device=device, out=out)


def _numbers_beside_image(shapes: Sequence[Sizes | None], _: tuple[Any, ...]) -> Sequence[View | None]:
    rank = 0 if shapes[0] is None else len(shapes[0])
    return [None, *(counted(shape, rank, 1) for shape in shapes[1:])]


@operand_rules(OperandRules("xsxsz", {"s": np.dtype(np.float32), "z": "x"}, _numbers_beside_image))
def _quantized_linear_average_pooling(
    input: TensorDesc,
    input_scale: TensorDesc,
    input_zero_point: TensorDesc | None,
    output_scale: TensorDesc,
    output_zero_point: TensorDesc | None,
    window: Window,
    include_padding: Any,
    output_data_type: Any,
) -> Operator:
    data_type = type_or(output_data_type, output_zero_point, input.data_type)
    return QuantizedLinearAveragePooling(
        input_tensor=input,
        input_scale_tensor=input_scale,
        input_zero_point_tensor=input_zero_point,
        output_scale_tensor=output_scale,
        output_zero_point_tensor=output_zero_point,
        output_tensor=TensorDesc(data_type, pooled_sizes(input, window)),
        include_padding=include_padding,
        **window_fields(input, window),
    )
