"""Pooling over windows that slide over the spatial dimensions, and MAX_UNPOOLING.

Tensors are {N, C, H, W} or {N, C, D, H, W}; window arrays have one entry a spatial dimension, in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.data_types import ALL_BUT_FLOAT64, FLOATS, FLOATS_AND_BYTES, UINT32_ONLY, UINT32_OR_64
from opendml.descriptors import Operator, at, boolean, count_of, levels, tensor_input, tensor_output, uint, uint_array
from opendml.enums import OperatorType

if TYPE_CHECKING:
    from opendml.rules import Rules
    from opendml.tensor import TensorDesc


class Pooling(Operator):
    """What all poolings share: the window and its way over the input.

    Along spatial dimension i the window at output position o covers the input positions
    ``o * strides[i] + k * dilations[i] - start_padding[i]`` for 0 <= k < window_size[i].
    """

    input_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()
    dimension_count: int = count_of("window_size", default=None)
    strides: tuple[int, ...] = uint_array(count="dimension_count")
    window_size: tuple[int, ...] = uint_array(count="dimension_count")
    start_padding: tuple[int, ...] = uint_array(count="dimension_count")
    end_padding: tuple[int, ...] = uint_array(count="dimension_count")

    @property
    def window_dilations(self) -> tuple[int, ...]:
        """The steps between neighbouring elements of the window: 1 for the versions without dilations."""
        dilations: tuple[int, ...] | None = getattr(self, "dilations", None)
        return (1,) * len(self.window_size) if dilations is None else dilations

    def check(self, rules: Rules) -> None:
        """The output is as large as the windows that fit, rounded down or up."""
        arrays = [name for name in ("strides", "window_size", "dilations") if name in self.fields]
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "output_tensor")
        rules.count_is_rank("dimension_count", "input_tensor", less=2)
        for name in arrays:
            rules.each_at_least(name, 1)
        if not rules.ready("input_tensor", "output_tensor"):
            return
        for i, what in enumerate(("BatchCount", "ChannelCount")[: self.input_tensor.rank]):
            expected, got = self.input_tensor.sizes[i], self.output_tensor.sizes[i]
            must = f"must be {expected}, the {what} of InputTensor"
            rules.require(got == expected, f"output_tensor.sizes[{i}]", must, got, breaks=False)
        if rules.aligned("input_tensor", "start_padding", "end_padding", *arrays, less=2):
            for i in range(self.input_tensor.rank - 2):
                self._check_window(rules, i)

    def _check_window(self, rules: Rules, i: int) -> None:
        stride, window, dilation = self.strides[i], self.window_size[i], self.window_dilations[i]
        if min(stride, window, dilation) < 1:
            return
        span = 1 + (window - 1) * dilation
        end_of_input = self.input_tensor.sizes[i + 2] + self.start_padding[i]
        padded = end_of_input + self.end_padding[i]
        must = f"must be a window that fits into the padded input, {padded} elements along dimension {i + 2}"
        got = f"{window}" if dilation == 1 else f"{window} (dilated: {span})"
        if not rules.require(span <= padded, f"window_size[{i}]", must, got, breaks=False):
            return
        rounded_down = (padded - span) // stride + 1
        rounded_up = -(-(padded - span) // stride) + 1
        allowed = f"{rounded_down}"
        if rounded_up != rounded_down and (rounded_up - 1) * stride < end_of_input:
            allowed += f" (or {rounded_up}, rounded up)"
        else:
            rounded_up = rounded_down
        size = self.output_tensor.sizes[i + 2]
        must = f"must be {allowed}, from (InputSize + StartPadding + EndPadding - DilatedWindowSize) / Stride + 1"
        rules.require(rounded_down <= size <= rounded_up, f"output_tensor.sizes[{i + 2}]", must, size, breaks=False)


class MaxPooling(Pooling, type=OperatorType.MAX_POOLING, since="1_0"):
    """Maximum of the elements inside a window that slides over the spatial dimensions of the input."""

    support = levels(
        at("5_0", (4, 5), ALL_BUT_FLOAT64),
        at("3_0", (4, 5), FLOATS_AND_BYTES),
        at("1_0", (4, 5), FLOATS),
    )


class MaxPooling1(MaxPooling, type=OperatorType.MAX_POOLING1, since="2_0"):
    """Max pooling that can also return where each maximum was found.

    ``output_indices_tensor`` holds flat positions in the input, counted as if it were packed, batch and channel
    included; among equal maxima the first one of the window in row-major order.
    """

    output_indices_tensor: TensorDesc | None = tensor_output(default=None, after="output_tensor")

    support = levels(
        at("5_0", (4, 5), ALL_BUT_FLOAT64, output_indices_tensor=UINT32_OR_64),
        at("3_0", (4, 5), FLOATS_AND_BYTES, output_indices_tensor=UINT32_ONLY),
        at("2_0", (4, 5), FLOATS, output_indices_tensor=UINT32_ONLY),
    )

    def check(self, rules: Rules) -> None:
        """Indices have the sizes of the output."""
        super().check(rules)
        rules.same_rank("output_tensor", "output_indices_tensor")
        rules.same_sizes("output_tensor", "output_indices_tensor")


class MaxPooling2(MaxPooling1, type=OperatorType.MAX_POOLING2, since="2_1"):
    """Maximum over a dilated sliding window of the spatial dimensions, optionally with the positions of the maxima."""

    dilations: tuple[int, ...] = uint_array(count="dimension_count", after="end_padding")

    support = levels(
        at("5_0", (4, 5), ALL_BUT_FLOAT64, output_indices_tensor=UINT32_OR_64),
        at("3_0", (4, 5), FLOATS_AND_BYTES, output_indices_tensor=UINT32_ONLY),
        at("2_1", (4, 5), FLOATS, output_indices_tensor=UINT32_ONLY),
    )


class AveragePooling(Pooling, type=OperatorType.AVERAGE_POOLING, since="1_0"):
    """Mean of the elements inside a window that slides over the spatial dimensions of the input.

    ``include_padding``: divide by the size of the window instead of the number of its elements inside the input.
    """

    include_padding: bool = boolean()

    support = levels(at("1_0", (4, 5), FLOATS))


class AveragePooling1(AveragePooling, type=OperatorType.AVERAGE_POOLING1, since="6_2"):
    """Average pooling with a dilated window."""

    dilations: tuple[int, ...] = uint_array(count="dimension_count", after="end_padding")

    support = levels(at("6_2", (4, 5), FLOATS))


class LpPooling(Pooling, type=OperatorType.LP_POOLING, since="1_0"):
    """Lp norm of the elements inside a window that slides over the spatial dimensions of the input."""

    p: int = uint()

    support = levels(at("1_0", (4, 5), FLOATS))

    def check(self, rules: Rules) -> None:
        """A norm exists for P >= 1."""
        super().check(rules)
        rules.at_least("p", 1)


class LpPooling1(LpPooling, type=OperatorType.LP_POOLING1, since="6_2"):
    """Lp pooling with a dilated window."""

    dilations: tuple[int, ...] = uint_array(count="dimension_count", after="end_padding")

    support = levels(at("6_2", (4, 5), FLOATS))


class MaxUnpooling(Operator, type=OperatorType.MAX_UNPOOLING, since="2_0"):
    """Writes each input value at its recorded position in an otherwise zero output (inverse of max pooling).

    An index counts as in MAX_POOLING1, in the output; values whose index is outside the output are dropped.
    """

    input_tensor: TensorDesc = tensor_input()
    indices_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()

    # The documentation's oldest table is that of 3_0, though the operator is older.
    support = levels(
        at("5_0", (4, 4), ALL_BUT_FLOAT64, indices_tensor=UINT32_OR_64),
        at("2_0", (4, 4), FLOATS, indices_tensor=UINT32_ONLY),
    )

    def check(self, rules: Rules) -> None:
        """One index a value; the output may have any sizes."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "indices_tensor", "output_tensor")
        rules.same_sizes("input_tensor", "indices_tensor")
