"""Sliding products: convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opendml.building.operands import OperandRules, Sizes, View
from opendml.description.descriptors import Operator
from opendml.description.enums import ConvolutionDirection, ConvolutionMode
from opendml.description.tensor import TensorDesc
from opendml.functions.core import (
    Array,
    Operand,
    evaluate_single,
    integers,
    is_member,
    operand_rules,
    or_default,
    sizes_by,
    sizes_or,
)
from opendml.functions.signatures import operator_function
from opendml.operators.convolution import Convolution
from opendml.programs.device import Device


@operator_function
def convolution(
    input: Operand,
    filter: Operand,
    bias: Operand | None = None,
    *,
    mode: ConvolutionMode | str = ConvolutionMode.CROSS_CORRELATION,
    direction: ConvolutionDirection | str = ConvolutionDirection.FORWARD,
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    group_count: int = 1,
    fused_activation: Operator | None = None,
    output_sizes: Sequence[int] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The convolution of the input with a filter, forward or transposed, over 1 to 3 spatial dimensions (CONVOLUTION).

    ``input``: {N, IC, spatial...}, float32 or float16. ``filter``: {OC, IC / groups, spatial...} for ``FORWARD``,
    {IC, OC / groups, spatial...} for ``BACKWARD``. ``bias``: {1, OC, 1...}. The window arrays have one element a
    spatial dimension; strides and dilations are 1 and paddings 0 by default. ``mode``: ``CROSS_CORRELATION``, or
    ``CONVOLUTION`` with the filter reversed. ``fused_activation``: an activation without tensors, such as
    ``dml.fused_activation.relu()``. Returns {N, OC, spatial...}, with spatial sizes of
    ``(size + start_padding + end_padding - dilated filter size) // strides + 1 + output_padding`` forward,
    ``strides * (size - 1) + dilated filter size - start_padding - end_padding + output_padding`` backward, unless
    ``output_sizes`` (all dimensions) says otherwise.

    >>> x, window = np.array([[[1, -2, 3, -4]]], "float32"), np.array([[[1, 2]]], "float32")
    >>> dml.convolution(x, window, fused_activation=dml.fused_activation.relu()).tolist()
    [[[0.0, 4.0, 0.0]]]
    """
    parameters = (
        mode,
        direction,
        integers(strides),
        integers(dilations),
        integers(start_padding),
        integers(end_padding),
        integers(output_padding),
        group_count,
        fused_activation,
        integers(output_sizes),
    )
    return evaluate_single(_convolution, (input, filter, bias), parameters, optional=1, device=device, out=out)


def _with_bias(shapes: Sequence[Sizes | None], parameters: tuple[Any, ...]) -> Sequence[View | None]:
    """A bias of one dimension, or a number, has the sizes {1, OC, 1...}; any other is as it is."""
    input, filter, bias = shapes
    if input is None or filter is None or bias is None or len(bias) > 1 or len(input) < 3 or len(filter) < 2:
        return [None] * len(shapes)
    direction, groups = parameters[1], parameters[7]
    backward = is_member(direction, ConvolutionDirection.BACKWARD)
    channels = sizes_or(filter[:1], lambda: [filter[1] * groups if backward else filter[0]])
    sizes = (1, *channels, *[1] * (len(input) - 2))
    if bias not in ((), channels):
        raise ValueError(f"{bias} is no bias of {channels} channels")
    return [None, None, View(sizes, tuple(0 if bias and i == 1 else None for i in range(len(sizes))))]


@operand_rules(OperandRules("x", views=_with_bias))
def _convolution(
    input: TensorDesc,
    filter: TensorDesc,
    bias: TensorDesc | None,
    mode: Any,
    direction: Any,
    strides: Any,
    dilations: Any,
    start_padding: Any,
    end_padding: Any,
    output_padding: Any,
    group_count: Any,
    fused_activation: Operator | None,
    output_sizes: Any,
) -> Operator:
    count = max(input.rank - 2, 0)
    window = {
        "strides": or_default(strides, 1, count),
        "dilations": or_default(dilations, 1, count),
        "start_padding": or_default(start_padding, 0, count),
        "end_padding": or_default(end_padding, 0, count),
        "output_padding": or_default(output_padding, 0, count),
    }
    if output_sizes is None:
        backward = is_member(direction, ConvolutionDirection.BACKWARD)
        output_sizes = _output_sizes(input, filter, backward, group_count, window)
    return Convolution(
        input_tensor=input,
        filter_tensor=filter,
        bias_tensor=bias,
        output_tensor=TensorDesc(input.data_type, output_sizes),
        mode=mode,
        direction=direction,
        group_count=group_count,
        fused_activation=fused_activation,
        **window,
    )


def _output_sizes(
    input: TensorDesc, filter: TensorDesc, backward: bool, group_count: Any, window: dict[str, Any]
) -> tuple[int, ...]:
    channels = sizes_or(input.sizes[1:2], lambda: [filter.sizes[1] * group_count if backward else filter.sizes[0]])
    formula = _backward_size if backward else _forward_size
    return (*input.sizes[:1], *channels, *sizes_by(formula, input.sizes[2:], filter.sizes[2:], *window.values()))


def _forward_size(size: int, filter: int, stride: int, dilation: int, start: int, end: int, extra: int) -> int:
    return (size + start + end - (filter - 1) * dilation - 1) // stride + 1 + extra


def _backward_size(size: int, filter: int, stride: int, dilation: int, start: int, end: int, extra: int) -> int:
    return stride * (size - 1) + (filter - 1) * dilation + 1 - start - end + extra
