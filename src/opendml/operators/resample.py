"""RESAMPLE, its versions and their gradients: any dimensions by scales and offsets.

Along each dimension output o lies at ``x = (o - output offset) / scale - input offset`` of the input, computed in
float32. The places and weights of all outputs of a dimension stand in tables, so interpolation goes dimension by
dimension, those that shrink most first: no tensor in between is larger than input and output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from opendml.description.data_types import FLOATS, FLOATS_AND_BYTES
from opendml.description.descriptors import (
    Operator,
    at,
    boolean,
    count_of,
    enumeration,
    float_array,
    levels,
    tensor_input,
    tensor_output,
)
from opendml.description.enums import AxisDirection, InterpolationMode, OperatorType
from opendml.expression.element_types import F32, F64, I64, U32, ElementType
from opendml.expression.folds import sum_of
from opendml.expression.ir import (
    Axis,
    Expression,
    Tensor,
    binary,
    cast,
    clamp_index,
    constant,
    grid,
    index,
    indices,
    load,
    select,
    temporary,
    unary,
)
from opendml.expression.statements import Compute, Definition, Statement, Store
from opendml.operators.definition import tensor

_Numbers = npt.NDArray[np.int64]

if TYPE_CHECKING:
    from opendml.description.field_types import Count, Member, Numbers, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc

TAME_SIZE: Final = 1 << 20
"""Sizes, scales and offsets up to which it is found out which outputs read an element."""

MOST_SPARE: Final = 2
"""How many times as many outputs all elements may be summed over as the inner ones need."""

WIDEST_FILTER: Final = 2.0**60
"""Elements that a stretched filter reaches at most; no input is large enough to tell more."""


class _Dimension(NamedTuple):
    """One dimension: ``outputs`` elements from ``size`` ones."""

    number: int
    size: int
    outputs: int
    scale: float
    input_offset: float
    output_offset: float

    @property
    def is_same(self) -> bool:
        """Whether output o lies at input o, and that exists."""
        return self.scale == 1 and self.input_offset == -self.output_offset and self.outputs <= self.size

    @property
    def is_decreasing(self) -> bool:
        """Whether later outputs lie at earlier inputs."""
        return math.copysign(1, self.scale) < 0

    @property
    def before(self) -> int:
        """The way to the neighbour of an element that lies at earlier outputs."""
        return 1 if self.is_decreasing else -1

    @property
    def reach(self) -> float:
        """How far a linear filter reaches that is stretched for shrinking outputs."""
        return min(1 / self.scale, WIDEST_FILTER) if 0 < self.scale < 1 else 1.0

    def place(self, output: Expression) -> Expression:
        """Where an output lies in the input, in float32."""
        x = (cast(output, F32) - self.output_offset) / constant(self.scale, F32)
        return x - self.input_offset

    def inside(self, place: Expression) -> Expression:
        """A place moved into the input; 0 for NaN."""
        last = constant(self.size - 1, F32)
        return select(place > 0, select(place < last, place, last), 0)

    def number_at(self, place: Expression) -> Expression:
        """The number of the element at a whole place, or of the nearest one; 0 for NaN."""
        return clamp_index(cast(place, I64), self.size)


class _Table(NamedTuple):
    """What the outputs of a dimension read: the number of an element (``U32``), and the weight of the next one, or None
    if that is not read."""

    first: Tensor
    weight: Tensor | None


class _Resample(Operator):
    """What the versions of RESAMPLE and their gradients share."""

    # Every version has these.
    interpolation_mode: InterpolationMode
    scales: tuple[float, ...]

    @property
    def offsets(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Of input and output: those given, or those of pixels' centres."""
        offsets = [getattr(self, f"{side}_pixel_offsets", None) for side in ("input", "output")]
        count = len(self.scales)
        centres = (0.5,) * count, (-0.5,) * count
        return centres if offsets[0] is None or offsets[1] is None else (offsets[0], offsets[1])

    def rounded(self, place: Expression) -> Expression:
        """The whole place of the element that stands for one in between: the nearest, halves up, or in a direction."""
        direction = getattr(self, "rounding_direction", None)
        if direction is None:
            return unary("floor", place + 0.5)
        return unary("ceil" if direction == AxisDirection.INCREASING else "floor", place)

    def check_resampled(self, rules: Rules, source: str, target: str) -> None:
        """One data type and rank; any sizes."""
        rules.same_data_type(source, target)
        rules.same_rank(source, target)


