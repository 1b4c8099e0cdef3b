"""Images sampled between their pixels: AffineGrid, GridSample, DeformConv, regions."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import opendml as dml
from opendml.building.graph_building import Graph
from opendml.building.graph_tensor import GraphTensor
from opendml.description.quoting import quoted
from opendml.description.tensor import MAXIMUM_UINT
from opendml.formats.onnx.nodes import Node, Results
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["SAMPLING"]


@dataclass(frozen=True, slots=True)
class _Tap:
    """What one dimension adds to a sample: where the pixel lies, how much it counts, and whether there is one."""

    index: GraphTensor
    weight: GraphTensor | None
    inside: GraphTensor | None


@dataclass(frozen=True, slots=True)
class _Edges:
    """What lies beyond the pixels of a dimension, by ``padding``: ``zeros``, ``border`` or ``reflection``.

    ``low`` and ``high``: the edges at which samples are reflected, and beyond which they are moved to the border.
    """

    padding: str
    length: int
    low: float
    high: float

    def moved(self, place: GraphTensor) -> GraphTensor:
        """A sample beyond the edges, before pixels are taken around it."""
        if self.padding == "reflection":
            return self._reflected(place)
        if self.padding != "border":
            return place
        outside = dml.logical_or(dml.less_than(place, self.low), dml.greater_than(place, self.high))
        return dml.if_(outside, _limited(place, self.length), place)

    def tap(self, pixel: GraphTensor, weight: GraphTensor | None) -> _Tap:
        """A pixel by its whole number, which may lie beyond the edges."""
        seen = self._reflected(pixel) if self.padding == "reflection" else pixel
        found = _limited(seen, self.length)
        inside = None
        if self.padding == "zeros":
            inside = dml.equals(found, pixel)
        return _Tap(dml.cast(found, "int32"), weight, inside)

    def _reflected(self, place: GraphTensor) -> GraphTensor:
        extent = self.high - self.low
        if extent <= 0:
            return place * 0.0
        distance = dml.abs(place - self.low)
        turns = dml.floor(distance / extent)
        rest = distance - turns * extent
        is_back = dml.equals(dml.modulus_floor(turns, 2.0), 1.0)
        return dml.if_(is_back, extent - rest, rest) + self.low


def _limited(place: GraphTensor, length: int) -> GraphTensor:
    return dml.min(dml.max(place, 0.0), float(length - 1))


# ---- pixels around a sample


def _nearest(place: GraphTensor, edges: _Edges) -> list[_Tap]:
    return [edges.tap(edges.moved(dml.round(place)), None)]


def _linear(place: GraphTensor, edges: _Edges) -> list[_Tap]:
    place = edges.moved(place)
    before = dml.floor(place)
    part = place - before
    return [edges.tap(before, 1.0 - part), edges.tap(before + 1.0, part)]


CUBIC: Final = -0.75
"""Keys' parameter, that of PyTorch and of ONNX."""


def _cubic(place: GraphTensor, edges: _Edges) -> list[_Tap]:
    place = edges.moved(place)
    before = dml.floor(place)
    part = place - before
    near, far = _cubic_weights(part)
    rest = 1.0 - part
    after, behind = _cubic_weights(rest)
    weights = (far, near, after, behind)
    return [edges.tap(before + float(step), weight) for step, weight in zip((-1, 0, 1, 2), weights, strict=True)]


def _cubic_weights(x: GraphTensor) -> tuple[GraphTensor, GraphTensor]:
    """Of the pixel at a distance of ``x``, and of the one behind it."""
    near = ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1.0
    y = x + 1.0
    return near, ((CUBIC * y - 5 * CUBIC) * y + 8 * CUBIC) * y - 4 * CUBIC


_MODES: Final[dict[str, Callable[[GraphTensor, _Edges], list[_Tap]]]] = {
    "nearest": _nearest,
    "linear": _linear,
    "bilinear": _linear,
    "cubic": _cubic,
    "bicubic": _cubic,
}


