"""CONVOLUTION: forward and transposed, grouped, dilated, over 1 to 3 spatial dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.data_types import FLOATS
from opendml.descriptors import (
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
from opendml.enums import ConvolutionDirection, ConvolutionMode, OperatorType
from opendml.operators.activation import FUSABLE_WITH_CLIP

if TYPE_CHECKING:
    from opendml.rules import Rules
    from opendml.tensor import TensorDesc


class Convolution(Operator, type=OperatorType.CONVOLUTION, since="1_0"):
    """Convolution of a filter with an input: 1, 2 or 3 spatial dimensions, forward or transposed, grouped, with
    optional bias and fused activation.

    Input {N, IC, spatial...}, output {N, OC, spatial...}, bias {1, OC, 1...}. The filter is {OC, IC / groups,
    spatial...} for FORWARD and {IC, OC / groups, spatial...} for BACKWARD, where padding crops the output instead of
    extending the input.
    """

    input_tensor: TensorDesc = tensor_input()
    filter_tensor: TensorDesc = tensor_input()
    bias_tensor: TensorDesc | None = tensor_input(default=None)
    output_tensor: TensorDesc = tensor_output()
    mode: ConvolutionMode = enumeration(ConvolutionMode)
    direction: ConvolutionDirection = enumeration(ConvolutionDirection)
    dimension_count: int = count_of("strides", default=None)
    strides: tuple[int, ...] = uint_array(count="dimension_count")
    dilations: tuple[int, ...] = uint_array(count="dimension_count")
    start_padding: tuple[int, ...] = uint_array(count="dimension_count")
    end_padding: tuple[int, ...] = uint_array(count="dimension_count")
    output_padding: tuple[int, ...] = uint_array(count="dimension_count")
    group_count: int = uint()
    fused_activation: Operator | None = operator_desc(FUSABLE_WITH_CLIP, default=None)

    support = levels(at("4_0", (3, 5), FLOATS), at("1_0", (4, 5), FLOATS))

    def check(self, rules: Rules) -> None:
        """Channels, groups, bias and the sizes of the output fit together."""
        tensors = ("input_tensor", "filter_tensor", "bias_tensor", "output_tensor")
        rules.same_data_type(*tensors)
        rules.same_rank(*tensors)
        rules.count_is_rank("dimension_count", "input_tensor", less=2)
        rules.at_least("group_count", 1)
        rules.each_at_least("strides", 1)
        rules.each_at_least("dilations", 1)
        if rules.ready("input_tensor", "filter_tensor", "output_tensor", "group_count", "direction"):
            self._check_channels(rules)
        arrays = ("strides", "dilations", "start_padding", "end_padding", "output_padding")
        if rules.ready("filter_tensor", "output_tensor", "direction") and rules.aligned(
            "input_tensor", *arrays, less=2
        ):
            for i in range(self.input_tensor.rank - 2):
                if min(self.strides[i], self.dilations[i]) >= 1:
                    self._check_size(rules, i)

    def _check_channels(self, rules: Rules) -> None:
        batch, input_channels = self.input_tensor.sizes[:2]
        filters, filter_channels = self.filter_tensor.sizes[:2]
        groups = self.group_count
        is_forward = self.direction == ConvolutionDirection.FORWARD
        grouped = "filter_tensor.sizes[0]" if is_forward else "input_tensor.sizes[1]"
        must = f"must be a multiple of GroupCount = {groups}"
        count = filters if is_forward else input_channels
        rules.require(count % groups == 0, grouped, must, count, breaks=False)
        if is_forward:
            output_channels = filters
            must = f"must be InputTensor.Sizes[1] / GroupCount = {input_channels} / {groups}"
            matches = filter_channels * groups == input_channels
            rules.require(matches, "filter_tensor.sizes[1]", must, filter_channels, breaks=False)
        else:
            output_channels = filter_channels * groups
            must = f"must be InputTensor.Sizes[1] = {input_channels}"
            rules.require(filters == input_channels, "filter_tensor.sizes[0]", must, filters, breaks=False)
        reason = "FilterTensor.Sizes[0]" if is_forward else "FilterTensor.Sizes[1] * GroupCount"
        for i, expected, what in ((0, batch, "InputTensor.Sizes[0]"), (1, output_channels, reason)):
            got = self.output_tensor.sizes[i]
            rules.require(
                got == expected, f"output_tensor.sizes[{i}]", f"must be {what} = {expected}", got, breaks=False
            )
        if self.bias_tensor is not None:
            bias = (1, output_channels, *(1,) * (self.input_tensor.rank - 2))
            rules.sizes_are("bias_tensor", bias, "for one value an output channel")

    def _check_size(self, rules: Rules, i: int) -> None:
        stride, size = self.strides[i], self.input_tensor.sizes[i + 2]
        span = 1 + (self.filter_tensor.sizes[i + 2] - 1) * self.dilations[i]
        padding = self.start_padding[i] + self.end_padding[i]
        extra = self.output_padding[i]
        if self.direction == ConvolutionDirection.FORWARD:
            must = f"must be a filter that fits into the padded input, {size + padding} elements"
            place = f"filter_tensor.sizes[{i + 2}]"
            got = f"{self.filter_tensor.sizes[i + 2]} (dilated: {span})"
            if not rules.require(span <= size + padding, place, must, got, breaks=False):
                return
            least = most = (size + padding - span) // stride + 1 + extra
            formula = "(InputSize + StartPadding + EndPadding - DilatedFilterSize) / Stride + 1 + OutputPadding"
        else:
            limit = max(stride, self.dilations[i])
            must = f"must be less than the larger one of Stride and Dilation, {limit}"
            if not rules.require(extra < limit, f"output_padding[{i}]", must, extra, breaks=False):
                return
            least = stride * (size - 1) + span - padding + extra
            # An OutputPadding of 0 leaves it to the output's size how far the result extends.
            most = least if extra else least + limit - 1
            formula = "Stride * (InputSize - 1) + DilatedFilterSize - StartPadding - EndPadding + OutputPadding"
        allowed = f"{least}" if least == most else f"from {least} to {most}"
        got_size = self.output_tensor.sizes[i + 2]
        place = f"output_tensor.sizes[{i + 2}]"
        rules.require(least <= got_size <= most, place, f"must be {allowed}, by {formula}", got_size, breaks=False)
