"""Pooling over windows that slide over the spatial dimensions, and MAX_UNPOOLING.

Tensors are {N, C, H, W} or {N, C, D, H, W}; window arrays have one entry a spatial dimension, in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from opendml.description.data_types import ALL_BUT_FLOAT64, FLOATS, FLOATS_AND_BYTES, UINT32_ONLY, UINT32_OR_64
from opendml.description.descriptors import (
    Operator,
    at,
    boolean,
    count_of,
    levels,
    tensor_input,
    tensor_output,
    uint,
    uint_array,
)
from opendml.description.enums import OperatorType
from opendml.expression.element_types import I64, U32
from opendml.expression.folds import extreme_of, extreme_with_position, lowest, sum_of
from opendml.expression.ir import (
    Axis,
    Expression,
    Tensor,
    cast,
    constant,
    grid,
    indices,
    load,
    packed_strides,
    select,
    unary,
)
from opendml.expression.mathematics import power_integer, root
from opendml.expression.statements import Compute, Definition, Scatter, Store
from opendml.expression.windows import Window, sliding_window
from opendml.operators.definition import every_element, tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import Count, Integer, Integers, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc

NO_POSITION: Final = 2**32 - 1
"""The index given for a window that has no element inside the input; no element of any tensor has it."""


class Windowed(Operator):
    """What slides a window over an image: pooling, and its gradients."""

    # Every one has these, among its own fields.
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]

    @property
    def image(self) -> TensorDesc:
        """The tensor that the window slides over."""
        raise TypeError(type(self).__name__)

    @property
    def window_dilations(self) -> tuple[int, ...]:
        """The steps between neighbouring elements of the window: 1 for the versions without dilations."""
        dilations: tuple[int, ...] | None = getattr(self, "dilations", None)
        return (1,) * len(self.window_size) if dilations is None else dilations

    def window(self, output: Sequence[Axis]) -> Window:
        """The window that belongs to the place ``output`` among all windows."""
        return sliding_window(
            output, self.image.sizes, self.window_size, self.strides, self.window_dilations, self.start_padding
        )


class Pooling(Windowed):
    """What all poolings share: the window and its way over the input.

    Along spatial dimension i the window at output position o covers the input positions
    ``o * strides[i] + k * dilations[i] - start_padding[i]`` for 0 <= k < window_size[i].
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    dimension_count: Count = count_of("window_size", default=None, rank_of=("input_tensor", "output_tensor"), less=2)
    strides: Integers = uint_array(count="dimension_count")
    window_size: Integers = uint_array(count="dimension_count")
    start_padding: Integers = uint_array(count="dimension_count")
    end_padding: Integers = uint_array(count="dimension_count")

    @property
    def image(self) -> TensorDesc:
        """The input."""
        return self.input_tensor

    def pooled(self, window: Window, element: Expression) -> Expression:
        """The value of a window whose elements are ``element``, for poolings with one output."""
        raise TypeError(type(self).__name__)

    def define(self) -> Definition:
        """One fold over the window for every element of the output."""
        source = tensor("InputTensor", self.input_tensor, "input")
        output = tensor("OutputTensor", self.output_tensor, "output")
        axes = grid(output.sizes)
        window = self.window(axes)
        value = self.pooled(window, widen(load(source, window.coordinates)))
        return Definition(
            (source,), (output,), (Compute(axes, (Store(output, indices(axes), cast(value, output.type)),)),)
        )

    def check(self, rules: Rules) -> None:
        """The output is as large as the windows that fit, rounded down or up."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "output_tensor")
        check_windows(rules, "input_tensor", "output_tensor")


def check_windows(rules: Rules, whole: str, pooled: str) -> None:
    """The tensor ``pooled`` has one element for each of the windows that fit into ``whole``, which has batch and
    channels in common with it; their number is rounded down or up."""
    arrays = [name for name in ("strides", "window_size", "dilations") if name in rules.desc.fields]
    for name in arrays:
        rules.each_at_least(name, 1)
    for i in range(2):
        rules.size_is(pooled, i, rules.size(whole, i), f"{rules.location(whole)}.Sizes[i]")
    window = (whole, "start_padding", "end_padding", *arrays[1:])
    for i, (size, start, end, taps, *dilation) in rules.along(*window, first=2):
        span, padded = 1 + (taps - 1) * (dilation or [1])[0], size + start + end
        must = f"must fit into the padded input: {_span_name(rules, i)} <= {_padded_name(rules, whole, i)} = {padded}"
        rules.require(span <= padded, f"window_size[{i}]", must, span)
    for i, (stride, size, start, end, taps, *dilation) in rules.along("strides", *window, first=2):
        span = 1 + (taps - 1) * (dilation or [1])[0]
        _check_count(rules, whole, pooled, i, size + start + end - span, span - end, stride)


def _check_count(rules: Rules, whole: str, pooled: str, i: int, way: int, behind: int, stride: int) -> None:
    """The number of windows by the way that they go, the last time (if rounded up) to begin before the end padding,
    which starts ``behind`` elements after the way's end."""
    size = rules.size(pooled, i + 2)
    rounded_down, rounded_up = way // stride + 1, -(-way // stride) + 1
    allowed = f"{rounded_down}"
    if rounded_up != rounded_down and (rounded_up - 1) * stride < way + behind:
        allowed += f" (or {rounded_up}, rounded up)"
    else:
        rounded_up = rounded_down
    if size is not None and rules.rank(pooled) is not None:
        span = _span_name(rules, i)
        span = f"({span})" if "dilations" in rules.desc.fields else span
        must = f"must be {allowed}, by ({_padded_name(rules, whole, i)} - {span}) / Strides[{i}] + 1"
        is_right = rounded_down <= size <= rounded_up
        rules.require(is_right, f"{pooled}.sizes[{i + 2}]", must, size, breaks=False)