class _Builder:
    """The statements of a resampling from tensors of ``sizes`` to those of ``outputs``, dimension by dimension."""

    def __init__(self, desc: _Resample, sizes: Sequence[int], outputs: Sequence[int]) -> None:
        self.desc = desc
        self.sizes = sizes
        self.dimensions = [
            _Dimension(d, *values)
            for d, values in enumerate(zip(sizes, outputs, desc.scales, *desc.offsets, strict=True))
        ]
        self.statements: list[Statement] = []
        self.temporaries: list[Tensor] = []

    def temporary(self, name: str, type: ElementType, sizes: Sequence[int]) -> Tensor:
        """A temporary of the definition."""
        made = temporary(name, type, sizes)
        self.temporaries.append(made)
        return made

    def tables(self, dimension: _Dimension, is_linear: bool) -> _Table:
        """The tables of a dimension, and the statement that computes them."""
        axes = grid([dimension.outputs])
        place = dimension.place(index(axes[0]))
        first = self.temporary(f"first{dimension.number}", U32, [dimension.outputs])
        if not is_linear:
            number = dimension.number_at(self.desc.rounded(place))
            self.statements.append(Compute(axes, (Store(first, indices(axes), cast(number, U32)),)))
            return _Table(first, None)
        weight = self.temporary(f"weight{dimension.number}", F32, [dimension.outputs])
        inside = dimension.inside(place)
        below = unary("floor", inside)
        stores = (
            Store(first, indices(axes), cast(dimension.number_at(below), U32)),
            Store(weight, indices(axes), inside - below),
        )
        self.statements.append(Compute(axes, stores))
        return _Table(first, weight)

    def store(self, target: Tensor, value_at: Callable[[tuple[Axis, ...]], Expression]) -> None:
        """The statement that stores a value in every element of ``target``."""
        axes = grid(target.sizes)
        self.statements.append(Compute(axes, (Store(target, indices(axes), _converted(value_at(axes), target.type)),)))

    def step_by_step(
        self,
        source: Tensor,
        target: Tensor,
        dimensions: Sequence[_Dimension],
        step: Callable[[Tensor, Tensor, _Dimension], None],
        counts: Sequence[int],
    ) -> None:
        """``step`` for each dimension, through tensors in float32; ``counts``: the sizes that come out of them."""
        sizes = list(source.sizes)
        for dimension in dimensions:
            sizes[dimension.number] = counts[dimension.number]
            is_last = dimension is dimensions[-1]
            result = target if is_last else self.temporary(f"step{dimension.number}", F32, sizes)
            step(source, result, dimension)
            source = result

    def definition(self, source: Tensor, target: Tensor) -> Definition:
        """What the statements compute."""
        return Definition((source,), (target,), tuple(self.statements), tuple(self.temporaries))


def _converted(value: Expression, type: ElementType) -> Expression:
    """A value in the type of a tensor; bytes take the nearest integer, halves to even."""
    return cast(unary("round_even", value) if value.type is F32 and type.is_integer else value, type)


