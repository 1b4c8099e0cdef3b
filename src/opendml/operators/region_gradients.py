"""ROI_ALIGN_GRAD: gradients of regions brought to one size, for the images and for the regions.

The gradient of the images is stated as a gather. Averages are separable: along each side an element has a weight in
an output, and every element sums over the regions that reach it. A maximum hands its gradient to one sample, which a
statement of its own finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from opendml.description.data_types import FLOATS, UINT32_ONLY
from opendml.description.descriptors import (
    at,
    boolean,
    enumeration,
    float_value,
    levels,
    tensor_input,
    tensor_output,
    uint,
)
from opendml.description.enums import InterpolationMode, OperatorType, ReduceFunction
from opendml.expression.element_types import BOOL, F32, I64, U32, ElementType
from opendml.expression.folds import fold, sum_of
from opendml.expression.ir import (
    Axis,
    Combine,
    Const,
    Expression,
    Fold,
    Part,
    Tensor,
    Variable,
    cast,
    constant,
    grid,
    index,
    indices,
    load,
    select,
    temporary,
)
from opendml.expression.statements import Compute, Definition, Store
from opendml.operators.definition import every_element, optional_tensor, tensor, widen
from opendml.operators.regions import RANKS, Point, RegionDesc, Regions, Side, mixed

if TYPE_CHECKING:
    from opendml.description.field_types import Integer, Member, Number, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc

Place = tuple[Expression, ...]


class RoiAlignGrad(RegionDesc, type=OperatorType.ROI_ALIGN_GRAD, since="4_1"):
    """Back-propagation gradients of ROI_ALIGN and ROI_ALIGN1 for the images, for the regions, or both.

    The gradient of an average goes to all of its samples, that of a maximum to the first of the largest ones; each
    sample hands it on to the elements that it was read from. The image is needed for maxima and for the regions.
    """

    input_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    input_gradient_tensor: Value[TensorDesc] = tensor_input()
    roi_tensor: Value[TensorDesc] = tensor_input()
    batch_indices_tensor: Value[TensorDesc] = tensor_input()
    output_gradient_tensor: Value[TensorDesc | None] = tensor_output(default=None)
    output_roi_gradient_tensor: Value[TensorDesc | None] = tensor_output(default=None)
    reduction_function: Member[ReduceFunction] = enumeration(ReduceFunction)
    interpolation_mode: Member[InterpolationMode] = enumeration(InterpolationMode)
    spatial_scale_x: Number = float_value()
    spatial_scale_y: Number = float_value()
    input_pixel_offset: Number = float_value()
    output_pixel_offset: Number = float_value()
    minimum_samples_per_output: Integer = uint()
    maximum_samples_per_output: Integer = uint()
    align_regions_to_corners: Value[bool] = boolean()

    support = levels(
        at(
            "4_1",
            (4, 4),
            FLOATS,
            RANKS | {"output_roi_gradient_tensor": RANKS["roi_tensor"]},
            batch_indices_tensor=UINT32_ONLY,
        )
    )

    def check(self, rules: Rules) -> None:
        """Gradients have the sizes of what they are the gradients of; what is needed is there."""
        names = ("input_tensor", "input_gradient_tensor", "roi_tensor", "output_gradient_tensor")
        rules.same_data_type(*names, "output_roi_gradient_tensor")
        rules.same_sizes("input_tensor", "output_gradient_tensor")
        rules.same_rank("roi_tensor", "output_roi_gradient_tensor")
        rules.same_sizes("roi_tensor", "output_roi_gradient_tensor")
        self.check_regions(rules, "input_gradient_tensor")
        for image in ("input_tensor", "output_gradient_tensor"):
            channels = rules.size(image, 1) if getattr(self, image) is not None else None
            rules.size_is("input_gradient_tensor", 1, channels, f"{rules.location(image)}.Sizes[1]")
        if self.output_gradient_tensor is None and self.output_roi_gradient_tensor is None:
            must = "must be given, as OutputROIGradientTensor is not"
            rules.violate("output_gradient_tensor", must, None)
        if self.input_tensor is None:
            if self.output_roi_gradient_tensor is not None:
                rules.violate("input_tensor", "must be given beside OutputROIGradientTensor", None)
            elif rules.ready("reduction_function") and self.reduction_function is ReduceFunction.MAX:
                must = f"must be given, as ReductionFunction is {ReduceFunction.MAX.dml_name}"
                rules.violate("input_tensor", must, None)

    def define(self) -> Definition:
        """Where the samples are, which of them are the largest, and then the sums."""
        return _Builder(self).definition()


class _Best(NamedTuple):
    """The samples that are the largest of their outputs: their numbers along both dimensions, and where they are.

    Weights are those of the next elements; that of y is -1 where no sample is inside of the image.
    """

    taps: tuple[Tensor, Tensor]
    elements: tuple[Tensor, Tensor]
    weights: tuple[Tensor, Tensor]


class _Builder:
    """The statements of the gradients."""

    def __init__(self, desc: RoiAlignGrad) -> None:
        self.desc = desc
        self.source = optional_tensor("InputTensor", desc.input_tensor, "input")
        self.gradient = tensor("InputGradientTensor", desc.input_gradient_tensor, "input")
        self.target = optional_tensor("OutputGradientTensor", desc.output_gradient_tensor, "output")
        self.roi_target = optional_tensor("OutputROIGradientTensor", desc.output_roi_gradient_tensor, "output")
        image = self.source or self.target
        assert image is not None
        self.sizes = image.sizes
        self.regions = Regions(desc, self.sizes, self.gradient.sizes[2:])
        self.taps = Axis("sample_y", self.regions.y.most), Axis("sample_x", self.regions.x.most)

    def definition(self) -> Definition:
        """All of them."""
        best = None if self.desc.is_average else self._largest_samples()
        if self.target is not None:
            self._add_images(self.target, best)
        if self.roi_target is not None:
            self._add_regions(self.roi_target, best)
        regions = self.regions
        return Definition(
            (self.source, self.gradient, regions.rois, regions.batch_indices),
            (self.target, self.roi_target),
            tuple(regions.statements),
            tuple(regions.temporaries),
        )

    def _keep(self, name: str, type: ElementType, sizes: Sequence[int]) -> Tensor:
        made = temporary(name, type, sizes)
        self.regions.temporaries.append(made)
        return made

    def _sampled(self, region: Expression) -> Expression:
        """Whether there are samples of the numbers that the taps are at."""
        sides = (self.regions.y, self.regions.x)
        return sides[0].sampled(self.taps[0], region) & sides[1].sampled(self.taps[1], region)

    def _element(self, place: Place) -> Expression:
        """An element of the images."""
        assert self.source is not None
        return widen(load(self.source, place))

    # ---- maxima

    def _largest_samples(self) -> _Best:
        """The first of the largest samples of every output, among those inside of the image."""
        sides, sizes = (self.regions.y, self.regions.x), self.gradient.sizes
        axes = grid(sizes, "rcyx")
        region, channel, *outputs = indices(axes)
        points = [side.point(region, o, index(tap)) for side, o, tap in zip(sides, outputs, self.taps, strict=True)]
        plane = (self.regions.batch(region), channel)

        def row(v: Expression) -> Expression:
            x = points[1]
            a = self._element((*plane, v, x.element))
            return mixed(a, lambda: self._element((*plane, v, sides[1].next(x.element))), x.weight)

        y = points[0]
        value = mixed(row(y.element), lambda: row(sides[0].next(y.element)), y.weight)
        width = self.taps[1].size
        position = index(self.taps[0]) * width + index(self.taps[1])
        where = self._sampled(region) & points[0].is_inside & points[1].is_inside
        found = _first_largest(self.taps, value, position, where)
        kept = [
            [self._keep(f"{part}_{name}", type, sizes) for name in ("y", "x")]
            for part, type in (("tap", U32), ("best_element", U32), ("best_weight", F32))
        ]
        number = self._keep("best", I64, sizes)
        self.regions.statements.append(Compute(axes, (Store(number, indices(axes), found),)))
        best, stores = load(number, indices(axes)), list[Store]()
        chosen = select(best < 0, 0, best)
        for i, tap in enumerate((chosen // width, chosen % width)):
            point = sides[i].point(region, outputs[i], tap)
            weight = constant(0, F32) if point.weight is None else point.weight
            values = (cast(tap, U32), cast(point.element, U32), select(best < 0, -1, weight))
            stores += [Store(kept[k][i], indices(axes), v) for k, v in enumerate(values)]
        self.regions.statements.append(Compute(axes, tuple(stores)))
        taps, elements, weights = ((made[0], made[1]) for made in kept)
        return _Best(taps, elements, weights)

    # ---- the gradient of the images

    def _add_images(self, target: Tensor, best: _Best | None) -> None:
        regions = self.regions
        weights_y, weights_x = self._weights(regions.y, "y"), self._weights(regions.x, "x")
        region, y, x = (Axis(name, n) for name, n in zip("roi", (regions.count, *self.gradient.sizes[2:]), strict=True))

        def total(place: Place) -> Expression:
            batch, channel, v, u = place
            here = (index(region), channel, index(y), index(x))
            incoming = widen(load(self.gradient, here))
            weight = load(weights_y, (index(region), index(y), v))
            share = load(weights_x, (index(region), index(x), u))
            if best is None:
                along = weight * sum_of((x,), share * incoming, share.differs(0))
            else:
                along = sum_of((x,), _product(self._share(best, 0, here, v) * self._share(best, 1, here, u), incoming))
            from_region = sum_of((y,), along, weight.differs(0))
            is_of_image = regions.batch(index(region)).equals(batch)
            reached = is_of_image & _is_any_other_than_0(weights_y, index(region), v)
            reached = reached & _is_any_other_than_0(weights_x, index(region), u)
            return cast(sum_of((region,), from_region, reached), target.type)

        regions.statements.append(every_element(target, total))

    def _weights(self, side: Side, name: str) -> Tensor:
        """The weight that every element has in every output along a dimension: the mean over the samples."""
        made = self._keep(f"weights_{name}", F32, [self.regions.count, side.outputs, side.size])
        tap = Axis("s", side.most)

        def weight(place: Place) -> Expression:
            region, output, element = place
            point = side.point(region, output, index(tap))
            share = select(point.is_inside, _share_of(point, element), 0)
            where = side.sampled(tap, region)
            total = sum_of((tap,), share, None if isinstance(where, Const) else where)
            return total / cast(side.count_of(region), F32)

        self.regions.statements.append(every_element(made, weight))
        return made

    def _share(self, best: _Best, i: int, place: Place, element: Expression) -> Expression:
        """The weight that an element has along a dimension in the largest sample of an output."""
        weight = load(best.weights[i], place)
        point = Point(weight >= 0, cast(load(best.elements[i], place), I64), weight if self.desc.is_linear else None)
        return select(point.is_inside, _share_of(point, element), 0)

    # ---- the gradient of the regions

    def _add_regions(self, target: Tensor, best: _Best | None) -> None:
        """First the sums over channels and samples for every output, then those over the outputs."""
        sides = [side._replace(is_linear=True) for side in (self.regions.y, self.regions.x)]
        sizes = (self.regions.count, *self.gradient.sizes[2:])
        region, *outputs = axes = grid(sizes, "ryx")
        channel = Axis("c", self.gradient.sizes[1])
        here = (index(region), index(channel), *indices(outputs))
        taps = [index(tap) for tap in self.taps]
        if best is not None:
            taps = [cast(load(tap, here), I64) for tap in best.taps]
        points = [side.point(index(region), index(o), tap) for side, o, tap in zip(sides, outputs, taps, strict=True)]
        slopes = self._slopes(sides, points, (self.regions.batch(index(region)), index(channel)))
        incoming = widen(load(self.gradient, here))
        elements: list[Expression] = []
        for side, output, tap, slope in zip(sides, outputs, taps, slopes, strict=True):
            way = side.way(index(region), index(output), tap)
            change = slope * incoming
            elements += (change * (1 - way), change * way)
        if best is None:
            where = points[0].is_inside & points[1].is_inside & self._sampled(index(region))
            totals = _sums((channel, *self.taps), elements, where)
            count = sides[0].count_of(index(region)) * sides[1].count_of(index(region))
            totals = [total / cast(count, F32) for total in totals]
        else:
            totals = _sums((channel,), elements, load(best.weights[0], here) >= 0)
        scales = (self.desc.spatial_scale_y,) * 2 + (self.desc.spatial_scale_x,) * 2
        names = ("y1", "y2", "x1", "x2")
        parts = {name: self._keep(f"part_{name}", F32, sizes) for name in names}
        stores = (
            Store(parts[name], indices(axes), total * constant(scale, F32))
            for name, total, scale in zip(names, totals, scales, strict=True)
        )
        self.regions.statements.append(Compute(axes, tuple(stores)))
        (row,), around = grid([self.regions.count], "r"), [Axis("y", sizes[1]), Axis("x", sizes[2])]
        zeros = [constant(0, I64)] * (len(target.sizes) - 2)
        columns = (
            Store(
                target,
                (*zeros, index(row), constant(i, I64)),
                cast(sum_of(around, load(parts[name], (index(row), *indices(around)))), target.type),
            )
            for i, name in enumerate(("x1", "y1", "x2", "y2"))
        )
        self.regions.statements.append(Compute((row,), tuple(columns)))

    def _slopes(self, sides: Sequence[Side], points: Sequence[Point], plane: Place) -> tuple[Expression, Expression]:
        """How the image changes at a point along y and along x: the difference of the elements around it, 0 on one."""
        (y, x), weights = points, [point.weight for point in points]
        assert weights[0] is not None and weights[1] is not None
        rows, columns = ((point.element, side.next(point.element)) for point, side in zip(points, sides, strict=True))

        def difference(weight: Expression, a: Expression, b: Expression) -> Expression:
            return select(weight.equals(0), 0, b - a)

        def at(v: Expression, u: Expression) -> Expression:
            return self._element((*plane, v, u))

        along_y = [difference(weights[0], at(rows[0], u), at(rows[1], u)) for u in columns]
        along_x = [difference(weights[1], at(v, columns[0]), at(v, columns[1])) for v in rows]
        return mixed(along_y[0], lambda: along_y[1], x.weight), mixed(along_x[0], lambda: along_x[1], y.weight)


def _share_of(point: Point, element: Expression) -> Expression:
    """The weight that an element has in a sample."""
    is_first = point.element.equals(element)
    if point.weight is None:
        return select(is_first, 1, 0, F32)
    is_next = (point.element + 1).equals(element)
    return select(is_first, 1 - point.weight, select(is_next, point.weight, 0))


def _is_any_other_than_0(weights: Tensor, region: Expression, element: Expression) -> Expression:
    """Whether an element has a weight in any output of a region along a dimension."""
    output = Axis("o", weights.sizes[1])
    weight = load(weights, (region, index(output), element))
    return fold(lambda a, b: a | b, (output,), constant(False, BOOL), weight.differs(0))


def _product(share: Expression, value: Expression) -> Expression:
    """A share of a value; no share of what is no number is 0."""
    return select(share.equals(0), 0, share * value)


def _first_largest(axes: Sequence[Axis], value: Expression, position: Expression, where: Expression) -> Expression:
    """The position of the first NaN, else of the first of the largest values where the condition holds; else -1."""
    (a, b), (i, j) = ([Variable(name, type) for name in names] for names, type in (("ab", F32), ("ij", I64)))
    replaces = (i < 0) | (~(b <= a) & a.equals(a))
    combine = Combine((a, i), (b, j), (select(replaces, b, a), select(replaces, j, i)))
    start = (constant(0, F32), constant(-1, I64))
    return Part(Fold(tuple(axes), start, (value, position), combine, where), 1)


def _sums(axes: Sequence[Axis], elements: Sequence[Expression], where: Expression) -> list[Expression]:
    """Several sums at once."""
    left, right = ([Variable(f"{name}{i}", F32) for i in range(len(elements))] for name in "ab")
    combine = Combine(tuple(left), tuple(right), tuple(a + b for a, b in zip(left, right, strict=True)))
    zeros = (constant(0, F32),) * len(elements)
    reduction = Fold(tuple(axes), zeros, tuple(elements), combine, where)
    return [Part(reduction, i) for i in range(len(elements))]