def _span_name(rules: Rules, i: int) -> str:
    is_dilated = "dilations" in rules.desc.fields
    return f"(WindowSize[{i}] - 1) * Dilations[{i}] + 1" if is_dilated else f"WindowSize[{i}]"


def _padded_name(rules: Rules, whole: str, i: int) -> str:
    return f"{rules.location(whole)}.Sizes[{i + 2}] + StartPadding[{i}] + EndPadding[{i}]"


class MaxPooling(Pooling, type=OperatorType.MAX_POOLING, since="1_0"):
    """Maximum of the elements inside a window that slides over the spatial dimensions of the input."""

    support = levels(
        at("5_0", (4, 5), ALL_BUT_FLOAT64),
        at("3_0", (4, 5), FLOATS_AND_BYTES),
        at("1_0", (4, 5), FLOATS),
    )

    def pooled(self, window: Window, element: Expression) -> Expression:
        """The first NaN, else the first largest element; the lowest value of the type if there is none."""
        return extreme_of("gt", window.taps, element, window.where)


class MaxPooling1(MaxPooling, type=OperatorType.MAX_POOLING1, since="2_0"):
    """Max pooling that can also return where each maximum was found.

    ``output_indices_tensor`` holds flat positions in the input, counted as if it were packed, batch and channel
    included; among equal maxima the first one of the window in row-major order.
    """

    output_indices_tensor: Value[TensorDesc | None] = tensor_output(default=None, after="output_tensor")

    support = levels(
        at("5_0", (4, 5), ALL_BUT_FLOAT64, output_indices_tensor=UINT32_OR_64),
        at("3_0", (4, 5), FLOATS_AND_BYTES, output_indices_tensor=UINT32_ONLY),
        at("2_0", (4, 5), FLOATS, output_indices_tensor=UINT32_ONLY),
    )

    def define(self) -> Definition:
        """As MAX_POOLING; with indices one fold of both."""
        if self.output_indices_tensor is None:
            plain = super().define()
            return Definition(plain.inputs, (*plain.outputs, None), plain.statements)
        source = tensor("InputTensor", self.input_tensor, "input")
        output = tensor("OutputTensor", self.output_tensor, "output")
        positions = tensor("OutputIndicesTensor", self.output_indices_tensor, "output")
        axes = grid(output.sizes)
        window = self.window(axes)
        value, position = self._largest_and_position(window, widen(load(source, window.coordinates)))
        stores = (
            Store(output, indices(axes), cast(value, output.type)),
            Store(positions, indices(axes), cast(position, positions.type)),
        )
        return Definition((source,), (output, positions), (Compute(axes, stores),))

    def _largest_and_position(self, window: Window, element: Expression) -> tuple[Expression, Expression]:
        """The value and its flat position, computed modulo 2**32 (no tensor has more elements).

        The fold carries the step from the start of the window: it is the same for all windows, and begins as that of
        the first element inside the input, which stands as long as no element is above the lowest value.
        """
        start = (lowest(element.type), cast(window.first_step, U32))
        value, step = extreme_with_position("gt", window.taps, element, cast(window.step, U32), start, window.where)
        position = cast(window.start(self.input_tensor.sizes[1]), U32) + step
        return value, select(window.has_elements, position, NO_POSITION)

    def check(self, rules: Rules) -> None:
        """Indices have the sizes of the output."""
        super().check(rules)
        rules.same_rank("output_tensor", "output_indices_tensor")
        rules.same_sizes("output_tensor", "output_indices_tensor")