class _ForwardResample(_Resample):
    """What the versions of RESAMPLE share."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()

    support = levels(
        at("6_2", (1, 4), FLOATS_AND_BYTES),
        at("5_1", (1, 4), FLOATS),
    )

    def check(self, rules: Rules) -> None:
        """One data type and rank; any sizes."""
        self.check_resampled(rules, "input_tensor", "output_tensor")

    def define(self) -> Definition:
        """Nearest neighbours are copied at once; linear interpolation goes dimension by dimension."""
        source = tensor("InputTensor", self.input_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        builder = _Builder(self, source.sizes, target.sizes)
        moving = [d for d in builder.dimensions if not d.is_same and d.size > 1]
        moving.sort(key=lambda d: (d.outputs / d.size, -d.number))
        if self.interpolation_mode == InterpolationMode.NEAREST_NEIGHBOR or not moving:
            self._copy(builder, source, target, moving)
        else:
            self._interpolate(builder, source, target, moving)
        return builder.definition(source, target)

    def _copy(self, builder: _Builder, source: Tensor, target: Tensor, moving: Sequence[_Dimension]) -> None:
        tables = {d.number: builder.tables(d, False) for d in moving}

        def element(axes: tuple[Axis, ...]) -> Expression:
            place = _broadcast(source, axes)
            for number, table in tables.items():
                place[number] = cast(load(table.first, (index(axes[number]),)), I64)
            return load(source, place)

        builder.store(target, element)

    def _interpolate(self, builder: _Builder, source: Tensor, target: Tensor, moving: Sequence[_Dimension]) -> None:
        """Dimensions in which nothing moves are cut to the output's size on the way."""
        is_antialiased = getattr(self, "antialiased", False)

        def step(source: Tensor, result: Tensor, dimension: _Dimension) -> None:
            if is_antialiased and dimension.reach > 1:
                _filtered(builder, source, result, dimension)
            else:
                _mixed(builder, source, result, dimension)

        builder.step_by_step(source, target, moving, step, target.sizes)


def _broadcast(source: Tensor, axes: Sequence[Axis]) -> list[Expression]:
    """The coordinates of a tensor, 0 where it has one element only."""
    return [constant(0, I64) if size == 1 else index(axis) for size, axis in zip(source.sizes, axes, strict=True)]


def _read(source: Tensor, place: Sequence[Expression], dimension: _Dimension, number: Expression) -> Expression:
    """The element of that number along a dimension, in float32."""
    moved = [*place]
    moved[dimension.number] = number
    return cast(load(source, moved), F32)


def _mixed(builder: _Builder, source: Tensor, result: Tensor, dimension: _Dimension) -> None:
    """``(1 - w) * a + w * b`` of neighbours; the first one itself where that is where the output lies."""
    table = builder.tables(dimension, True)
    assert table.weight is not None
    weights = table.weight

    def value(axes: tuple[Axis, ...]) -> Expression:
        place, output = _broadcast(source, axes), index(axes[dimension.number])
        first = cast(load(table.first, (output,)), I64)
        weight = load(weights, (output,))
        a = _read(source, place, dimension, first)
        b = _read(source, place, dimension, binary("min", first + 1, dimension.size - 1))
        return select(weight.equals(0), a, (1 - weight) * a + weight * b)

    builder.store(result, value)


def _filtered(builder: _Builder, source: Tensor, result: Tensor, dimension: _Dimension) -> None:
    """The mean of the elements in reach, weighted by ``1 - distance / reach``; those outside are the outermost one."""
    size, outputs, reach = dimension.size, dimension.outputs, dimension.reach
    taps = min(math.ceil(2 * reach) + 1, size)
    slope = 1 / reach
    (output,) = grid([outputs])
    first, places, totals, *edges = (
        builder.temporary(f"{name}{dimension.number}", type, [outputs])
        for name, type in (("first", U32), ("place", F32), ("total", F32), ("before", F32), ("behind", F32))
    )
    place = dimension.inside(dimension.place(index(output)))
    begin = constant(0, I64) if taps == size else cast(unary("floor", place - reach), I64) + 1
    begin = binary("max", binary("min", begin, size - taps), 0)
    stores = [Store(first, (index(output),), cast(begin, U32)), Store(places, (index(output),), place)]
    for edge, room in zip(edges, (place, constant(size - 1, F32) - place), strict=True):
        stores.append(Store(edge, (index(output),), _outside(cast(room, F64), reach)))
    builder.statements.append(Compute((output,), tuple(stores)))

    def weight(output: Expression, number: Expression) -> Expression:
        near = 1 - unary("abs", cast(number, F32) - load(places, (output,))) * slope
        inside = select(near > 0, near, 0)
        before = select(number.equals(0), load(edges[0], (output,)), 0)
        behind = select(number.equals(size - 1), load(edges[1], (output,)), 0)
        return inside + before + behind

    tap = Axis("t", taps)
    (output,) = grid([outputs])
    number = cast(load(first, (index(output),)), I64) + index(tap)
    total = sum_of((tap,), weight(index(output), number))
    builder.statements.append(Compute((output,), (Store(totals, (index(output),), total),)))

    def value(axes: tuple[Axis, ...]) -> Expression:
        output, tap = index(axes[dimension.number]), Axis("t", taps)
        number = cast(load(first, (output,)), I64) + index(tap)
        share = weight(output, number)
        element = _read(source, _broadcast(source, axes), dimension, number)
        product = select(share.equals(0), 0, share * element)
        return sum_of((tap,), product) / load(totals, (output,))

    builder.store(result, value)