def _sampled(images: GraphTensor, spatial: Sequence[int], taps: Sequence[Sequence[_Tap]]) -> GraphTensor:
    """Sums of weighted pixels: {N, C, pixels} and, for each dimension, taps of {N, 1, samples} give {N, C, samples}."""
    return functools.reduce(operator.add, _weighted(images, spatial, taps))


def _weighted(images: GraphTensor, spatial: Sequence[int], taps: Sequence[Sequence[_Tap]]) -> list[GraphTensor]:
    """The weighted pixels around the samples, one for each combination of taps."""
    steps = [math.prod(spatial[number + 1 :]) for number in range(len(spatial))]
    found = []
    for combination in itertools.product(*taps):
        parts = [tap.index * step if step > 1 else tap.index for tap, step in zip(combination, steps, strict=True)]
        index = functools.reduce(operator.add, parts)
        pixel = dml.gather_elements(images, index.broadcast_to((*images.sizes[:2], index.sizes[2])), axis=2)
        for tap in combination:
            if tap.inside is not None:
                pixel = dml.if_(tap.inside, pixel, np.zeros((1, 1, 1), pixel.dtype))
        for tap in combination:
            pixel = pixel if tap.weight is None else pixel * tap.weight
        found.append(pixel)
    return found


def _as_float32(tensor: GraphTensor) -> GraphTensor:
    return tensor if tensor.dtype == np.float32 else dml.cast(tensor, "float32")


def _grid_sample(node: Node) -> Results:
    """Places are computed in float32, and so are sums; those of nearest neighbours are pixels of any type."""
    data, grid = node.tensor(0), _as_float32(node.tensor(1))
    sizes, spatial = node.sizes(0), node.sizes(0)[2:]
    mode = node.text("mode", "linear")
    if mode not in _MODES:
        raise NotExpressibleError(f"the mode {mode!r} is not known")
    taps = []
    for number, length in enumerate(spatial):
        place = grid[..., len(spatial) - 1 - number].reshape(sizes[0], 1, -1)
        if node.integer("align_corners"):
            place, low, high = (place + 1.0) / 2.0 * float(length - 1), 0.0, length - 1.0
        else:
            place, low, high = ((place + 1.0) * float(length) - 1.0) / 2.0, -0.5, length - 0.5
        taps.append(_MODES[mode](place, _Edges(node.text("padding_mode", "zeros"), length, low, high)))
    images = data.reshape(*sizes[:2], -1)
    found = _sampled(images if mode == "nearest" else _as_float32(images), spatial, taps)
    if found.dtype != data.dtype:
        found = dml.cast(found, data.data_type)
    return node.result(found, (*sizes[:2], *node.sizes(1)[1:-1]), node.type_of())


def _affine_grid(node: Node) -> Results:
    """Sums of the places along each dimension, in float32. ONNX's own definition, by other operators, takes the only
    image of a batch for no batch."""
    theta, (batch, *spatial) = _as_float32(node.tensor(0)), _image_sizes(node.integers_of(1))
    count = len(spatial)
    if theta.sizes != (batch, count, count + 1):
        raise NotExpressibleError(f"theta: expected the sizes {[batch, count, count + 1]}, got {list(theta.sizes)}")
    rows = theta.reshape(batch, *[1] * count, count, count + 1)
    terms = []
    for number, length in enumerate(reversed(spatial)):
        # The last dimension of an image is the first of its places.
        place = _centres(theta.graph, length, bool(node.integer("align_corners")))
        terms.append(place.reshape(1, -1, *[1] * (number + 1)) * rows[..., number])
    moved = functools.reduce(operator.add, terms) + rows[..., count]
    found = moved if theta.dtype == node.type_of() else dml.cast(moved, node.type_of().name)
    return node.result(found, (batch, *spatial, count))


