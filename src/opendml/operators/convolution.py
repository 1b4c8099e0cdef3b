"""CONVOLUTION: forward and transposed, grouped, dilated, over 1 to 3 spatial dimensions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

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
from opendml.expression.folds import sum_of_products
from opendml.expression.ir import (
    Expression,
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
    temporary,
)
from opendml.expression.statements import Compute, Definition, Statement, Store
from opendml.operators.activation import FUSABLE_WITH_CLIP
from opendml.operators.activation_functions import activate
from opendml.operators.definition import computation_type, optional_tensor, packed_copy, tensor, widen

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
        builder = _Builder(
            self,
            tensor("InputTensor", self.input_tensor, "input"),
            tensor("FilterTensor", self.filter_tensor, "input"),
            optional_tensor("BiasTensor", self.bias_tensor, "input"),
            tensor("OutputTensor", self.output_tensor, "output"),
        )
        (_forward if self.direction == ConvolutionDirection.FORWARD else _backward)(builder)
        return builder.definition()

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
_WindowElement = Callable[[_Place, _Place, _Place], Expression]

_FilterElement = Callable[[Expression, Expression, Expression, _Place], Expression]
_Region = tuple[int, int, int]
"""Output channels of a group: the first one, blocks, and the width of a block."""

PANEL: Final = 64
"""Output channels of a panel, the copied form of the filter: whole registers on every processor."""

MOST_GUARDED_TAPS: Final = 49
"""Taps up to which the sums of a depthwise convolution test for the padding themselves, without a padded copy."""

NARROWEST_PANEL: Final = 16
"""Output channels of a group from which on panels pay off."""

WINDOWS_WORTH_PANELS: Final = 128
"""Windows (outputs of one channel in the whole batch) from which on they pay off if they are made every time."""

MOST_PHASES: Final = 64
"""Phases of a transposed convolution (the product of its strides) up to which each has a statement of its own."""

PADDED_GROWTH: Final = 16
"""How many times the elements of input and output a zero-padded copy may have; beyond it loads are guarded."""

UNPADDED_ELEMENTS: Final = 1 << 16
"""Elements that a zero-padded copy may have in any case."""

WIDE_ROW: Final = 12
"""Elements of an output row from which on as many as fill the registers can be computed together."""

WINDOWS_WITHOUT_COLUMNS: Final = 192
"""Windows from which on narrow rows do not matter: copies of the filter are shared by enough of them."""

OUTPUTS_WORTH_COLUMNS: Final = 64
"""Output channels of a group from which on a copy of every window pays off."""


def is_in_proportion(sizes: Sequence[int], source: Tensor, output: Tensor) -> bool:
    """Whether a copy of ``source`` with these sizes is in proportion to it and the output."""
    room = PADDED_GROWTH * (math.prod(source.sizes) + math.prod(output.sizes)) + UNPADDED_ELEMENTS
    return math.prod(sizes) <= room


@dataclass(slots=True, eq=False)
class _Builder:
    """The tensors and statements of one convolution, and what is the same in all its sums."""

    desc: Convolution
    source: Tensor
    filter: Tensor
    bias: Tensor | None
    output: Tensor
    statements: list[Statement] = field(default_factory=list)
    temporaries: list[Tensor] = field(default_factory=list)

    @property
    def spatial(self) -> int:
        """The number of spatial dimensions."""
        return self.desc.dimension_count

    def definition(self) -> Definition:
        """The whole, after the statements have been added."""
        return Definition(
            (self.source, self.filter, self.bias), (self.output,), tuple(self.statements), tuple(self.temporaries)
        )

    def widened(self, tensor: Tensor) -> Tensor:
        """The tensor in its computation type: a copy for float16, so that the sums need not convert."""
        if tensor.type is computation_type(tensor.type):
            return tensor
        return self.copied(*packed_copy(tensor))

    def copied(self, copy: Tensor, statement: Statement) -> Tensor:
        """A temporary and the statement that writes it, added."""
        self.temporaries.append(copy)
        self.statements.append(statement)
        return copy

    def reader(
        self, lowest: Sequence[int], highest: Sequence[int], *, is_guarded: bool = False
    ) -> Callable[[_Place], Expression]:
        """How the sums read the input: by coordinates between ``lowest`` and ``highest``, zero outside the sizes.

        The zeros are in a padded copy, so that the sums run without tests, unless that would be out of proportion or
        ``is_guarded`` says that tests cost less.
        """
        source = self.source
        outer, inner = source.sizes[:2], source.sizes[2:]
        if all(low >= 0 for low in lowest) and all(h < n for h, n in zip(highest, inner, strict=True)):
            plain = self.widened(source)
            return lambda place: load(plain, place)
        before = [max(0, -low) for low in lowest]
        sizes = [*outer, *(high + 1 + b for high, b in zip(highest, before, strict=True))]
        if is_guarded or not self.has_room_for(sizes):
            return lambda place: _zero_outside(source, place)
        padded = temporary("padded_input", computation_type(source.type), sizes)
        axes = grid(sizes)
        place = (*indices(axes[:2]), *(index(axis) - b for axis, b in zip(axes[2:], before, strict=True)))
        self.copied(padded, Compute(axes, (Store(padded, indices(axes), _zero_outside(source, place)),)))
        return lambda place: load(padded, (*place[:2], *(p + b for p, b in zip(place[2:], before, strict=True))))

    def has_room_for(self, sizes: Sequence[int]) -> bool:
        """Whether a copy of the input with these sizes is in proportion to input and output."""
        return is_in_proportion(sizes, self.source, self.output)

    def filter_tap(self, tap: Expression, dimension: int) -> Expression:
        """The place of a tap in the filter, which the mode CONVOLUTION turns round."""
        size = self.filter.sizes[2 + dimension]
        return (size - 1) - tap if self.desc.mode == ConvolutionMode.CONVOLUTION else tap

    def finished(self, total: Expression, channel: Expression) -> Expression:
        """What is stored: the sum, the bias and the activation, rounded once."""
        if self.bias is not None:
            total = total + widen(load(self.bias, (0, channel, *([0] * self.spatial))))
        return cast(activate(self.desc.fused_activation, total), self.output.type)


def _forward(builder: _Builder) -> None:
    """One sum over input channels of the group and filter taps for each output, zeros in the output padding."""
    desc, output = builder.desc, builder.output
    counted = [output.sizes[2 + i] - desc.output_padding[i] for i in range(builder.spatial)]
    columns = _columns(builder, counted)
    read = columns or _sliding(builder, counted)
    if columns is None and _is_worth_panels(builder, counted):
        parts = list(_filter_panels(builder))
    else:
        parts = [((0, 1, desc.filter_tensor.sizes[0] // desc.group_count), _plain_filter(builder))]
    for region, weight in parts:
        builder.statements.append(_forward_statement(builder, counted, read, region, weight))
    builder.statements += _output_padding(output, counted)


def _forward_statement(
    builder: _Builder, counted: Sequence[int], read: _WindowElement, region: _Region, weight: _FilterElement
) -> Statement:
    """The sums of some output channels of every group."""
    desc, output = builder.desc, builder.output
    start, blocks, width = region
    groups, (filters, group_inputs, *filter_taps) = desc.group_count, desc.filter_tensor.sizes
    batch, group, block, channel, *place = axes = grid([output.sizes[0], groups, blocks, width, *counted], "ngboxyz")
    inner, *taps = folded = grid([group_inputs, *filter_taps], "ctuv")
    output_channel = index(group) * (filters // groups) + (index(block) * width + index(channel) + start)
    input_channel = index(group) * group_inputs + index(inner)
    left = read((index(batch), input_channel), indices(place), indices(taps))
    total = sum_of_products(folded, left, weight(index(group), index(block), index(channel), indices(folded)))
    target = (index(batch), output_channel, *indices(place))
    return Compute(axes, (Store(output, target, builder.finished(total, output_channel)),))


def _plain_filter(builder: _Builder) -> _FilterElement:
    """The filter as it is, but in its computation type."""
    weights = builder.widened(builder.filter)
    group_outputs = builder.filter.sizes[0] // builder.desc.group_count

    def element(group: Expression, block: Expression, channel: Expression, folded: _Place) -> Expression:
        taps = (builder.filter_tap(tap, i) for i, tap in enumerate(folded[1:]))
        return load(weights, (group * group_outputs + channel, folded[0], *taps))

    return element


def _filter_panels(builder: _Builder) -> Iterator[tuple[_Region, _FilterElement]]:
    """Copies of the filter in which ``PANEL`` output channels lie next to each other, and how to read them."""
    filters, *folded_sizes = builder.filter.sizes
    groups = builder.desc.group_count
    whole, rest = divmod(filters // groups, PANEL)
    for region in ((0, whole, PANEL), (whole * PANEL, 1, rest)):
        start, blocks, width = region
        if not blocks * width:
            continue
        sizes = [groups, blocks, *folded_sizes, width]
        panels = temporary("filter_panels", computation_type(builder.filter.type), sizes)
        group, block, *folded, channel = axes = indices(grid_axes := grid(sizes))
        taps = (builder.filter_tap(tap, i) for i, tap in enumerate(folded[1:]))
        output_channel = group * (filters // groups) + (block * width + channel + start)
        element = widen(load(builder.filter, (output_channel, folded[0], *taps)))
        builder.copied(panels, Compute(grid_axes, (Store(panels, axes, element),)))
        yield region, _panel_element(panels)


def _panel_element(panels: Tensor) -> _FilterElement:
    return lambda group, block, channel, folded: load(panels, (group, block, *folded, channel))


def _is_worth_panels(builder: _Builder, counted: Sequence[int]) -> bool:
    """Whether copying the filter into panels costs less than it saves."""
    desc, taps = builder.desc, builder.filter.sizes[2:]
    is_wide = desc.filter_tensor.sizes[0] // desc.group_count >= NARROWEST_PANEL and counted[-1] >= WIDE_ROW
    if not is_wide or max(taps) == 1 or 0 in builder.filter.strides:
        return False
    windows = builder.output.sizes[0] * math.prod(counted)
    return desc.filter_tensor.is_owned_by_dml or windows >= WINDOWS_WORTH_PANELS


def _sliding(builder: _Builder, counted: Sequence[int]) -> _WindowElement:
    """The input as FORWARD reads it: for an output place and the taps."""
    desc, taps = builder.desc, builder.filter.sizes[2:]
    ways = list(zip(desc.strides, desc.dilations, desc.start_padding, strict=True))
    read = builder.reader(
        [-padding for padding in desc.start_padding],
        [(n - 1) * s + (k - 1) * d - p for n, k, (s, d, p) in zip(counted, taps, ways, strict=True)],
        is_guarded=_is_worth_guards(builder, counted),
    )
    return lambda outer, place, tap: read((*outer, *_positions(desc, place, tap)))


def _is_worth_guards(builder: _Builder, counted: Sequence[int]) -> bool:
    """Whether depthwise sums run faster where they test for the padding themselves than from a padded copy.

    That is so for a few taps over contiguous rows: the tests are decided at the ends of rows and planes, as the code
    is written, if the padding is not wider than the window.
    """
    desc, source, (filters, group_inputs, *taps) = builder.desc, builder.source, builder.filter.sizes
    is_depthwise = filters == desc.group_count and group_inputs == 1
    if not is_depthwise or math.prod(taps) > MOST_GUARDED_TAPS or source.strides[-1] != 1:
        return False
    for i, (size, count, tap) in enumerate(zip(source.sizes[2:], counted, taps, strict=True)):
        reach, start = (tap - 1) * desc.dilations[i], desc.start_padding[i]
        end = (count - 1) * desc.strides[i] + reach - start - (size - 1)
        if max(start, end) > (reach if i >= builder.spatial - 2 else 0):
            return False
    return True


def _columns(builder: _Builder, counted: Sequence[int]) -> _WindowElement | None:
    """The same for outputs of narrow rows: a copy of every window's elements, tap by tap, in which all spatial
    dimensions are contiguous, so that the sums run over whole planes in long vectors."""
    desc, source = builder.desc, builder.source
    taps = builder.filter.sizes[2:]
    # The planes of several images do not join into one; together with panels they would leave the cache.
    narrow = source.sizes[0] == 1 and 1 < counted[-1] < WIDE_ROW and math.prod(counted) < WINDOWS_WITHOUT_COLUMNS
    narrow = narrow or (max(taps) == 1 < max(desc.strides))
    is_shared = builder.filter.sizes[0] // desc.group_count >= OUTPUTS_WORTH_COLUMNS
    plain = max(*taps, *desc.strides) == 1 and not any(desc.start_padding) and tuple(counted) == source.sizes[2:]
    sizes = [*source.sizes[:2], *taps, *counted]
    if not narrow or not is_shared or plain or not builder.has_room_for(sizes):
        return None
    columns = temporary("columns", computation_type(source.type), sizes)
    axes = indices(grid_axes := grid(sizes))
    tap, place = axes[2 : 2 + len(taps)], axes[2 + len(taps) :]
    element = _zero_outside(source, (*axes[:2], *_positions(desc, place, tap)))
    builder.copied(columns, Compute(grid_axes, (Store(columns, axes, element),)))
    return lambda outer, place, tap: load(columns, (*outer, *tap, *place))


def _positions(desc: Convolution, place: _Place, tap: _Place) -> list[Expression]:
    """Where in the input a tap of an output's window is."""
    ways = zip(place, tap, desc.strides, desc.dilations, desc.start_padding, strict=True)
    return [o * stride + t * dilation - padding for o, t, stride, dilation, padding in ways]


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


