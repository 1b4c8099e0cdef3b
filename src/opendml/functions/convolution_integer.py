"""Convolutions of quantized tensors: convolution_integer, quantized_linear_convolution.

Input {N, IC, spatial...}, filter {OC, IC / groups, spatial...}, with one or two spatial dimensions; window arrays have
one element each, strides and dilations are 1 and paddings 0 by default. Scales and zero points are numbers (or tensors
of one element); of the filter also arrays of one dimension, one for each output channel. A zero point of None is 0. The
output has spatial sizes of ``(size + start_padding + end_padding - dilated filter size) // strides + 1``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opendml.building.operands import OperandRules, Sizes, View
from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, integers, operand_rules, or_default, sizes_by
from opendml.functions.quantized_operands import counted, type_or
from opendml.functions.signatures import operator_function
from opendml.operators.convolution_integer import ConvolutionInteger, QuantizedLinearConvolution
from opendml.programs.device import Device


@operator_function
def convolution_integer(
    input: Operand,
    input_zero_point: Operand | None,
    filter: Operand,
    filter_zero_point: Operand | None = None,
    *,
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    group_count: int = 1,
    output_sizes: Sequence[int] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The convolution of ``input - input_zero_point`` with ``filter - filter_zero_point`` in int32
    (CONVOLUTION_INTEGER).

    ``input``, ``filter``: each int8 or uint8; zero points are of their types. Padding is 0 after the zero point is
    subtracted. Returns {N, OC, spatial...}; ``output_sizes``: all dimensions, instead of those computed.

    >>> x, window = np.array([[[5, 3, 4]]], "uint8"), np.array([[[1, -2]]], "int8")
    >>> dml.convolution_integer(x, 3, window).tolist()
    [[[2, -2]]]
    """
    window = _window(strides, start_padding, end_padding, dilations, group_count, output_sizes)
    operands = (input, input_zero_point, filter, filter_zero_point)
    return evaluate_single(_convolution_integer, operands, window, optional=3, device=device, out=out)


def _with_zero_points(shapes: Sequence[Sizes | None], _: tuple[Any, ...]) -> Sequence[View | None]:
    return _views(shapes, wholes=(0, 2))


@operand_rules(OperandRules("xxww", views=_with_zero_points))
def _convolution_integer(
    input: TensorDesc,
    input_zero_point: TensorDesc | None,
    filter: TensorDesc,
    filter_zero_point: TensorDesc | None,
    *window: Any,
) -> Operator:
    fields, sizes = _window_fields(input, filter, *window)
    return ConvolutionInteger(
        input_tensor=input,
        input_zero_point_tensor=input_zero_point,
        filter_tensor=filter,
        filter_zero_point_tensor=filter_zero_point,
        output_tensor=TensorDesc(TensorDataType.INT32, sizes),
        **fields,
    )


@operator_function
def quantized_linear_convolution(
    input: Operand,
    input_scale: Operand,
    input_zero_point: Operand | None,
    filter: Operand,
    filter_scale: Operand,
    filter_zero_point: Operand | None,
    bias: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = None,
    *,
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    group_count: int = 1,
    output_sizes: Sequence[int] | None = None,
    output_data_type: TensorDataType | str | Any = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The convolution of a quantized input with a quantized filter, quantized (QUANTIZED_LINEAR_CONVOLUTION).

    ``input``, ``filter``: each int8 or uint8. Scales: float32, zero points: of the type of what they belong to.
    ``bias``: int32, {1, OC, 1...} or one dimension, in units of the input's scale times the filter's.
    ``output_data_type``: by default that of the output's zero point, where there is none that of the input. Returns
    {N, OC, spatial...}: ``round((sum + bias) * (input_scale * filter_scale / output_scale)) + output_zero_point``,
    halves to even, clamped.

    >>> x, window = np.array([[[5, 3, 4]]], "uint8"), np.array([[[1, -2]]], "int8")
    >>> dml.quantized_linear_convolution(x, 0.5, 3, window, 1, None, None, 0.25, np.uint8(100)).tolist()
    [[[104, 96]]]
    """
    window = _window(strides, start_padding, end_padding, dilations, group_count, output_sizes)
    operands = (
        input,
        input_scale,
        input_zero_point,
        filter,
        filter_scale,
        filter_zero_point,
        bias,
        output_scale,
        output_zero_point,
    )
    return evaluate_single(
        _quantized_linear_convolution, operands, (output_data_type, *window), optional=7, device=device, out=out
    )


def _filter_beside_scales(shapes: Sequence[Sizes | None], _: tuple[Any, ...]) -> Sequence[View | None]:
    return _views(shapes, wholes=(0, 3))


def _views(shapes: Sequence[Sizes | None], wholes: tuple[int, int]) -> Sequence[View | None]:
    """Input and filter are as they are, all others have one value, or one for each channel."""
    rank = 0 if shapes[0] is None else len(shapes[0])
    return [None if i in wholes else counted(shape, rank, 1) for i, shape in enumerate(shapes)]


@operand_rules(
    OperandRules("xsxwswbsz", {"s": np.dtype(np.float32), "b": np.dtype(np.int32), "z": "x"}, _filter_beside_scales)
)
def _quantized_linear_convolution(
    input: TensorDesc,
    input_scale: TensorDesc,
    input_zero_point: TensorDesc | None,
    filter: TensorDesc,
    filter_scale: TensorDesc,
    filter_zero_point: TensorDesc | None,
    bias: TensorDesc | None,
    output_scale: TensorDesc,
    output_zero_point: TensorDesc | None,
    output_data_type: Any,
    *window: Any,
) -> Operator:
    fields, sizes = _window_fields(input, filter, *window)
    return QuantizedLinearConvolution(
        input_tensor=input,
        input_scale_tensor=input_scale,
        input_zero_point_tensor=input_zero_point,
        filter_tensor=filter,
        filter_scale_tensor=filter_scale,
        filter_zero_point_tensor=filter_zero_point,
        bias_tensor=bias,
        output_scale_tensor=output_scale,
        output_zero_point_tensor=output_zero_point,
        output_tensor=TensorDesc(type_or(output_data_type, output_zero_point, input.data_type), sizes),
        **fields,
    )


def _window(
    strides: Any, start_padding: Any, end_padding: Any, dilations: Any, group_count: Any, output_sizes: Any
) -> tuple[Any, ...]:
    arrays = (strides, dilations, start_padding, end_padding)
    return (*map(integers, arrays), group_count, integers(output_sizes))


def _window_fields(
    input: TensorDesc,
    filter: TensorDesc,
    strides: Any,
    dilations: Any,
    start_padding: Any,
    end_padding: Any,
    group_count: Any,
    output_sizes: Any,
) -> tuple[dict[str, Any], Any]:
    """The fields of the window with their defaults, and the sizes of the output."""
    count = max(input.rank - 2, 0)
    window = {
        "strides": or_default(strides, 1, count),
        "dilations": or_default(dilations, 1, count),
        "start_padding": or_default(start_padding, 0, count),
        "end_padding": or_default(end_padding, 0, count),
    }
    if output_sizes is None:
        spatial = sizes_by(_output_size, input.sizes[2:], filter.sizes[2:], *window.values())
        output_sizes = (*input.sizes[:1], *filter.sizes[:1], *spatial)
    return window | {"group_count": group_count}, output_sizes


def _output_size(size: int, filter: int, stride: int, dilation: int, start: int, end: int) -> int:
    return (size + start + end - (filter - 1) * dilation - 1) // stride + 1
