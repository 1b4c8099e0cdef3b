"""Convolutions of quantized tensors: sums of exact integer products, as they are or quantized again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from opendml.description.data_types import BYTES, FLOAT32_ONLY, INT32_ONLY
from opendml.description.descriptors import (
    Operator,
    at,
    count_of,
    levels,
    tensor_input,
    tensor_output,
    uint,
    uint_array,
)
from opendml.description.enums import OperatorType
from opendml.expression.element_types import F32, I32, I64
from opendml.expression.folds import sum_of_products
from opendml.expression.ir import (
    Expression,
    cast,
    constant,
    grid,
    index,
    indices,
    load,
)
from opendml.expression.statements import Compute, Definition, Store
from opendml.operators.convolution import check_divisible, padded_name, span_name, zero_outside
from opendml.operators.quantization_parameters import (
    CHANNELS,
    Tensors,
    check_counted,
    check_single,
    difference,
    requantized,
    value_for,
)

if TYPE_CHECKING:
    from opendml.description.field_types import Count, Integer, Integers, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class ConvolutionInteger(Operator, type=OperatorType.CONVOLUTION_INTEGER, since="2_1"):
    """Convolution of 8-bit integer tensors, less their zero points, with INT32 result: forward, grouped, dilated.

    Input {N, IC, spatial...}, filter {OC, IC / groups, spatial...}, output {N, OC, spatial...}. The filter has one zero
    point or one an output channel. Padding has the value of the input's zero point.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    input_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    filter_tensor: Value[TensorDesc] = tensor_input()
    filter_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_tensor: Value[TensorDesc] = tensor_output()
    dimension_count: Count = count_of("strides", default=None, rank_of=("input_tensor", "filter_tensor"), less=2)
    strides: Integers = uint_array(count="dimension_count")
    dilations: Integers = uint_array(count="dimension_count")
    start_padding: Integers = uint_array(count="dimension_count")
    end_padding: Integers = uint_array(count="dimension_count")
    group_count: Integer = uint()

    support = levels(
        at(
            "4_0",
            (3, 4),
            BYTES,
            dict.fromkeys(("input_zero_point_tensor", "filter_zero_point_tensor"), (1, 4)),
            output_tensor=INT32_ONLY,
        ),
        at("2_1", (4, 4), BYTES, output_tensor=INT32_ONLY),
    )

    def check(self, rules: Rules) -> None:
        """Sizes as those of a forward CONVOLUTION; zero points have the types of what they belong to."""
        rules.same_data_type("input_tensor", "input_zero_point_tensor")
        rules.same_data_type("filter_tensor", "filter_zero_point_tensor")
        rules.same_rank("input_tensor", "filter_tensor", "output_tensor")
        rules.same_rank("input_zero_point_tensor", "filter_zero_point_tensor")
        _check_convolution(rules)
        check_single(rules, "input_zero_point_tensor")
        channels = rules.size("filter_tensor", 0)
        check_counted(rules, ["filter_zero_point_tensor"], CHANNELS, channels, "FilterTensor.Sizes[0]")

    def define(self) -> Definition:
        """Sums of products of the differences, modulo 2^32."""
        return _convolution(self, lambda total, channel: total)