class _Phase(NamedTuple):
    """Every ``stride``-th element of an output dimension of a transposed convolution, from ``start`` on.

    The filter taps that reach them are ``tap + step * j``; with the tap of number j the element of number q reads the
    input at ``q + place - back * j``.
    """

    start: int
    length: int
    tap: int
    step: int
    tap_count: int
    place: int
    back: int


def _phases(size: int, taps: int, stride: int, dilation: int, padding: int) -> Iterator[_Phase]:
    """The phases of a dimension of ``size``: those elements whose sums have the same form."""
    common = math.gcd(stride, dilation)
    step = stride // common
    for start in range(min(stride, size)):
        length = -(-(size - start) // stride)
        shifted = start + padding
        if shifted % common:
            yield _Phase(start, length, 0, 1, 0, 0, 0)
            continue
        # The least tap with tap * dilation = shifted (mod stride).
        tap = shifted // common * pow(dilation // common, -1, step) % step
        tap_count = max(0, -(-(taps - tap) // step))
        yield _Phase(start, length, tap, step, tap_count, (shifted - tap * dilation) // stride, dilation // common)


def _backward(builder: _Builder) -> None:
    """In gather form: each output sums the inputs that the scatter form would add to it, taps in increasing order."""
    desc, spatial = builder.desc, range(builder.spatial)
    if math.prod(desc.strides) > MOST_PHASES:
        _backward_guarded(builder)
        return
    phases = [
        list(
            _phases(
                builder.output.sizes[2 + i],
                desc.filter_tensor.sizes[2 + i],
                desc.strides[i],
                desc.dilations[i],
                desc.start_padding[i],
            )
        )
        for i in spatial
    ]
    used = [[p for p in own if p.tap_count] for own in phases]
    lowest = [min((p.place - p.back * (p.tap_count - 1) for p in own), default=0) for own in used]
    highest = [max((p.place + p.length - 1 for p in own), default=0) for own in used]
    read = builder.reader(lowest, highest)
    weights = builder.widened(builder.filter)
    for combination in itertools.product(*phases):
        builder.statements.append(_phase_statement(builder, read, weights, combination))


def _phase_statement(
    builder: _Builder, read: Callable[[_Place], Expression], weights: Tensor, phases: Sequence[_Phase]
) -> Statement:
    desc, output = builder.desc, builder.output
    channels, group_outputs = desc.filter_tensor.sizes[:2]
    group_inputs = channels // desc.group_count
    sizes = [output.sizes[0], desc.group_count, group_outputs, *(p.length for p in phases)]
    batch, group, channel, *place = axes = grid(sizes, "ngoxyz")
    inner, *taps = folded = grid([group_inputs, *(p.tap_count for p in phases)], "ctuv")
    output_channel = index(group) * group_outputs + index(channel)
    input_channel = index(group) * group_inputs + index(inner)
    if all(p.tap_count for p in phases):
        position = [index(q) + p.place - index(j) * p.back for q, j, p in zip(place, taps, phases, strict=True)]
        tap = [
            builder.filter_tap(index(j) * p.step + p.tap, i) for i, (j, p) in enumerate(zip(taps, phases, strict=True))
        ]
        filter_place = (input_channel, index(channel), *tap)
        total = sum_of_products(folded, read((index(batch), input_channel, *position)), load(weights, filter_place))
    else:
        total = constant(0, weights.type)
    target = [index(q) * stride + p.start for q, stride, p in zip(place, desc.strides, phases, strict=True)]
    value = builder.finished(total, output_channel)
    return Compute(axes, (Store(output, (index(batch), output_channel, *target), value),))


def _backward_guarded(builder: _Builder) -> None:
    """The same sums in the same order in one statement, with a test whether a tap meets an input: for large strides."""
    desc, output, spatial = builder.desc, builder.output, range(builder.spatial)
    channels, group_outputs, *filter_sizes = desc.filter_tensor.sizes
    group_inputs = channels // desc.group_count
    sizes = [output.sizes[0], desc.group_count, group_outputs, *output.sizes[2:]]
    batch, group, channel, *place = axes = grid(sizes, "ngoxyz")
    inner, *taps = folded = grid([group_inputs, *filter_sizes], "ctuv")
    output_channel = index(group) * group_outputs + index(channel)
    input_channel = index(group) * group_inputs + index(inner)
    # Division truncates: a multiple of the stride is added that makes every dividend non-negative.
    reaches = [(filter_sizes[i] - 1) * desc.dilations[i] for i in spatial]
    shifts = [-(-max(0, reaches[i] - desc.start_padding[i]) // desc.strides[i]) for i in spatial]
    dividends = [
        index(place[i]) - index(taps[i]) * desc.dilations[i] + (desc.start_padding[i] + shifts[i] * desc.strides[i])
        for i in spatial
    ]
    where = both((dividends[i] % desc.strides[i]).equals(0) for i in spatial)
    position = [dividends[i] // desc.strides[i] - shifts[i] for i in spatial]
    left = _zero_outside(builder.source, (index(batch), input_channel, *position))
    tap = [builder.filter_tap(index(taps[i]), i) for i in spatial]
    right = widen(load(builder.filter, (input_channel, index(channel), *tap)))
    total = sum_of_products(folded, left, right, where)
    target = (index(batch), output_channel, *indices(place))
    builder.statements.append(Compute(axes, (Store(output, target, builder.finished(total, output_channel)),)))


def _zero_outside(source: Tensor, place: _Place) -> Expression:
    """The element of the input in its computation type, 0 in the padding."""
    inside = both(in_range(p, size) for p, size in zip(place[2:], source.sizes[2:], strict=True))
    return select(inside, widen(load(source, place)), 0)
