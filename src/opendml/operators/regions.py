"""ROI_POOLING, ROI_ALIGN, ROI_ALIGN1: regions of images, each brought to one size.

ROI_ALIGN takes samples at points between the pixels. Along each dimension the points of a region are evenly spread, so
a region is a start, a step and a number of samples for each output; a statement of its own computes these. How many
samples there are is read from there: they are steps of a fold that goes no further.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from opendml.description.data_types import FLOATS, UINT32_ONLY, UINT32_OR_64
from opendml.description.descriptors import (
    Operator,
    at,
    boolean,
    enumeration,
    float_value,
    levels,
    size_2d,
    tensor_input,
    tensor_output,
    uint,
)
from opendml.description.enums import InterpolationMode, OperatorType, ReduceFunction
from opendml.expression.element_types import BOOL, F32, I32, I64, U32
from opendml.expression.folds import extreme_of, sum_of
from opendml.expression.ir import (
    Axis,
    Const,
    Expression,
    Tensor,
    as_expression,
    binary,
    both,
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
from opendml.operators.definition import every_element, tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import Integer, Member, Number, Size, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc

RANKS: Final = {"roi_tensor": (2, 4), "batch_indices_tensor": (1, 4)}
"""Those of what lists regions, other than of images."""

FARTHEST: Final = 1 << 29
"""Coordinates of pooled regions beyond which they are taken to be there, so that 64 bits hold their products."""

NARROW: Final = (1 << 31) - 1
"""The largest number of a sample that 32 bits hold."""


class RegionDesc(Operator):
    """What ROI_ALIGN, its second version and their gradient share: the regions and where their samples lie."""

    # All of them have these, with their own fields between them.
    roi_tensor: TensorDesc
    batch_indices_tensor: TensorDesc
    reduction_function: ReduceFunction
    interpolation_mode: InterpolationMode
    spatial_scale_x: float
    spatial_scale_y: float
    minimum_samples_per_output: int
    maximum_samples_per_output: int

    @property
    def is_linear(self) -> bool:
        """Whether samples are interpolated."""
        return self.interpolation_mode is InterpolationMode.LINEAR

    @property
    def is_average(self) -> bool:
        """Whether the samples of an output are averaged, not their maximum taken."""
        return self.reduction_function is ReduceFunction.AVERAGE

    @property
    def offsets(self) -> tuple[float, float]:
        """The pixel offsets of input and output; the first version aligns centres."""
        return getattr(self, "input_pixel_offset", 0.5), getattr(self, "output_pixel_offset", -0.5)

    @property
    def is_aligned(self) -> bool:
        """Whether the first and the last sample lie on the edges of a region."""
        return getattr(self, "align_regions_to_corners", False)

    def check_regions(self, rules: Rules, pooled: str) -> None:
        """As many batch indices and pooled regions as regions, and a way to sample them."""
        functions = (ReduceFunction.AVERAGE, ReduceFunction.MAX)
        if rules.ready("reduction_function"):
            names = " or ".join(function.dml_name for function in functions)
            rules.require(
                self.reduction_function in functions, "reduction_function", f"must be {names}", self.reduction_function
            )
        count = check_region_list(rules, "roi_tensor", 4)
        rank = rules.rank("batch_indices_tensor")
        if rank is not None:
            for i in range(rank - 1):
                rules.size_is("batch_indices_tensor", i, 1, why="as only the last dimension counts regions")
            rules.size_is("batch_indices_tensor", rank - 1, *count)
        rules.size_is(pooled, 0, *count)
        least, most = rules.integer("minimum_samples_per_output"), rules.integer("maximum_samples_per_output")
        if least is not None and most is not None:
            must = f"must be at least MinimumSamplesPerOutput = {least}"
            rules.require(most >= least, "maximum_samples_per_output", must, most)


def check_region_list(rules: Rules, name: str, width: int) -> tuple[int | None, str]:
    """A tensor of regions is {NumROIs, width}, with dimensions of size 1 before; the number of regions and its name."""
    rank = rules.rank(name)
    if rank is None or rank < 2:
        return None, ""
    for i in range(rank - 2):
        rules.size_is(name, i, 1, why="as only the last two dimensions list regions")
    rules.size_is(name, rank - 1, width, why="the numbers that describe a region")
    return rules.size(name, rank - 2), f"{rules.location(name)}.Sizes[{rank - 2}]"


class Side(NamedTuple):
    """One dimension of all regions: where the samples lie along it, in the coordinates of regions.

    Sample s of a region lies at ``(s - output_offset) * step + start``; output o has as many from ``o * samples``
    on, at most ``most``.
    """

    size: int
    input_offset: float
    output_offset: float
    outputs: int
    start: Tensor
    step: Tensor
    samples: Tensor | Const
    most: int
    is_linear: bool
    is_aligned: bool

    def count_of(self, region: Expression) -> Expression:
        """The samples of each output along this dimension."""
        return self.samples if isinstance(self.samples, Const) else cast(load(self.samples, (region,)), I64)

    def sampled(self, tap: Axis, region: Expression) -> Expression:
        """Whether there is a sample of that number."""
        return as_expression(True if isinstance(self.samples, Const) else index(tap) < self.count_of(region), BOOL)

    def number(self, region: Expression, output: Expression, tap: Expression) -> Expression:
        """The number of a sample among those of its region, in float32."""
        number = output * self.count_of(region) + tap
        return cast(cast(number, I32) if self.outputs * self.most <= NARROW else number, F32)

    def way(self, region: Expression, output: Expression, tap: Expression) -> Expression:
        """How much of the way from the start to the end of a region a sample has behind it."""
        samples = self.count_of(region) * self.outputs
        way = (self.number(region, output, tap) - self.output_offset) / cast(samples - self.is_aligned, F32)
        return select(samples.equals(1), 0.5, way) if self.is_aligned else way

    def point(self, region: Expression, output: Expression, tap: Expression) -> Point:
        """A sample of a region."""
        number = self.number(region, output, tap) - self.output_offset
        place = number * load(self.step, (region,)) + load(self.start, (region,))
        is_inside = (place >= 0) & (place <= constant(self.size, F32))
        x = place - self.input_offset
        last = constant(self.size - 1, F32)
        if not self.is_linear:
            nearest = unary("ceil", x - 0.5)
            return Point(is_inside, self._element(nearest), None)
        x = select(x > 0, select(x < last, x, last), 0)
        below = unary("floor", x)
        return Point(is_inside, self._element(below), x - below)

    def _element(self, place: Expression) -> Expression:
        """The number of the element at a whole place, or of the nearest one; 0 for NaN."""
        number = cast(cast(place, I32), I64) if self.size <= NARROW else cast(place, I64)
        return clamp_index(number, self.size)

    def next(self, element: Expression) -> Expression:
        """The element after one; the last one after itself."""
        return binary("min", element + 1, self.size - 1)


class Point(NamedTuple):
    """A sample along one dimension: whether it is inside the image, the element that it reads, and the weight of the
    next one; None if that is not read."""

    is_inside: Expression
    element: Expression
    weight: Expression | None


class Regions:
    """The regions of a descriptor over images of ``sizes``, pooled to ``outputs`` {height, width}.

    ``statements`` compute the tensors of both sides, ``temporaries``.
    """

    def __init__(self, desc: RegionDesc, sizes: Sequence[int], outputs: Sequence[int]) -> None:
        self.desc = desc
        self.batches = sizes[0]
        self.rois = tensor("ROITensor", desc.roi_tensor, "input")
        self.batch_indices = tensor("BatchIndicesTensor", desc.batch_indices_tensor, "input")
        self.count = desc.roi_tensor.sizes[-2]
        (region,) = axes = grid([self.count], "r")
        stores: list[Store] = []
        self.y, self.x = (
            self._side(*side, index(region), stores)
            for side in (
                ("y", sizes[2], outputs[0], 1, desc.spatial_scale_y),
                ("x", sizes[3], outputs[1], 0, desc.spatial_scale_x),
            )
        )
        self.statements = [Compute(axes, tuple(stores))]
        self.temporaries = [store.tensor for store in stores]

    def batch(self, region: Expression) -> Expression:
        """The image of a region; the last one for indices that are too large."""
        zeros = [constant(0, I64)] * (len(self.batch_indices.sizes) - 1)
        number = load(self.batch_indices, (*zeros, region))
        last = min(self.batches - 1, (1 << number.type.bits) - 1)
        return cast(select(number < last, number, last), I64)

    def _side(
        self, name: str, size: int, outputs: int, column: int, scale: float, region: Expression, stores: list[Store]
    ) -> Side:
        desc = self.desc
        zeros = [constant(0, I64)] * (len(self.rois.sizes) - 2)
        low, high = (
            widen(load(self.rois, (*zeros, region, constant(i, I64)))) * constant(scale, F32)
            for i in (column, column + 2)
        )
        length = high - low
        least = max(desc.minimum_samples_per_output, 1)
        most = max(min(desc.maximum_samples_per_output, 2 * size), least)
        count: Expression = constant(least, I64)
        if most > least:
            wanted = cast(unary("ceil", length / constant(outputs, F32)), I64)
            count = binary("max", binary("min", wanted, most), least)
        samples = count * outputs
        step = length / cast(samples - 1 if desc.is_aligned else samples, F32)
        if desc.is_aligned:
            # A single sample lies in the middle.
            low = select(samples.equals(1), low + length * 0.5, low)
            step = select(samples.equals(1), 0, step)

        def kept(part: str, value: Expression) -> Tensor:
            made = temporary(f"{part}_{name}", value.type, [self.count])
            stores.append(Store(made, (region,), value))
            return made

        counts = count if isinstance(count, Const) else kept("samples", cast(count, U32))
        start, steps = kept("start", low), kept("step", step)
        return Side(size, *desc.offsets, outputs, start, steps, counts, most, desc.is_linear, desc.is_aligned)


class _RoiAlign(RegionDesc):
    """What both versions share."""

    input_tensor: Value[TensorDesc] = tensor_input()
    roi_tensor: Value[TensorDesc] = tensor_input()
    batch_indices_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    reduction_function: Member[ReduceFunction] = enumeration(ReduceFunction)
    interpolation_mode: Member[InterpolationMode] = enumeration(InterpolationMode)
    spatial_scale_x: Number = float_value()
    spatial_scale_y: Number = float_value()
    out_of_bounds_input_value: Number = float_value()
    minimum_samples_per_output: Integer = uint()
    maximum_samples_per_output: Integer = uint()

    def check(self, rules: Rules) -> None:
        """As many outputs as regions, with the channels of the input."""
        rules.same_data_type("input_tensor", "roi_tensor", "output_tensor")
        self.check_regions(rules, "output_tensor")
        rules.size_is("output_tensor", 1, rules.size("input_tensor", 1), "InputTensor.Sizes[1]")

    def define(self) -> Definition:
        """The samples of every output, folded."""
        source = tensor("InputTensor", self.input_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        regions = Regions(self, source.sizes, target.sizes[2:])
        y, x = Axis("sample_y", regions.y.most), Axis("sample_x", regions.x.most)

        def pooled(place: tuple[Expression, ...]) -> Expression:
            region, channel = place[:2]
            point_y = regions.y.point(region, place[2], index(y))
            point_x = regions.x.point(region, place[3], index(x))
            value = self._sample(source, (regions.batch(region), channel), point_y, point_x, regions)
            where = regions.y.sampled(y, region) & regions.x.sampled(x, region)
            guard = None if isinstance(where, Const) else where
            if not self.is_average:
                return cast(extreme_of("gt", (y, x), value, guard), target.type)
            count = regions.y.count_of(region) * regions.x.count_of(region)
            return cast(sum_of((y, x), value, guard) / cast(count, F32), target.type)

        return Definition(
            (source, regions.rois, regions.batch_indices),
            (target,),
            (*regions.statements, every_element(target, pooled)),
            tuple(regions.temporaries),
        )

    def _sample(
        self, source: Tensor, plane: tuple[Expression, ...], y: Point, x: Point, regions: Regions
    ) -> Expression:
        """The image at a point, or what is read outside of it."""

        def element(v: Expression, u: Expression) -> Expression:
            return widen(load(source, (*plane, v, u)))

        def row(v: Expression) -> Expression:
            return mixed(element(v, x.element), lambda: element(v, regions.x.next(x.element)), x.weight)

        value = mixed(row(y.element), lambda: row(regions.y.next(y.element)), y.weight)
        return select(both((y.is_inside, x.is_inside)), value, self.out_of_bounds_input_value)


def mixed(a: Expression, b: Callable[[], Expression], weight: Expression | None) -> Expression:
    """``(1 - weight) * a + weight * b()``; a itself where the weight is 0, whatever b is."""
    return a if weight is None else select(weight.equals(0), a, (1 - weight) * a + weight * b())


class RoiAlign(_RoiAlign, type=OperatorType.ROI_ALIGN, since="3_0"):
    """Crops regions of images and resizes each to one size: every output is the average or the maximum of samples.

    Samples are evenly spread over a region, at the centres of their pixels.
    """

    support = levels(
        at("5_0", (4, 4), FLOATS, RANKS, batch_indices_tensor=UINT32_OR_64),
        at("3_0", (4, 4), FLOATS, RANKS, batch_indices_tensor=UINT32_ONLY),
    )


class RoiAlign1(_RoiAlign, type=OperatorType.ROI_ALIGN1, since="4_0"):
    """As ROI_ALIGN, with offsets of pixels, and samples that can reach to the corners of a region."""

    input_pixel_offset: Number = float_value(after="spatial_scale_y")
    output_pixel_offset: Number = float_value(after="input_pixel_offset")
    align_regions_to_corners: Value[bool] = boolean()

    support = levels(
        at("5_0", (4, 4), FLOATS, RANKS, batch_indices_tensor=UINT32_OR_64),
        at("4_0", (4, 4), FLOATS, RANKS, batch_indices_tensor=UINT32_ONLY),
    )


class RoiPooling(Operator, type=OperatorType.ROI_POOLING, since="1_0"):
    """Maximum over the bins of a grid, for every region of images.

    A region is {batch, x1, y1, x2, y2}: corners, both inside, that are scaled and rounded. Its bins are as even as
    whole pixels allow, and may overlap; what lies outside of the image is left out, and the maximum of nothing is 0.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    roi_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    spatial_scale: Number = float_value()
    pooled_size: Size = size_2d()

    support = levels(at("1_0", (4, 4), FLOATS))

    def check(self, rules: Rules) -> None:
        """As many outputs as regions, of the pooled size."""
        rules.same_data_type("input_tensor", "roi_tensor", "output_tensor")
        rules.size_is("output_tensor", 0, *check_region_list(rules, "roi_tensor", 5))
        rules.size_is("output_tensor", 1, rules.size("input_tensor", 1), "InputTensor.Sizes[1]")
        for dimension, name in ((2, "height"), (3, "width")):
            size = rules.member("pooled_size", name)
            if size is not None and rules.require(size >= 1, f"pooled_size.{name}", "must be at least 1", size):
                rules.size_is("output_tensor", dimension, size, f"PooledSize.{rules.location(name)}")

    def define(self) -> Definition:
        """Where the bins begin and how long they are, and then one fold over each."""
        source = tensor("InputTensor", self.input_tensor, "input")
        rois = tensor("ROITensor", self.roi_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        count, statements, temporaries = rois.sizes[2], list[Statement](), list[Tensor]()

        def number(region: Expression, column: int) -> Expression:
            return widen(load(rois, (constant(0, I64), constant(0, I64), region, constant(column, I64))))

        def bins(name: str, column: int, size: int, outputs: int) -> tuple[Tensor, Tensor]:
            """The first element of every bin along a dimension, and how many there are."""
            region, output = axes = grid([count, outputs], "ro")
            low, high = (
                _rounded(number(index(region), i) * constant(self.spatial_scale, F32)) for i in (column, column + 2)
            )
            length = binary("max", high - low + 1, 1)
            first = (index(output) * length) // outputs + low
            end = ((index(output) + 1) * length + (outputs - 1)) // outputs + low
            first, end = (binary("max", binary("min", bound, size), 0) for bound in (first, end))
            made = [temporary(f"{part}_{name}", U32, [count, outputs]) for part in ("first", "count")]
            values = (first, end - first)
            stores = (Store(t, indices(axes), cast(v, U32)) for t, v in zip(made, values, strict=True))
            statements.append(Compute(axes, tuple(stores)))
            temporaries.extend(made)
            return made[0], made[1]

        y, x = bins("y", 2, source.sizes[2], target.sizes[2]), bins("x", 1, source.sizes[3], target.sizes[3])
        taps = Axis("y", source.sizes[2]), Axis("x", source.sizes[3])

        def pooled(place: tuple[Expression, ...]) -> Expression:
            region, channel, *output = place
            sides = [
                [cast(load(table, (region, o)), I64) for table in tables]
                for tables, o in zip((y, x), output, strict=True)
            ]
            batch = clamp_index(cast(number(region, 0), I64), source.sizes[0])
            pixel = [first + index(tap) for (first, _), tap in zip(sides, taps, strict=True)]
            where = both(index(tap) < length for (_, length), tap in zip(sides, taps, strict=True))
            value = extreme_of("gt", taps, widen(load(source, (batch, channel, *pixel))), where)
            is_empty = sides[0][1].equals(0) | sides[1][1].equals(0)
            return cast(select(is_empty, 0, value), target.type)

        statements.append(every_element(target, pooled))
        return Definition((source, rois), (target,), tuple(statements), tuple(temporaries))


def _rounded(place: Expression) -> Expression:
    """The nearest integer, halves away from zero, not farther than ``FARTHEST``; 0 for NaN."""
    whole = unary("trunc", place)
    is_near = unary("abs", place - whole) < 0.5
    nearest = select(is_near, whole, whole + select(place < 0, -1, 1, F32))
    return binary("max", binary("min", cast(nearest, I64), FARTHEST), -FARTHEST)
