"""CONVOLUTION: forward and transposed, grouped, dilated, over 1 to 3 spatial dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from opendml.description.data_types import FLOATS
from opendml.description.descriptors import (
    Operator,
    at,
    count_of,
    enumeration,
    levels,
    operator_desc,
    tensor_input,
    tensor_output,
    uint,
    uint_array,
)
from opendml.description.enums import ConvolutionDirection, ConvolutionMode, OperatorType
from opendml.expression.affine import always_inside
from opendml.expression.element_types import BOOL
from opendml.expression.folds import sum_of_products
from opendml.expression.ir import (
    Expression,
    Load,
    Tensor,
    both,
    cast,
    constant,
    grid,
    in_range,
    index,
    indices,
    load,
    select,
)
from opendml.expression.statements import Compute, Definition, Statement, Store
from opendml.operators.activation import FUSABLE_WITH_CLIP
from opendml.operators.activation_functions import activate
from opendml.operators.definition import optional_tensor, tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import Count, Integer, Integers, Member, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class Convolution(Operator, type=OperatorType.CONVOLUTION, since="1_0"):
    """Convolution of a filter with an input: 1, 2 or 3 spatial dimensions, forward or transposed, grouped, with
    optional bias and fused activation.

    Input {N, IC, spatial...}, output {N, OC, spatial...}, bias {1, OC, 1...}. The filter is {OC, IC / groups,
    spatial...} for FORWARD and {IC, OC / groups, spatial...} for BACKWARD, where padding crops the output instead of
    extending the input.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    filter_tensor: Value[TensorDesc] = tensor_input()
    bias_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_tensor: Value[TensorDesc] = tensor_output()
    mode: Member[ConvolutionMode] = enumeration(ConvolutionMode)
    direction: Member[ConvolutionDirection] = enumeration(ConvolutionDirection)
    dimension_count: Count = count_of("strides", default=None, rank_of=("input_tensor", "filter_tensor"), less=2)
    strides: Integers = uint_array(count="dimension_count")
    dilations: Integers = uint_array(count="dimension_count")
    start_padding: Integers = uint_array(count="dimension_count")
    end_padding: Integers = uint_array(count="dimension_count")
    output_padding: Integers = uint_array(count="dimension_count")
    group_count: Integer = uint()
    fused_activation: Value[Operator | None] = operator_desc(FUSABLE_WITH_CLIP, default=None)

    support = levels(at("4_0", (3, 5), FLOATS), at("1_0", (4, 5), FLOATS))

    def define(self) -> Definition:
        """Sums of products in float32, over the channels of a group and the filter's elements in row-major order."""
        source = tensor("InputTensor", self.input_tensor, "input")
        weights = tensor("FilterTensor", self.filter_tensor, "input")
        bias = optional_tensor("BiasTensor", self.bias_tensor, "input")
        output = tensor("OutputTensor", self.output_tensor, "output")
        is_forward = self.direction == ConvolutionDirection.FORWARD

        def finished(total: Expression, channel: Expression) -> Expression:
            """What is stored: the sum, the bias and the activation, rounded once. Without a bias 0 is added to sums of
            several channels, so that what zeros of the padding add is nothing, not even the sign of a zero."""
            if bias is not None:
                total = total + widen(load(bias, (0, channel, *([0] * self.dimension_count))))
            elif is_forward and weights.sizes[1] > 1:
                total = total + 0.0
            return cast(activate(self.fused_activation, total), output.type)

        define = _forward if is_forward else _backward
        return Definition((source, weights, bias), (output,), define(self, source, weights, output, finished))

    def check(self, rules: Rules) -> None:
        """Channels, groups, bias and the sizes of the output fit together."""
        tensors = ("input_tensor", "filter_tensor", "bias_tensor", "output_tensor")
        rules.same_data_type(*tensors)
        rules.same_rank(*tensors)
        rules.at_least("group_count", 1)
        rules.each_at_least("strides", 1)
        rules.each_at_least("dilations", 1)
        rules.size_is("output_tensor", 0, rules.size("input_tensor", 0), "InputTensor.Sizes[i]")
        if rules.ready("direction"):
            self._check_channels(rules)
            is_forward = self.direction == ConvolutionDirection.FORWARD
            (self._check_filter if is_forward else self._check_output_padding)(rules)
            arrays = ("strides", "dilations", "start_padding", "end_padding", "output_padding")
            for i, values in rules.along("input_tensor", "filter_tensor", *arrays, first=2):
                self._check_size(rules, i, is_forward, values)

    def _check_channels(self, rules: Rules) -> None:
        groups = rules.integer("group_count")
        input_channels = rules.size("input_tensor", 1)
        filters, filter_channels = (rules.size("filter_tensor", i) for i in range(2))
        output_channels, source = filters, "FilterTensor.Sizes[0]"
        if self.direction == ConvolutionDirection.FORWARD:
            check_divisible(rules, "filter_tensor.sizes[0]", filters, groups)
            if input_channels is not None and filter_channels is not None and groups is not None:
                must = f"must be InputTensor.Sizes[1] / GroupCount = {input_channels} / {groups}"
                matches = filter_channels * groups == input_channels
                rules.require(matches, "filter_tensor.sizes[1]", must, filter_channels, breaks=False)
        else:
            check_divisible(rules, "input_tensor.sizes[1]", input_channels, groups)
            rules.size_is("filter_tensor", 0, input_channels, "InputTensor.Sizes[1]")
            output_channels = None if filter_channels is None or groups is None else filter_channels * groups
            source = "FilterTensor.Sizes[1] * GroupCount"
        rules.size_is("output_tensor", 1, output_channels, source)
        bias_rank = rules.rank("bias_tensor") if self.bias_tensor is not None else None
        if bias_rank is not None:
            ones = [None if i == 1 else 1 for i in range(bias_rank)]
            rules.sizes_are("bias_tensor", ones, why="as in all dimensions but that of the channels")
            rules.size_is("bias_tensor", 1, output_channels, source)

    def _check_filter(self, rules: Rules) -> None:
        """The filter fits into the input."""
        places = ("input_tensor", "filter_tensor", "dilations", "start_padding", "end_padding")
        for i, (size, filter_size, dilation, start, end) in rules.along(*places, first=2):
            span, padded = 1 + (filter_size - 1) * dilation, size + start + end
            must = f"must fit into the padded input: {span_name(i)} + 1 <= {padded_name(i)} = {padded}"
            rules.require(span <= padded, f"filter_tensor.sizes[{i + 2}]", must, span)

    def _check_output_padding(self, rules: Rules) -> None:
        """Less of the output is left over than the filter moves."""
        for i, (stride, dilation, extra) in rules.along("strides", "dilations", "output_padding"):
            limit = max(stride, dilation)
            must = f"must be less than the larger one of Strides[{i}] and Dilations[{i}], {limit}"
            rules.require(extra < limit, f"output_padding[{i}]", must, extra)

    def _check_size(self, rules: Rules, i: int, is_forward: bool, values: tuple[int, ...]) -> None:
        """A spatial size of the output, by the sizes of input and filter and the elements of the five arrays there."""
        size, filter_size, stride, dilation, start, end, extra = values
        d = i + 2
        span = 1 + (filter_size - 1) * dilation
        if is_forward:
            least = most = (size + start + end - span) // stride + 1 + extra
            formula = f"({padded_name(i)} - {span_name(i)} - 1) / Strides[{i}] + 1 + OutputPadding[{i}]"
        else:
            least = stride * (size - 1) + span - start - end + extra
            # An OutputPadding of 0 leaves it to the output's size how far the result extends.
            most = least if extra else least + max(stride, dilation) - 1
            formula = (
                f"Strides[{i}] * (InputTensor.Sizes[{d}] - 1) + {span_name(i)} + 1 - StartPadding[{i}]"
                f" - EndPadding[{i}] + OutputPadding[{i}]"
            )
        output_size = rules.size("output_tensor", d)
        if output_size is not None and rules.rank("output_tensor") is not None:
            must = f"must be {least if least == most else f'from {least} to {most}'}, by {formula}"
            rules.require(least <= output_size <= most, f"output_tensor.sizes[{d}]", must, output_size, breaks=False)