def _outside(room: Expression, reach: float) -> Expression:
    """The sum of ``1 - (room + j) / reach`` for j = 1, 2, ... as long as that is positive, in float32."""
    count = unary("ceil", reach - room) - 1
    total = count * (1 - room * (1 / reach)) - count * (count + 1) * (0.5 / reach)
    return cast(select(count > 0, total, 0), F32)


class Resample(_ForwardResample, type=OperatorType.RESAMPLE, since="2_0"):
    """Resizes a tensor along any dimensions by scales, nearest neighbour or linear, centres of pixels aligned.

    Output o lies at ``(o + 0.5) / scales[i] - 0.5`` along dimension i; elements beyond the edges are the outermost
    ones. Nearest neighbours round halves up.
    """

    interpolation_mode: Member[InterpolationMode] = enumeration(InterpolationMode)
    scale_count: Count = count_of("scales", default=None, rank_of=("input_tensor", "output_tensor"))
    scales: Numbers = float_array(count="scale_count")

    support = (*_ForwardResample.support, at("2_0", (4, 4), FLOATS))


class Resample1(_ForwardResample, type=OperatorType.RESAMPLE1, since="2_1"):
    """Resizes a tensor along any dimensions by scales and offsets, nearest neighbour or linear.

    Output o lies at ``(o - output_pixel_offsets[i]) / scales[i] - input_pixel_offsets[i]`` along dimension i; elements
    beyond the edges are the outermost ones. Nearest neighbours round halves up.
    """

    interpolation_mode: Member[InterpolationMode] = enumeration(InterpolationMode)
    dimension_count: Count = count_of("scales", default=None, rank_of=("input_tensor", "output_tensor"))
    scales: Numbers = float_array(count="dimension_count")
    input_pixel_offsets: Numbers = float_array(count="dimension_count")
    output_pixel_offsets: Numbers = float_array(count="dimension_count")

    support = (*_ForwardResample.support, at("2_1", (4, 4), FLOATS))


class Resample2(_ForwardResample, type=OperatorType.RESAMPLE2, since="5_1"):
    """As RESAMPLE1; nearest neighbours are the next element in a direction."""

    interpolation_mode: Member[InterpolationMode] = enumeration(InterpolationMode)
    rounding_direction: Member[AxisDirection] = enumeration(AxisDirection)
    dimension_count: Count = count_of("scales", default=None, rank_of=("input_tensor", "output_tensor"))
    scales: Numbers = float_array(count="dimension_count")
    input_pixel_offsets: Numbers = float_array(count="dimension_count")
    output_pixel_offsets: Numbers = float_array(count="dimension_count")


class Resample3(Resample2, type=OperatorType.RESAMPLE3, since="6_4"):
    """As RESAMPLE2; ``antialiased`` stretches the linear filter of dimensions that shrink by ``1 / scales[i]``."""

    antialiased: Value[bool] = boolean()

    support = levels(at("6_4", (1, 4), FLOATS_AND_BYTES))


