"""SLICE, SLICE1 and SLICE_GRAD: strided windows of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opendml.description.data_types import ALL, FLOATS_AND_16_TO_32_BIT, UP_TO_32_BIT
from opendml.description.descriptors import (
    Operator,
    at,
    count_of,
    int_array,
    levels,
    tensor_input,
    tensor_output,
    uint_array,
)
from opendml.description.enums import OperatorType
from opendml.expression.ir import Expression, Tensor, both, constant, grid, in_range, indices, load, select
from opendml.expression.statements import Compute, Definition, Statement, Store
from opendml.operators.definition import every_element, tensor

if TYPE_CHECKING:
    from opendml.description.field_types import Count, Integers, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class Slice(Operator, type=OperatorType.SLICE, since="1_0"):
    """Copies one strided rectangular subregion of a tensor.

    ``output[o] = input[offsets + strides * o]``, the output has ``sizes``.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    dimension_count: Count = count_of("offsets", default=None, rank_of=("input_tensor", "output_tensor"))
    offsets: Integers = uint_array(count="dimension_count")
    sizes: Integers = uint_array(count="dimension_count")
    strides: Integers = uint_array(count="dimension_count")

    support = levels(
        at("4_1", (1, 8), ALL),
        at("3_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 5), UP_TO_32_BIT),
        at("1_0", (4, 5), FLOATS_AND_16_TO_32_BIT),
    )

    def check(self, rules: Rules) -> None:
        """Every element that is read must exist."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "output_tensor")
        rules.each_at_least("sizes", 1)
        rules.each_at_least("strides", 1)
        rules.sizes_are("output_tensor", rules.elements("sizes") or (), "Sizes[i]")
        for i, (size, offset, count, stride) in rules.along("input_tensor", "offsets", "sizes", "strides"):
            last = offset + (count - 1) * stride
            must = (
                f"must keep the window inside the input: Offsets[{i}] + (Sizes[{i}] - 1) * Strides[{i}]"
                f" < InputTensor.Sizes[{i}] = {size}"
            )
            rules.require(last < size, f"offsets[{i}]", must, last)

    def define(self) -> Definition:
        """One copy: the source coordinate is affine in the output's."""
        source = tensor("InputTensor", self.input_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        return Definition((source,), (target,), (_strided_copy(source, target, self.offsets, self.strides),))


class Slice1(Operator, type=OperatorType.SLICE1, since="2_1"):
    """Copies a strided window of the input; negative strides walk the window backwards.

    ``output[o] = input[start + input_window_strides * o]``, where start is the first element of the window, or the
    last one along dimensions with a negative stride. The output may be smaller than the window allows.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    dimension_count: Count = count_of("input_window_offsets", default=None, rank_of=("input_tensor", "output_tensor"))
    input_window_offsets: Integers = uint_array(count="dimension_count")
    input_window_sizes: Integers = uint_array(count="dimension_count")
    input_window_strides: Integers = int_array(count="dimension_count")

    support = levels(
        at("4_1", (1, 8), ALL),
        at("3_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 5), UP_TO_32_BIT),
    )

    def check(self, rules: Rules) -> None:
        """A window inside the input, and an output that it can fill."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "output_tensor")
        check_window(rules, "input_tensor", "output_tensor")

    def define(self) -> Definition:
        """One copy: the source coordinate is affine in the output's."""
        source = tensor("InputTensor", self.input_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        copy = _strided_copy(source, target, _copy_start(self), self.input_window_strides)
        return Definition((source,), (target,), (copy,))


class SliceGrad(Operator, type=OperatorType.SLICE_GRAD, since="3_0"):
    """Back-propagation gradient of SLICE1: puts the gradients back at the sliced positions, zeros elsewhere."""

    input_gradient_tensor: Value[TensorDesc] = tensor_input()
    output_gradient_tensor: Value[TensorDesc] = tensor_output()
    dimension_count: Count = count_of(
        "input_window_offsets", default=None, rank_of=("output_gradient_tensor", "input_gradient_tensor")
    )
    input_window_offsets: Integers = uint_array(count="dimension_count")
    input_window_sizes: Integers = uint_array(count="dimension_count")
    input_window_strides: Integers = int_array(count="dimension_count")

    support = levels(
        at("4_1", (1, 8), ALL),
        at("3_1", (1, 8), UP_TO_32_BIT),
        at("3_0", (4, 5), UP_TO_32_BIT),
    )

    def check(self, rules: Rules) -> None:
        """The rules of SLICE1 with the tensors' parts exchanged."""
        rules.same_data_type("input_gradient_tensor", "output_gradient_tensor")
        rules.same_rank("input_gradient_tensor", "output_gradient_tensor")
        check_window(rules, "output_gradient_tensor", "input_gradient_tensor")

    def define(self) -> Definition:
        """Zeros, then the gradients at their places; a window without gaps is written in one go."""
        source = tensor("InputGradientTensor", self.input_gradient_tensor, "input")
        target = tensor("OutputGradientTensor", self.output_gradient_tensor, "output")
        has_gaps = any(abs(stride) != 1 for stride in self.input_window_strides)
        statements = self._spread(source, target) if has_gaps else self._embed(source, target)
        return Definition((source,), (target,), statements)

    def _spread(self, source: Tensor, target: Tensor) -> tuple[Statement, ...]:
        axes = grid(source.sizes)
        window = zip(indices(axes), self.input_window_strides, _copy_start(self), strict=True)
        place = tuple(i * stride + start for i, stride, start in window)
        zeros = every_element(target, lambda _: constant(0, target.type))
        return zeros, Compute(axes, (Store(target, place, load(source, indices(axes))),))

    def _embed(self, source: Tensor, target: Tensor) -> tuple[Statement, ...]:
        def value(o: tuple[Expression, ...]) -> Expression:
            window = zip(o, self.input_window_strides, _copy_start(self), strict=True)
            place = [(i - start) * stride for i, stride, start in window]
            inside = both(in_range(i, size) for i, size in zip(place, source.sizes, strict=True))
            return select(inside, load(source, place), 0)

        return (every_element(target, value),)


def check_window(rules: Rules, whole: str, part: str) -> None:
    """The window of SLICE1 lies inside the tensor ``whole``, and ``part`` has no more elements than it selects."""
    rules.each_at_least("input_window_sizes", 1)
    for i, stride in enumerate(rules.elements("input_window_strides") or ()):
        rules.require(stride != 0, f"input_window_strides[{i}]", "must not be 0", stride)
    for i, (size, offset, window_size) in rules.along(whole, "input_window_offsets", "input_window_sizes"):
        must = (
            f"must keep the window inside the tensor: InputWindowOffsets[{i}] + InputWindowSizes[{i}]"
            f" <= {rules.location(whole)}.Sizes[{i}] = {size}"
        )
        rules.require(offset + window_size <= size, f"input_window_offsets[{i}]", must, offset + window_size)
    for i, (size, window_size, stride) in rules.along(part, "input_window_sizes", "input_window_strides"):
        most = 1 + (window_size - 1) // abs(stride)
        must = f"must be from 1 to {most} (1 + (InputWindowSizes[{i}] - 1) / |InputWindowStrides[{i}]|)"
        rules.require(size <= most, f"{part}.sizes[{i}]", must, size, breaks=False)


def _copy_start(desc: Slice1 | SliceGrad) -> tuple[int, ...]:
    """The window's first element, or its last one along dimensions that are walked backwards."""
    window = zip(desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides, strict=True)
    return tuple(offset + (size - 1 if stride < 0 else 0) for offset, size, stride in window)


def _strided_copy(source: Tensor, target: Tensor, start: Sequence[int], strides: Sequence[int]) -> Compute:
    def value(o: tuple[Expression, ...]) -> Expression:
        return load(source, [i * stride + first for i, stride, first in zip(o, strides, start, strict=True)])

    return every_element(target, value)