class MaxPooling2(MaxPooling1, type=OperatorType.MAX_POOLING2, since="2_1"):
    """Maximum over a dilated sliding window of the spatial dimensions, optionally with the positions of the maxima."""

    dilations: Integers = uint_array(count="dimension_count", after="end_padding")

    support = levels(
        at("5_0", (4, 5), ALL_BUT_FLOAT64, output_indices_tensor=UINT32_OR_64),
        at("3_0", (4, 5), FLOATS_AND_BYTES, output_indices_tensor=UINT32_ONLY),
        at("2_1", (4, 5), FLOATS, output_indices_tensor=UINT32_ONLY),
    )


class AveragePooling(Pooling, type=OperatorType.AVERAGE_POOLING, since="1_0"):
    """Mean of the elements inside a window that slides over the spatial dimensions of the input.

    ``include_padding``: divide by the size of the window instead of the number of its elements inside the input.
    """

    include_padding: Value[bool] = boolean()

    support = levels(at("1_0", (4, 5), FLOATS))

    def pooled(self, window: Window, element: Expression) -> Expression:
        """The sum over the window divided by its size, or by the number of elements inside the input."""
        size = constant(math.prod(self.window_size), element.type)
        divisor = size if self.include_padding else cast(window.element_count, element.type)
        return sum_of(window.taps, element, window.where) / divisor


class AveragePooling1(AveragePooling, type=OperatorType.AVERAGE_POOLING1, since="6_2"):
    """Average pooling with a dilated window."""

    dilations: Integers = uint_array(count="dimension_count", after="end_padding")

    support = levels(at("6_2", (4, 5), FLOATS))


class LpPooling(Pooling, type=OperatorType.LP_POOLING, since="1_0"):
    """Lp norm of the elements inside a window that slides over the spatial dimensions of the input."""

    p: Integer = uint()

    support = levels(at("1_0", (4, 5), FLOATS))

    def pooled(self, window: Window, element: Expression) -> Expression:
        """The P-th root of the sum of the magnitudes' P-th powers."""
        powers = element * element if self.p == 2 else power_integer(unary("abs", element), self.p)
        return root(sum_of(window.taps, powers, window.where), self.p)

    def check(self, rules: Rules) -> None:
        """A norm exists for P >= 1."""
        super().check(rules)
        rules.at_least("p", 1)


class LpPooling1(LpPooling, type=OperatorType.LP_POOLING1, since="6_2"):
    """Lp pooling with a dilated window."""

    dilations: Integers = uint_array(count="dimension_count", after="end_padding")

    support = levels(at("6_2", (4, 5), FLOATS))


class MaxUnpooling(Operator, type=OperatorType.MAX_UNPOOLING, since="2_0"):
    """Writes each input value at its recorded position in an otherwise zero output (inverse of max pooling).

    An index counts as in MAX_POOLING1, in the output; values whose index is outside the output are dropped.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    indices_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()

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

    def define(self) -> Definition:
        """Zeros, then a scatter at the logical packed positions that the indices give."""
        source = tensor("InputTensor", self.input_tensor, "input")
        places = tensor("IndicesTensor", self.indices_tensor, "input")
        target = self._target()
        axes = grid(source.sizes)
        position = load(places, indices(axes))
        place = [cast(position, I64) // stride for stride in packed_strides(target.sizes)]
        wrapped = (i % size for i, size in zip(place[1:], target.sizes[1:], strict=True))
        written = Store(target, (place[0], *wrapped), load(source, indices(axes)))
        return Definition(
            (source, places),
            (target,),
            (
                every_element(target, lambda _: constant(0, target.type)),
                Scatter(axes, position < self.output_tensor.element_count, written),
            ),
        )

    def _target(self) -> Tensor:
        """The output; a packed one in one dimension, where a position needs no taking apart."""
        target = tensor("OutputTensor", self.output_tensor, "output")
        if not self.output_tensor.is_packed:
            return target
        return Tensor(target.name, target.type, (self.output_tensor.element_count,), (1,), "output")