def _image_sizes(sizes: Sequence[int]) -> list[int]:
    """Those of a batch of images or volumes without their channels; few numbers can ask for more than a tensor has."""
    if len(sizes) not in (4, 5) or min(sizes) < 1:
        raise NotExpressibleError(f"size: expected 4 or 5 sizes, none below 1, got {quoted(list(sizes))}")
    batch, _, *spatial = sizes
    elements = math.prod([batch, *spatial, len(spatial)])
    if elements > MAXIMUM_UINT:
        raise NotExpressibleError(f"its result would have {elements} elements, at most {MAXIMUM_UINT} fit")
    return [batch, *spatial]


def _centres(graph: Graph, length: int, are_corners: bool) -> GraphTensor:
    """Where the pixels of a dimension lie between -1 and 1: their centres, the first and the last of which may be the
    corners. One pixel is in the middle, as in PyTorch, whose operator this was; ONNX has no number for it."""
    doubled = dml.fill_value_sequence(
        [length], output_data_type="float32", value_start=1.0 - length, value_delta=2.0, device=graph
    )
    return doubled / float(length - 1 if are_corners and length > 1 else length)


def _deformable_convolution(node: Node) -> Results:
    """Every element of the window is sampled at a place of its own, then this is a product of matrices."""
    data, filter, offset = (node.tensor(position) for position in range(3))
    batch, channels, *spatial = data.sizes
    outputs, _, *window = filter.sizes
    count, elements = len(spatial), math.prod(window)
    strides, dilations = (node.integers(name) or [1] * count for name in ("strides", "dilations"))
    pads = node.integers("pads") or [0] * count
    groups, parts = node.integer("group", 1), node.integer("offset_group", 1)
    image = offset.sizes[2:]
    moves = _as_float32(offset).reshape(batch * parts, elements, count, *image)
    taps = []
    for number, length in enumerate(spatial):
        usual = _places(window, image, number, strides[number], dilations[number], pads[number])
        place = (moves[:, :, number] + usual).reshape(batch * parts, 1, -1)
        taps.append(_linear(place, _Edges("zeros", length, 0.0, length - 1.0)))
    images = _as_float32(data).reshape(batch * parts, channels // parts, -1)
    columns = _sampled(images, spatial, taps)
    if node.has(4):
        columns = columns * _as_float32(node.tensor(4)).reshape(batch * parts, 1, -1)
    columns = columns.reshape(batch, groups, channels // groups * elements, math.prod(image))
    rows = _as_float32(filter).reshape(1, groups, outputs // groups, -1)
    found = (rows.broadcast_to((batch, *rows.sizes[1:])) @ columns).reshape(batch, outputs, *image)
    if node.has(3):
        found = found + _as_float32(node.tensor(3)).reshape(1, -1, *[1] * count)
    return node.result(found if data.dtype == np.float32 else dml.cast(found, data.data_type))


def _places(
    window: Sequence[int], image: Sequence[int], number: int, stride: int, dilation: int, pad: int
) -> np.ndarray[Any, Any]:
    """Where elements of the window lie along a dimension without offsets: {1, elements, *image}."""
    elements = np.indices(window)[number].reshape(1, -1, *[1] * len(image)) * dilation
    outputs = np.indices(image)[number][None, None] * stride
    found: np.ndarray[Any, Any] = (elements + outputs - pad).astype(np.float32)
    return found


# ---- regions


def _region_align(node: Node) -> Results:
    """Averages are ROI_ALIGN1's, which has nothing outside of the image: samples up to one pixel outside are those at
    its edge in ONNX, so the first row and column are repeated and everything is moved."""
    is_half = node.text("coordinate_transformation_mode", _USUAL_PLACES[node.version >= 16]) == "half_pixel"
    ratio = node.integer("sampling_ratio")
    data, regions = node.tensor(0), node.tensor(1) * node.number("spatial_scale", 1.0)
    if not is_half:
        regions = _at_least_a_pixel(regions)
    if node.text("mode", "avg") != "avg":
        return _region_maxima(node, regions - (0.5 if is_half else 0.0))
    found = dml.roi_align(
        dml.padding(data, start_padding=[0, 0, 1, 1], end_padding=[0] * 4, padding_mode="EDGE"),
        regions + (0.5 if is_half else 1.0),
        dml.cast(node.tensor(2), "uint32"),
        output_height=node.integer("output_height", 1),
        output_width=node.integer("output_width", 1),
        input_pixel_offset=0.0,
        output_pixel_offset=-0.5,
        minimum_samples_per_output=ratio or 1,
        maximum_samples_per_output=ratio or (1 << 32) - 1,
    )
    return node.result(found)


_USUAL_PLACES: Final = ("output_half_pixel", "half_pixel")


def _at_least_a_pixel(regions: GraphTensor) -> GraphTensor:
    """Regions of one pixel where they would be smaller."""
    first, last = regions[:, :2], regions[:, 2:]
    return dml.join([first, dml.max(last, first + 1.0)], axis=1)


def _region_maxima(node: Node, regions: GraphTensor) -> Results:
    """ONNX's maxima are those of the four weighted pixels around each sample, not of samples."""
    ratio = node.integer("sampling_ratio")
    if ratio < 1:
        raise NotExpressibleError("maxima of as many samples as regions have pixels have no operator")
    data = node.tensor(0)
    count, channels, spatial = regions.sizes[0], data.sizes[1], data.sizes[2:]
    outputs = [node.integer(name, 1) for name in ("output_height", "output_width")]
    samples = [output * ratio for output in outputs]
    taps = []
    for number, length in enumerate(spatial):
        first, last = regions[:, 1 - number : 2 - number], regions[:, 3 - number : 4 - number]
        steps = ((np.arange(samples[number]) + 0.5) / samples[number]).astype(np.float32)[None]
        place = (last - first) * steps + first
        spread = [count, 1, *(samples[i] if i == number else 1 for i in range(2))]
        every = place.reshape(spread).broadcast_to([count, 1, *samples]).reshape(count, 1, -1)
        taps.append(_linear_to_edges(_as_float32(every), length))
    images = dml.gather(data.reshape(data.sizes[0], -1), node.tensor(2).reshape(1, -1), axis=0, index_dimensions=1)
    corners = _weighted(_as_float32(images).reshape(count, channels, -1), spatial, taps)
    largest = functools.reduce(dml.max, corners)
    blocks = largest.reshape(count, channels, outputs[0], ratio, outputs[1], ratio)
    found = dml.reduce(blocks, "MAX", axes=[3, 5]).reshape(count, channels, *outputs)
    return node.result(found if data.dtype == np.float32 else dml.cast(found, data.data_type))


def _linear_to_edges(place: GraphTensor, length: int) -> list[_Tap]:
    """Samples up to one pixel outside are those at the edge, others are zeros."""
    inside = dml.logical_and(dml.greater_than_or_equal(place, -1.0), dml.less_than_or_equal(place, float(length)))
    before, after = _linear(_limited(place, length), _Edges("border", length, 0.0, length - 1.0))
    return [_Tap(tap.index, tap.weight, inside) for tap in (before, after)]


def _max_region_pool(node: Node) -> Results:
    regions = node.tensor(1)
    height, width = node.integers("pooled_shape") or [1, 1]
    found = dml.roi_pooling(
        node.tensor(0),
        regions.reshape(1, 1, *regions.sizes),
        pooled_size=(width, height),
        spatial_scale=node.number("spatial_scale", 1.0),
    )
    return node.result(found)


SAMPLING: Final[Table] = {
    "AffineGrid": _affine_grid,
    "DeformConv": _deformable_convolution,
    "GridSample": _grid_sample,
    "MaxRoiPool": _max_region_pool,
    "RoiAlign": _region_align,
}