def span_name(i: int) -> str:
    """How far the filter reaches along a spatial dimension, in the names of fields."""
    return f"(FilterTensor.Sizes[{i + 2}] - 1) * Dilations[{i}]"


def padded_name(i: int) -> str:
    """The size of the padded input along a spatial dimension, in the names of fields."""
    return f"InputTensor.Sizes[{i + 2}] + StartPadding[{i}] + EndPadding[{i}]"


def check_divisible(rules: Rules, place: str, count: int | None, groups: int | None) -> None:
    """Every group has as many of the channels."""
    if count is not None and groups is not None:
        must = f"must be a multiple of GroupCount = {groups}"
        rules.require(count % groups == 0, place, must, count, breaks=False)


# ---------------------------------------------------------------------------------------------------------------------

_Place = Sequence[Expression]
_Finish = Callable[[Expression, Expression], Expression]
"""What is stored, by the sum and the number of the output channel."""


def zero_outside(source: Tensor, place: _Place, element: Callable[[Expression], Expression] = widen) -> Expression:
    """``element`` of what is at a place of the input, 0 in the padding."""
    read = load(source, place)
    if isinstance(read, Load) and always_inside(read, {}):
        return element(read)
    inside = both(in_range(p, size) for p, size in zip(place[2:], source.sizes[2:], strict=True))
    return select(inside, element(read), 0)