class QuantizedLinearConvolution(Operator, type=OperatorType.QUANTIZED_LINEAR_CONVOLUTION, since="2_1"):
    """Convolution of quantized 8-bit tensors, quantized again: dequantize, convolve, add the bias, quantize.

    Input {N, IC, spatial...}, filter {OC, IC / groups, spatial...}, bias {1, OC, 1...}, in units of the input's scale
    times the filter's, output {N, OC, spatial...}. The filter has one scale and zero point or one an output channel,
    input and output have one; without a zero point it is 0. Padding is 0 after it is dequantized.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    input_scale_tensor: Value[TensorDesc] = tensor_input()
    input_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    filter_tensor: Value[TensorDesc] = tensor_input()
    filter_scale_tensor: Value[TensorDesc] = tensor_input()
    filter_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    bias_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_scale_tensor: Value[TensorDesc] = tensor_input()
    output_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_tensor: Value[TensorDesc] = tensor_output()
    dimension_count: Count = count_of("strides", default=None, rank_of=("input_tensor", "filter_tensor"), less=2)
    strides: Integers = uint_array(count="dimension_count")
    dilations: Integers = uint_array(count="dimension_count")
    start_padding: Integers = uint_array(count="dimension_count")
    end_padding: Integers = uint_array(count="dimension_count")
    group_count: Integer = uint()

    _TYPES = dict.fromkeys(("input_scale_tensor", "filter_scale_tensor", "output_scale_tensor"), FLOAT32_ONLY)
    _TYPES |= {"bias_tensor": INT32_ONLY}
    _ZERO_POINTS = ("input_zero_point_tensor", "filter_zero_point_tensor", "output_zero_point_tensor")
    _SINGLE = ("input_scale_tensor", "input_zero_point_tensor", "output_scale_tensor", "output_zero_point_tensor")
    _COUNTED = ("filter_scale_tensor", "filter_zero_point_tensor")

    support = levels(
        at("5_2", (3, 4), BYTES, dict.fromkeys((*_SINGLE, *_COUNTED), (1, 4)), **_TYPES),
        at("4_0", (3, 4), BYTES, dict.fromkeys((*_SINGLE, "filter_zero_point_tensor"), (1, 4)), **_TYPES),
        at("2_1", (4, 4), BYTES, **_TYPES),
    )

    def check(self, rules: Rules) -> None:
        """Sizes as those of a forward CONVOLUTION; zero points have the types of what they belong to."""
        for name in ("input", "filter", "output"):
            rules.same_data_type(f"{name}_tensor", f"{name}_zero_point_tensor")
        rules.same_rank("input_tensor", "filter_tensor", "bias_tensor", "output_tensor")
        _check_convolution(rules)
        check_single(rules, *self._SINGLE)
        channels, source = rules.size("filter_tensor", 0), "FilterTensor.Sizes[0]"
        check_counted(rules, self._COUNTED, CHANNELS, channels, source)
        bias_rank = rules.rank("bias_tensor") if self.bias_tensor is not None else None
        if bias_rank is not None:
            ones = [None if i == 1 else 1 for i in range(bias_rank)]
            rules.sizes_are("bias_tensor", ones, why="as in all dimensions but that of the channels")
            rules.size_is("bias_tensor", 1, channels, source)

    def define(self) -> Definition:
        """The sum and the bias, modulo 2^32, rounded to float32, times ``InputScale * FilterScale / OutputScale``; each
        operation in float32."""
        tensors = Tensors(self)
        names = ("input_scale_tensor", "filter_scale_tensor", "output_scale_tensor")
        bias, zero_point = tensors.get("bias_tensor"), tensors.get("output_zero_point_tensor")

        def again(total: Expression, channel: Expression) -> Expression:
            if bias is not None:
                total = total + value_for(bias, channel)
            input_scale, filter_scale, scale = (value_for(tensors[name], channel) for name in names)
            value = cast(total, F32) * (input_scale * filter_scale / scale)
            return requantized(value, zero_point, channel, tensors["output_tensor"].type)

        return _convolution(self, again, tensors)


_Quantized = ConvolutionInteger | QuantizedLinearConvolution


def _check_convolution(rules: Rules) -> None:
    """The windows, the channels of input, filter and output, and the sizes of the output."""
    rules.at_least("group_count", 1)
    rules.each_at_least("strides", 1)
    rules.each_at_least("dilations", 1)
    rules.size_is("output_tensor", 0, rules.size("input_tensor", 0), "InputTensor.Sizes[i]")
    groups, input_channels = rules.integer("group_count"), rules.size("input_tensor", 1)
    filters, filter_channels = (rules.size("filter_tensor", i) for i in range(2))
    check_divisible(rules, "filter_tensor.sizes[0]", filters, groups)
    if input_channels is not None and filter_channels is not None and groups is not None:
        must = f"must be InputTensor.Sizes[1] / GroupCount = {input_channels} / {groups}"
        matches = filter_channels * groups == input_channels
        rules.require(matches, "filter_tensor.sizes[1]", must, filter_channels, breaks=False)
    rules.size_is("output_tensor", 1, filters, "FilterTensor.Sizes[0]")
    arrays = ("dilations", "start_padding", "end_padding")
    for i, (size, filter_size, dilation, start, end) in rules.along("input_tensor", "filter_tensor", *arrays, first=2):
        span, padded = 1 + (filter_size - 1) * dilation, size + start + end
        must = f"must fit into the padded input: {span_name(i)} + 1 <= {padded_name(i)} = {padded}"
        rules.require(span <= padded, f"filter_tensor.sizes[{i + 2}]", must, span)
    for i, values in rules.along("input_tensor", "filter_tensor", "strides", *arrays, first=2):
        size, filter_size, stride, dilation, start, end = values
        expected = (size + start + end - 1 - (filter_size - 1) * dilation) // stride + 1
        output_size = rules.size("output_tensor", i + 2)
        if output_size is not None and rules.rank("output_tensor") is not None:
            must = f"must be {expected}, by ({padded_name(i)} - {span_name(i)} - 1) / Strides[{i}] + 1"
            place = f"output_tensor.sizes[{i + 2}]"
            rules.require(output_size == expected, place, must, output_size, breaks=False)


# ---------------------------------------------------------------------------------------------------------------------


def _convolution(
    desc: _Quantized, finish: Callable[[Expression, Expression], Expression], tensors: Tensors | None = None
) -> Definition:
    """The output is ``finish(sum, output channel)`` of the sums over the channels of a group and the filter's elements,
    cast to its type."""
    tensors = tensors or Tensors(desc)
    weights, output = tensors["filter_tensor"], tensors["output_tensor"]
    filters, group_inputs, *filter_sizes = weights.sizes
    group_outputs = filters // desc.group_count
    zero_point = tensors.get("input_zero_point_tensor")
    batch, group, channel, *place = axes = grid(
        [output.sizes[0], desc.group_count, group_outputs, *output.sizes[2:]], "ngoxyz"
    )
    inner, *taps = folded = grid([group_inputs, *filter_sizes], "ctuv")
    output_channel = index(group) * group_outputs + index(channel)
    input_channel = index(group) * group_inputs + index(inner)
    windows = zip(indices(place), indices(taps), desc.strides, desc.dilations, desc.start_padding, strict=True)
    position = [o * stride + t * dilation - padding for o, t, stride, dilation, padding in windows]
    weight = load(weights, (output_channel, *indices(folded)))
    right = difference(weight, tensors.get("filter_zero_point_tensor"), output_channel, I32)
    left = zero_outside(
        tensors["input_tensor"],
        (index(batch), input_channel, *position),
        lambda element: difference(element, zero_point, constant(0, I64), I32),
    )
    total = sum_of_products(folded, left, right)
    value = cast(finish(total, output_channel), output.type)
    target = (index(batch), output_channel, *indices(place))
    return tensors.definition(Compute(axes, (Store(output, target, value),)))
