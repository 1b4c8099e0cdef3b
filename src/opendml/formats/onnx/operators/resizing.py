"""Resize and Upsample. Places in the input are computed here, so that nearest neighbours are those that ONNX means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results, normal_axis
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["RESIZING"]

Floats = npt.NDArray[np.float64]

LARGEST: Final = 1 << 20
"""Elements of a dimension, at most: each has a place that is computed while the graph is made."""

LARGEST_MATRIX: Final = 1 << 23
"""Weights of a dimension, at most: they are computed while the graph is made. From 4096 to 2048 it has as many."""

RESAMPLED_RANK: Final = 4
"""Dimensions that RESAMPLE has."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """A dimension that is resized; ``places`` are where in the input its outputs lie, ``outside`` those beyond it."""

    axis: int
    length: int
    count: int
    scale: float
    places: Floats
    outside: npt.NDArray[np.bool_]


def _resize(node: Node) -> Results:
    axes, sizes = _axes(node)
    tensor = node.tensor()
    if not axes:
        return node.value(0)
    if node.text("mode", "nearest") == "nearest":
        tensor = _nearest(node, tensor, axes)
    elif tensor.dtype.kind != "f":
        raise NotExpressibleError(f"interpolation between {tensor.dtype} has no operator")
    elif _is_resampled(node, tensor, axes):
        tensor = _resampled(tensor, axes, sizes)
    else:
        tensor = _products(node, tensor, axes)
    return node.result(_extrapolated(node, tensor, axes), sizes, node.type_of())


def _extrapolated(node: Node, tensor: GraphTensor, axes: Sequence[_Axis]) -> GraphTensor:
    """With ``extrapolation_value`` at places outside of the input (tf_crop_and_resize)."""
    value = np.full((1,) * tensor.rank, node.number("extrapolation_value"), tensor.dtype)
    for one in axes:
        if one.outside.any():
            sizes = [1] * tensor.rank
            sizes[one.axis] = one.count
            tensor = dml.if_(one.outside.astype(np.uint8).reshape(sizes), value, tensor)
    return tensor


# ---- sizes and places


def _axes(node: Node) -> tuple[list[_Axis], list[int]]:
    """The dimensions that change, and all sizes of the result."""
    sizes = node.sizes()
    given = node.integers("axes")
    order = list(range(len(sizes))) if given is None else [normal_axis(axis, len(sizes)) for axis in given]
    scales, counts = _scales(node, [sizes[axis] for axis in order])
    mode = _mode(node)
    roi = [float(one) for one in node.known(1)] if mode == "tf_crop_and_resize" else []
    found, result = [], list(sizes)
    for number, axis in enumerate(order):
        length, count, scale = sizes[axis], counts[number], scales[number]
        result[axis] = count
        if count < 1:
            raise NotExpressibleError("its result has no elements")
        if count > LARGEST:
            raise NotExpressibleError(f"its result would have {count} elements along a dimension")
        region = (roi[number], roi[number + len(order)]) if roi else (0.0, 1.0)
        if scale == 1 and count == length and region == (0.0, 1.0):
            continue
        places = _places(mode, length, count, scale, region)
        outside = (places < 0) | (places > length - 1) if roi else np.zeros(count, np.bool_)
        found.append(_Axis(axis, length, count, scale, places, outside))
    return found, result


def _mode(node: Node) -> str:
    if node.operator == "Upsample" or node.version < 11:
        return "asymmetric"
    return node.text("coordinate_transformation_mode", "half_pixel")


def _scales(node: Node, lengths: Sequence[int]) -> tuple[list[float], list[int]]:
    """Scales, and the sizes that they give or come from."""
    position = 1 if node.operator == "Upsample" or node.version < 11 else 2
    if "scales" in node.attributes:
        scales = [float(one) for one in node.attributes["scales"]]
    elif node.has(position) and node.known(position).size:
        scales = [float(one) for one in node.known(position)]
    else:
        return _scales_of_sizes(node.text("keep_aspect_ratio_policy", "stretch"), node.integers_of(3), lengths)
    return scales, [math.floor(length * scale) for length, scale in zip(lengths, scales, strict=True)]


def _scales_of_sizes(policy: str, sizes: Sequence[int], lengths: Sequence[int]) -> tuple[list[float], list[int]]:
    scales = [size / length for size, length in zip(sizes, lengths, strict=True)]
    if policy == "stretch":
        return scales, list(sizes)
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [scale] * len(scales), [math.floor(scale * length + 0.5) for length in lengths]


def _places(mode: str, length: int, count: int, scale: float, region: tuple[float, float]) -> Floats:
    """Where the outputs lie in the input, in elements."""
    outputs: Floats = np.arange(count, dtype=np.float64)
    width = scale * length
    if mode == "align_corners":
        return outputs * 0 if width == 1 else outputs * (length - 1) / (width - 1)
    if mode == "asymmetric":
        return outputs / scale
    if mode == "tf_crop_and_resize":
        start, extent = region[0] * (length - 1), (region[1] - region[0]) * (length - 1)
        return start + (outputs * 0 + extent / 2 if width == 1 else outputs * extent / (width - 1))
    if mode == "tf_half_pixel_for_nn":
        return (outputs + 0.5) / scale
    centres = (outputs + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return length / 2 * (1 - count / width) + centres
    if mode == "pytorch_half_pixel" and width == 1:
        return outputs * 0 - 0.5
    if mode not in ("half_pixel", "pytorch_half_pixel"):
        raise NotExpressibleError(f"coordinates by {mode!r} are not known")
    return centres


# ---- nearest neighbours


_ROUNDING: Final[dict[str, Any]] = {
    "round_prefer_floor": lambda places: np.ceil(places - 0.5),
    "round_prefer_ceil": lambda places: np.floor(places + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _nearest(node: Node, tensor: GraphTensor, axes: Sequence[_Axis]) -> GraphTensor:
    old = node.operator == "Upsample" or node.version < 11
    rounding = "floor" if old else node.text("nearest_mode", "round_prefer_floor")
    for one in axes:
        indices = np.clip(_ROUNDING[rounding](one.places), 0, one.length - 1).astype(np.int64)
        tensor = _taken(tensor, one, indices)
    return tensor


def _taken(tensor: GraphTensor, one: _Axis, indices: npt.NDArray[np.int64]) -> GraphTensor:
    """The elements at some indices along a dimension: repeated, which costs nothing before a copy, or gathered."""
    axis, times = one.axis, one.count // one.length
    if times * one.length == one.count and np.array_equal(indices, np.arange(one.count) // times):
        sizes = tensor.sizes
        seen = tensor.expand_dims(axis + 1).broadcast_to((*sizes[: axis + 1], times, *sizes[axis + 1 :]))
        return seen.reshape(*sizes[:axis], one.count, *sizes[axis + 1 :])
    places = indices.astype(np.int32).reshape(*[1] * (tensor.rank - 1), -1)
    return dml.gather(tensor, places, axis=axis, index_dimensions=1)


# ---- interpolation


def _is_resampled(node: Node, tensor: GraphTensor, axes: Sequence[_Axis]) -> bool:
    """Whether RESAMPLE means the same."""
    plain = not node.integer("antialias") and not node.integer("exclude_outside")
    steps = [one.places[1] - one.places[0] if one.count > 1 else 1.0 for one in axes]
    return node.text("mode") == "linear" and plain and tensor.rank <= RESAMPLED_RANK and min(steps) > 0


def _resampled(tensor: GraphTensor, axes: Sequence[_Axis], sizes: Sequence[int]) -> GraphTensor:
    """Places are ``output * step + first``."""
    scales, offsets = [1.0] * tensor.rank, [0.0] * tensor.rank
    for one in axes:
        step = one.places[1] - one.places[0] if one.count > 1 else 1.0
        scales[one.axis], offsets[one.axis] = 1 / step, -one.places[0]
    return dml.resample(
        tensor,
        output_sizes=sizes,
        interpolation_mode="LINEAR",
        scales=scales,
        input_pixel_offsets=offsets,
        output_pixel_offsets=[0.0] * tensor.rank,
    )


def _products(node: Node, tensor: GraphTensor, axes: Sequence[_Axis]) -> GraphTensor:
    """Along each dimension the product with a matrix of weights."""
    narrow = tensor.dtype != np.float32
    found = dml.cast(tensor, "float32") if narrow else tensor
    for one in axes:
        weights = _weights(node, one).astype(np.float32)
        order = [*(i for i in range(found.rank) if i != one.axis), one.axis]
        moved = found.transpose(order)
        product: GraphTensor = moved.reshape(-1, one.length) @ weights.T
        back = [order.index(i) for i in range(found.rank)]
        found = product.reshape(*moved.sizes[:-1], one.count).transpose(back)
    return dml.cast(found, tensor.data_type) if narrow else found


def _weights(node: Node, one: _Axis) -> Floats:
    """How much of each input each output has; places beyond the edges are those at the edge."""
    antialias = bool(node.integer("antialias"))
    scale = min(one.scale, 1.0) if antialias else 1.0
    kernel, reach = (_linear, 1) if node.text("mode") == "linear" else (_cubic, 2)
    first = math.floor(-reach / scale) + 1
    if one.count * max(one.length, 2 - 2 * first) > LARGEST_MATRIX:
        raise NotExpressibleError(
            f"the weights from {one.length} to {one.count} elements along a dimension are too many"
        )
    bases = np.ceil(one.places) - 1
    steps = np.arange(first, 2 - first)
    near = kernel((steps[None] - (one.places - bases)[:, None]) * scale, node.number("cubic_coeff_a", -0.75))
    indices = (bases[:, None] + steps[None]).astype(np.int64)
    if antialias:
        near = near / near.sum(1, keepdims=True)
    if node.integer("exclude_outside"):
        near = np.where((indices < 0) | (indices >= one.length), 0, near)
        near = near / near.sum(1, keepdims=True)
    weights = np.zeros((one.count, one.length))
    rows = np.broadcast_to(np.arange(one.count)[:, None], indices.shape)
    np.add.at(weights, (rows, np.clip(indices, 0, one.length - 1)), near)
    return weights


def _linear(distances: Floats, _: float) -> Floats:
    found: Floats = np.clip(1 - np.abs(distances), 0, 1)
    return found


def _cubic(distances: Floats, a: float) -> Floats:
    x = np.abs(distances)
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, inner, np.where(x < 2, outer, 0))


RESIZING: Final[Table] = {"Resize": _resize, "Upsample": _resize}