class ResampleGrad(_Resample, type=OperatorType.RESAMPLE_GRAD, since="3_0"):
    """Back-propagation gradient of RESAMPLE1 with the same parameters.

    Every element of ``output_gradient_tensor`` (what was resampled) is the sum of the gradients of those outputs that
    read it, with the weights that it has in them.
    """

    input_gradient_tensor: Value[TensorDesc] = tensor_input()
    output_gradient_tensor: Value[TensorDesc] = tensor_output()
    interpolation_mode: Member[InterpolationMode] = enumeration(InterpolationMode)
    dimension_count: Count = count_of(
        "scales", default=None, rank_of=("output_gradient_tensor", "input_gradient_tensor")
    )
    scales: Numbers = float_array(count="dimension_count")
    input_pixel_offsets: Numbers = float_array(count="dimension_count")
    output_pixel_offsets: Numbers = float_array(count="dimension_count")

    support = levels(at("5_1", (1, 4), FLOATS), at("3_0", (4, 4), FLOATS))

    def check(self, rules: Rules) -> None:
        """One data type and rank; any sizes."""
        self.check_resampled(rules, "input_gradient_tensor", "output_gradient_tensor")

    def define(self) -> Definition:
        """Dimension by dimension, as sums over the outputs that read an element."""
        source = tensor("InputGradientTensor", self.input_gradient_tensor, "input")
        target = tensor("OutputGradientTensor", self.output_gradient_tensor, "output")
        builder = _Builder(self, target.sizes, source.sizes)
        moving = [d for d in builder.dimensions if not (d.is_same and d.outputs == d.size)]
        moving.sort(key=lambda d: (d.size / d.outputs, -d.number))
        if moving:
            builder.step_by_step(source, target, moving, lambda s, r, d: _gathered(builder, s, r, d), target.sizes)
        else:
            builder.store(target, lambda axes: load(source, indices(axes)))
        return builder.definition(source, target)


class ResampleGrad1(ResampleGrad, type=OperatorType.RESAMPLE_GRAD1, since="5_1"):
    """Back-propagation gradient of RESAMPLE2 with the same parameters."""

    rounding_direction: Member[AxisDirection] = enumeration(AxisDirection, after="interpolation_mode")

    support = levels(at("5_1", (1, 4), FLOATS))


def _gathered(builder: _Builder, source: Tensor, result: Tensor, dimension: _Dimension) -> None:
    """The sums over the outputs that read an element, in increasing order, from +0 on."""
    is_linear = builder.desc.interpolation_mode == InterpolationMode.LINEAR
    table = builder.tables(dimension, is_linear)
    for readers in _readers(builder.desc, dimension, is_linear):
        _gather_part(builder, source, result, dimension, table, readers)


def _gather_part(
    builder: _Builder, source: Tensor, result: Tensor, dimension: _Dimension, table: _Table, readers: _Readers
) -> None:
    """The sums of some elements of the dimension; where they begin is a table of its own."""
    firsts = builder.temporary(f"begin{dimension.number}", U32, [readers.elements])
    builder.store(firsts, lambda axes: cast(readers.first(dimension, index(axes[0])), U32))

    def output_of(element: Expression, tap: Expression) -> Expression:
        return cast(load(firsts, (element,)), I64) + tap

    sizes = [readers.elements if d == dimension.number else size for d, size in enumerate(result.sizes)]
    axes, tap = grid(sizes), Axis("t", readers.taps)
    element = index(axes[dimension.number])
    output, number = output_of(element, index(tap)), element + readers.start
    place = [*indices(axes)]
    place[dimension.number] = number
    share = _share(table, output, number)
    total = sum_of((tap,), select(share.equals(0), 0, share * _read(source, place, dimension, output)))
    builder.statements.append(Compute(axes, (Store(result, tuple(place), cast(total, result.type)),)))


