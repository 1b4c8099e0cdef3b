"""UNFOLD and FOLD: images as columns of their blocks (im2col), and sums of such columns as images (col2im).

A block is what a window covers at one of its places. Both are stated as gathers: every element of the columns is one
element of the image; every element of the image sums over the places of the window at which it lies in a block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from opendml.description.data_types import FLOATS
from opendml.description.descriptors import Operator, at, count_of, levels, tensor_input, tensor_output, uint_array
from opendml.description.enums import OperatorType
from opendml.expression.element_types import BOOL, I64
from opendml.expression.folds import sum_of_terms
from opendml.expression.ir import (
    Axis,
    Expression,
    as_expression,
    both,
    cast,
    constant,
    grid,
    index,
    indices,
    load,
    select,
)
from opendml.expression.positions import row_major
from opendml.expression.statements import Compute, Definition, Store
from opendml.expression.windows import sliding_window
from opendml.operators.definition import tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import Count, Integers, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc

MOST_STEPS: Final = 1 << 60
"""Product of stride and dilation up to which 64-bit integers tell which blocks an element is in; where it is larger,
there are not many blocks."""


class _SlidingBlocks(Operator):
    """What both share: blocks of an image {N, C, spatial...}, the columns {N, C * product(window_sizes), blocks}.

    Along spatial dimension d element k of block b is element ``b * strides[d] + k * dilations[d] - start_padding[d]``.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()

    # Both have these, with another rank behind the count.
    dimension_count: int
    window_sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]

    support = levels(at("6_4", (3, 8), FLOATS))

    def block_counts(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """How many blocks there are along each dimension of an image."""
        fields = (self.window_sizes, self.strides, self.dilations, self.start_padding, self.end_padding)
        return tuple(
            (size + start + end - dilation * (taps - 1) - 1) // stride + 1
            for size, taps, stride, dilation, start, end in zip(sizes[2:], *fields, strict=True)
        )

    def check_blocks(self, rules: Rules, image: str, columns: str) -> None:
        """The columns have one row for each element of a block and channel, and one element in it for each block."""
        rules.same_data_type("input_tensor", "output_tensor")
        for name in ("window_sizes", "strides", "dilations"):
            rules.each_at_least(name, 1)
        rank = rules.rank(columns)
        if rank is not None:
            must = "must be 3: {N, C * product(WindowSizes), blocks}"
            rules.require(rank == 3, f"{columns}.dimension_count", must, rank)
        name = rules.location(image)
        rules.size_is(columns, 0, rules.size(image, 0), f"{name}.Sizes[0]")
        self._check_rows(rules, image, columns)
        self._check_block_count(rules, image, columns)

    def _check_rows(self, rules: Rules, image: str, columns: str) -> None:
        channels, rank = rules.size(image, 1), rules.rank(image)
        taps = [tap for tap in rules.elements("window_sizes") or () if tap is not None]
        if channels is not None and rank is not None and len(taps) == rank - 2:
            source = f"{rules.location(image)}.Sizes[1] * product(WindowSizes)"
            rules.size_is(columns, 1, channels * math.prod(taps), source)

    def _check_block_count(self, rules: Rules, image: str, columns: str) -> None:
        """Every window fits into the padded image; as many places as there are give the blocks."""
        name, ways = rules.location(image), dict[int, int]()
        window = (image, "start_padding", "end_padding", "window_sizes", "dilations")
        for i, (size, start, end, taps, dilation) in rules.along(*window, first=2):
            span, padded = dilation * (taps - 1) + 1, size + start + end
            must = (
                f"must fit into the padded image: Dilations[{i}] * (WindowSizes[{i}] - 1) + 1 <= "
                f"{name}.Sizes[{i + 2}] + StartPadding[{i}] + EndPadding[{i}] = {padded}"
            )
            if rules.require(span <= padded, f"window_sizes[{i}]", must, span, breaks=False):
                ways[i] = padded - span
        counts = [ways[i] // stride + 1 for i, (stride,) in rules.along("strides") if i in ways]
        if len(counts) + 2 == rules.rank(image):
            length = f"{name}.Sizes[i + 2] + StartPadding[i] + EndPadding[i]"
            why = f"by ({length} - Dilations[i] * (WindowSizes[i] - 1) - 1) / Strides[i] + 1 along each dimension i"
            rules.size_is(columns, 2, math.prod(counts), f"{' * '.join(map(str, counts))} blocks", why)


class Unfold(_SlidingBlocks, type=OperatorType.UNFOLD, since="6_4"):
    """Copies the blocks that a sliding window covers to the columns of a matrix (im2col).

    ``output[n, c * W + k, b]`` is element k of block b of ``input[n, c]``, both counted in row-major order, W being the
    product of ``window_sizes``; 0 in the padding.
    """

    dimension_count: Count = count_of("window_sizes", default=None, rank_of=("input_tensor",), less=2)
    window_sizes: Integers = uint_array(count="dimension_count")
    strides: Integers = uint_array(count="dimension_count")
    dilations: Integers = uint_array(count="dimension_count")
    start_padding: Integers = uint_array(count="dimension_count")
    end_padding: Integers = uint_array(count="dimension_count")

    def check(self, rules: Rules) -> None:
        """The output has the columns of the input."""
        self.check_blocks(rules, "input_tensor", "output_tensor")

    def define(self) -> Definition:
        """One copy, of what lies inside the image."""
        source = tensor("InputTensor", self.input_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        counts = self.block_counts(source.sizes)
        plane, blocks = grid(source.sizes[:2], "nc"), [Axis(f"b{i}", count) for i, count in enumerate(counts)]
        fields = (self.window_sizes, self.strides, self.dilations, self.start_padding)
        window = sliding_window((*plane, *blocks), source.sizes, *fields)
        value = load(source, window.coordinates)
        if window.where is not None:
            value = select(window.where, value, 0)
        row = row_major((index(plane[1]), *indices(window.taps)), (source.sizes[1], *self.window_sizes))
        place = (index(plane[0]), row, row_major(indices(blocks), counts))
        axes = (*plane, *window.taps, *blocks)
        return Definition((source,), (target,), (Compute(axes, (Store(target, place, value),)),))


class Fold(_SlidingBlocks, type=OperatorType.FOLD, since="6_4"):
    """Adds up the columns of a matrix as the blocks of an image that a sliding window covers (col2im).

    The layout of the columns is that of UNFOLD. Elements that lie in several blocks are the sum of them all, those in
    none 0; what falls into the padding is dropped.
    """

    dimension_count: Count = count_of("window_sizes", default=None, rank_of=("output_tensor",), less=2)
    window_sizes: Integers = uint_array(count="dimension_count")
    strides: Integers = uint_array(count="dimension_count")
    dilations: Integers = uint_array(count="dimension_count")
    start_padding: Integers = uint_array(count="dimension_count")
    end_padding: Integers = uint_array(count="dimension_count")

    def check(self, rules: Rules) -> None:
        """The input has the columns of the output."""
        self.check_blocks(rules, "output_tensor", "input_tensor")

    def define(self) -> Definition:
        """For every element the sum over the elements of the window, in row-major order, that it is in some block."""
        source = tensor("InputTensor", self.input_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        sizes, counts = target.sizes, self.block_counts(target.sizes)
        fields = (counts, self.window_sizes, self.strides, self.dilations, self.start_padding)
        dimensions = [_Dimension(f"p{i}", *values) for i, values in enumerate(zip(sizes[2:], *fields, strict=True))]
        plane, walks = grid(sizes[:2], "nc"), [dimension.walk for dimension in dimensions]

        def term_at(numbers: Sequence[Expression]) -> tuple[Expression, Expression]:
            found = [walk.block(number) for walk, number in zip(walks, numbers, strict=True)]
            row = row_major((index(plane[1]), *(tap for tap, _, _ in found)), (sizes[1], *self.window_sizes))
            column = row_major([block for _, block, _ in found], counts)
            element = widen(load(source, (index(plane[0]), row, column)))
            return element, both(condition for _, _, condition in found)

        axes = (*plane, *(walk.axis for walk in walks))
        value = cast(sum_of_terms([walk.terms for walk in walks], term_at), target.type)
        return Definition((source,), (target,), (Compute(axes, (Store(target, indices(axes), value),)),))


class _Walk(NamedTuple):
    """The elements of one dimension of an image, each of which is in so many blocks at most: ``terms``.

    ``block`` tells of each of them, counted by elements of the window, which element of which block it is, and whether
    it exists.
    """

    axis: Axis
    terms: int
    block: Callable[[Expression], tuple[Expression, Expression, Expression]]


class _Dimension(NamedTuple):
    """One dimension of an image: ``size`` elements under so many ``blocks`` of ``taps`` elements."""

    name: str
    size: int
    blocks: int
    taps: int
    stride: int
    dilation: int
    padding: int

    @property
    def period(self) -> int:
        """The distance of the elements of a window that blocks have at one place of the image."""
        return self.stride // math.gcd(self.stride, self.dilation)

    @property
    def walk(self) -> _Walk:
        """How the elements find their blocks: whichever way asks about the fewest."""
        if self.blocks < -(-self.taps // self.period) or self.stride * self.dilation > MOST_STEPS:
            return self._under_any_block()
        return self._under_neighbours() if self.stride == 1 else self._under_last_blocks()

    def _under_any_block(self) -> _Walk:
        """All blocks are asked, the last one first."""
        axis = Axis(self.name, self.size)

        def block(number: Expression) -> tuple[Expression, Expression, Expression]:
            block = (self.blocks - 1) - number
            distance = index(axis) + self.padding - block * self.stride
            inside = (distance >= 0) & (distance < (self.taps - 1) * self.dilation + 1)
            if self.dilation > 1:
                inside = inside & (distance % self.dilation).equals(0)
            return distance // self.dilation, block, inside

        return _Walk(axis, self.blocks, block)

    def _under_neighbours(self) -> _Walk:
        """A block begins at every element: one for each element of the window."""
        axis = Axis(self.name, self.size)
        lowest, highest = self.padding - (self.taps - 1) * self.dilation, self.size - 1 + self.padding

        def block(tap: Expression) -> tuple[Expression, Expression, Expression]:
            block = index(axis) + self.padding - tap * self.dilation
            return tap, block, self._exists(block, lowest, highest)

        return _Walk(axis, self.taps, block)

    def _under_last_blocks(self) -> _Walk:
        """Which blocks an element is in follows from its place in the padded image, divided by the stride.

        An element ``rest`` behind a multiple of the stride is element k of a block if ``k * dilation - rest`` is a
        multiple of it: for one k of each ``period`` in a row, if for any.
        """
        axis = Axis(self.name, self.size)
        place = index(axis) + self.padding
        whole, rest = place // self.stride, place % self.stride
        divisor, period = math.gcd(self.stride, self.dilation), self.period
        first = (rest // divisor) * pow(self.dilation // divisor, -1, period) % period
        behind = (first * self.dilation - rest) // self.stride if self.dilation > 1 else constant(0, I64)
        is_on_grid = (rest % divisor).equals(0) if divisor > 1 else constant(True, BOOL)
        terms = -(-self.taps // period)
        lowest = self.padding // self.stride - terms * period * self.dilation // self.stride
        highest = (self.size - 1 + self.padding) // self.stride

        def block(number: Expression) -> tuple[Expression, Expression, Expression]:
            tap = first + number * period
            block = whole - behind - number * (self.dilation // divisor)
            is_tap = tap < self.taps if terms * period > self.taps else constant(True, BOOL)
            return tap, block, is_on_grid & is_tap & self._exists(block, lowest, highest)

        return _Walk(axis, terms, block)

    def _exists(self, block: Expression, lowest: int, highest: int) -> Expression:
        """Whether there is a block of that number; only what can fail is asked."""
        exists = as_expression(block >= 0 if lowest < 0 else True, BOOL)
        return exists & (block < self.blocks if highest >= self.blocks else constant(True, BOOL))