def _forward(
    desc: Convolution, source: Tensor, weights: Tensor, output: Tensor, finished: _Finish
) -> tuple[Statement, ...]:
    """One sum over input channels of the group and filter taps for each output, zeros in the output padding."""
    counted = [size - extra for size, extra in zip(output.sizes[2:], desc.output_padding, strict=True)]
    filters, group_inputs, *filter_taps = weights.sizes
    group_outputs = filters // desc.group_count
    batch, group, channel, *place = axes = grid([output.sizes[0], desc.group_count, group_outputs, *counted], "ngoxyz")
    reaching = [_reaching(desc, i, source.sizes[2 + i], count) for i, count in enumerate(counted)]
    inner, *taps = folded = grid([group_inputs, *map(len, reaching)], "ctuv")
    output_channel = index(group) * group_outputs + index(channel)
    input_channel = index(group) * group_inputs + index(inner)
    reached = [index(tap) + some.start if some.start else index(tap) for tap, some in zip(taps, reaching, strict=True)]
    ways = zip(indices(place), reached, desc.strides, desc.dilations, desc.start_padding, strict=True)
    position = [o * stride + t * dilation - padding for o, t, stride, dilation, padding in ways]
    left = zero_outside(source, (index(batch), input_channel, *position))
    right = widen(load(weights, (output_channel, index(inner), *_filter_taps(desc, reached, filter_taps))))
    target = (index(batch), output_channel, *indices(place))
    value = finished(sum_of_products(folded, left, right), output_channel)
    return Compute(axes, (Store(output, target, value),)), *_output_padding(output, counted)


def _reaching(desc: Convolution, dimension: int, size: int, count: int) -> range:
    """The taps along a spatial dimension from the first to the last one that reads any of ``size`` elements for any of
    ``count`` outputs; one in any case. Others, of windows that reach far over small images, have nothing but zeros."""
    stride, dilation, padding = (way[dimension] for way in (desc.strides, desc.dilations, desc.start_padding))

    def reads(tap: int) -> bool:
        first = tap * dilation - padding
        inside = first if first >= 0 else first % stride
        return inside < size and inside <= first + (count - 1) * stride

    taps = range(desc.filter_tensor.sizes[2 + dimension])
    below, behind = -(((count - 1) * stride - padding) // dilation), (size - 1 + padding) // dilation + 1
    near = taps[max(below, 0) : max(behind, 0)]
    first = next(filter(reads, near), None)
    if first is None:
        return taps[:1]
    return taps[first : next(filter(reads, reversed(near))) + 1]


def _filter_taps(desc: Convolution, taps: Sequence[Expression], sizes: Sequence[int]) -> list[Expression]:
    """The places of taps in the filter, which the mode CONVOLUTION turns round."""
    is_turned = desc.mode == ConvolutionMode.CONVOLUTION
    return [(size - 1) - tap if is_turned else tap for tap, size in zip(taps, sizes, strict=True)]


def _output_padding(output: Tensor, counted: Sequence[int]) -> Iterator[Statement]:
    """Zeros behind the first ``counted`` elements of every spatial dimension."""
    for i, count in enumerate(counted):
        rest = output.sizes[2 + i] - count
        if rest:
            sizes = [*output.sizes]
            sizes[2 + i] = rest
            axes = grid(sizes)
            place = [*indices(axes)]
            place[2 + i] = place[2 + i] + count
            yield Compute(axes, (Store(output, tuple(place), constant(0, output.type)),))


def _backward(
    desc: Convolution, source: Tensor, weights: Tensor, output: Tensor, finished: _Finish
) -> tuple[Statement, ...]:
    """In gather form: each output sums the inputs that the scatter form would add to it, taps in increasing order. A
    tap meets an input where its distance from the output is a multiple of the stride; a single one where that is 0."""
    channels, group_outputs, *filter_sizes = weights.sizes
    group_inputs = channels // desc.group_count
    sizes = [output.sizes[0], desc.group_count, group_outputs, *output.sizes[2:]]
    batch, group, channel, *place = axes = grid(sizes, "ngoxyz")
    inner, *taps = folded = grid([group_inputs, *filter_sizes], "ctuv")
    output_channel = index(group) * group_outputs + index(channel)
    input_channel = index(group) * group_inputs + index(inner)
    conditions, position = list[Expression](), list[Expression]()
    ways = zip(source.sizes[2:], place, taps, desc.strides, desc.dilations, desc.start_padding, strict=True)
    for size, target, tap, stride, dilation, padding in ways:
        if size == 1:  # there is no step to another input: one that leads out of all outputs is as good
            stride = max(target.size + padding, (tap.size - 1) * dilation + 1)
        # Division truncates: a multiple of the stride is added that makes every dividend non-negative.
        shift = -(-max(0, (tap.size - 1) * dilation - padding) // stride)
        dividend = index(target) - index(tap) * dilation + (padding + shift * stride)
        conditions.append((dividend % stride).equals(0))
        position.append(dividend // stride - shift)
    left = zero_outside(source, (index(batch), input_channel, *position))
    right = widen(load(weights, (input_channel, index(channel), *_filter_taps(desc, indices(taps), filter_sizes))))
    where = both(conditions)
    total = sum_of_products(folded, left, right, None if where == constant(True, BOOL) else where)
    place_there = (index(batch), output_channel, *indices(place))
    return (Compute(axes, (Store(output, place_there, finished(total, output_channel)),)),)