def _share(table: _Table, output: Expression, number: Expression) -> Expression:
    """The weight that an element has in an output, 0 if the output does not read it."""
    first = cast(load(table.first, (output,)), I64)
    is_first = first.equals(number)
    if table.weight is None:
        return select(is_first, 1, 0, F32)
    weight = load(table.weight, (output,))
    return select(is_first, 1 - weight, select((first + 1).equals(number), weight, 0))


class _Readers(NamedTuple):
    """So many ``elements`` from ``start`` on, each of which is read by no outputs but ``taps`` ones in a row, which
    begin ``shift`` elements after where its neighbour lies, or at the first output if that is None."""

    start: int
    elements: int
    taps: int
    shift: int | None

    def first(self, dimension: _Dimension, element: Expression) -> Expression:
        """The first of the outputs."""
        if self.shift is None:
            return constant(0, I64)
        neighbour = cast(element + (self.start + dimension.before), F64)
        exact = (neighbour + dimension.input_offset) * dimension.scale + dimension.output_offset
        begin = cast(unary("floor", exact), I64) + self.shift
        return binary("max", binary("min", begin, dimension.outputs - self.taps), 0)


def _readers(desc: _Resample, dimension: _Dimension, is_linear: bool) -> list[_Readers]:
    """The elements of a dimension, in parts that are read by about as many outputs each.

    The outermost elements are read by all outputs beyond them, and may need a part of their own.
    """
    size, outputs = dimension.size, dimension.outputs
    everything = _Readers(0, size, outputs, None)
    numbers = (dimension.scale, dimension.input_offset, dimension.output_offset)
    if max(size, outputs) > TAME_SIZE or not all(abs(number) <= TAME_SIZE for number in numbers):
        return [everything]
    begin, end = _reading(desc, dimension, is_linear)
    neighbours = np.arange(size) + float(dimension.before)
    exact = np.floor((neighbours + dimension.input_offset) * dimension.scale + dimension.output_offset)
    behind = (begin - exact.astype(np.int64), end - exact.astype(np.int64))

    def part(start: int, stop: int) -> _Readers:
        """The fewest outputs in a row, at one distance from the neighbours, that all elements of a part have."""
        read = slice(start, stop), (end > begin)[start:stop]
        firsts, ends = (values[read[0]][read[1]] for values in behind)
        shift = int(firsts.min()) if firsts.size else 0
        taps = min(max(int(ends.max()) - shift, 1), outputs) if ends.size else 1
        return (
            _Readers(start, stop - start, taps, shift)
            if taps < outputs
            else everything._replace(start=start, elements=stop - start)
        )

    whole = part(0, size)
    inner = part(1, size - 1) if size > 2 else whole
    if size <= 2 or whole.taps <= MOST_SPARE * inner.taps:
        return [whole]
    return [part(0, 1), inner, part(size - 1, size)]


def _reading(desc: _Resample, dimension: _Dimension, is_linear: bool) -> tuple[_Numbers, _Numbers]:
    """For every element the first output that reads it and the one after the last, by the arithmetic of the tables."""
    single = np.float32
    with np.errstate(all="ignore"):
        place = np.arange(dimension.outputs).astype(single) - single(dimension.output_offset)
        place = place / single(dimension.scale) - single(dimension.input_offset)
        if not is_linear:
            direction = getattr(desc, "rounding_direction", None)
            is_up = direction == AxisDirection.INCREASING
            place = np.floor(place + single(0.5)) if direction is None else (np.ceil if is_up else np.floor)(place)
        first = np.floor(np.clip(np.nan_to_num(place, nan=0), 0, dimension.size - 1)).astype(np.int64)
    if dimension.is_decreasing:
        first = first[::-1]
    elements = np.arange(dimension.size)
    begin = np.searchsorted(first, elements - int(is_linear), "left")
    end = np.searchsorted(first, elements, "right")
    return (dimension.outputs - end, dimension.outputs - begin) if dimension.is_decreasing else (begin, end)
