"""ROI_ALIGN_GRAD: against a scatter sample by sample, differences in float64 and the forward operator."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from execution import Array, inputs, outputs, random_array, run_operator, seeds
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from test_regions import FUNCTIONS, MODES, float_types, region_lists, sample, side

import opendml as dml
from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate

bounded = examples(30)
single = np.float32


def neighbours(p: float, size: int, is_linear: bool) -> tuple[tuple[int, float], tuple[int, float]]:
    """The elements that a point reads along a dimension, and their weights."""
    if not is_linear:
        i = min(max(math.ceil(single(p) - single(0.5)), 0), size - 1)
        return (i, 1.0), (i, 0.0)
    p = min(max(p, 0), size - 1)
    i = int(p)
    return (i, 1 - (p - i)), (min(i + 1, size - 1), p - i)


def rounded_sample(plane: Array, y: float, x: float, is_linear: bool) -> np.float32:
    """As ``sample``, each operation in float32: which of two samples is larger may depend on that."""
    (v, _), (below, wy) = neighbours(y, plane.shape[0], is_linear)
    (u, _), (right, wx) = neighbours(x, plane.shape[1], is_linear)

    def mixed(a: Any, b: Any, weight: float) -> Any:
        w = single(weight)
        return a if weight == 0 else (single(1) - w) * single(a) + w * single(b)

    upper, lower = (mixed(single(plane[r, u]), single(plane[r, right]), wx) for r in (v, below))
    return single(mixed(upper, lower, wy))


def backward(desc: Any, x: Array | None, g: Array, rois: Array, batches: Array) -> tuple[Array, Array]:
    """Both gradients by the page, in float64."""
    count, channels, height, width = g.shape
    image = desc.input_tensor or desc.output_gradient_tensor
    gradient, roi_gradient = np.zeros(image.sizes), np.zeros((count, 4))
    is_linear, is_average = desc.interpolation_mode.name == "LINEAR", desc.reduction_function.name == "AVERAGE"
    scales = (desc.spatial_scale_y, desc.spatial_scale_x)
    for r in range(count):
        x1, y1, x2, y2 = rois.reshape(-1, 4)[r]
        ys = side(y1, y2, scales[0], image.sizes[2], height, desc)
        xs = side(x1, x2, scales[1], image.sizes[3], width, desc)
        batch = min(int(batches.ravel()[r]), image.sizes[0] - 1)
        for c, oy, ox in np.ndindex(channels, height, width):
            points = [
                (v, u, oy * len(ys[oy]) + i, ox * len(xs[ox]) + j)
                for (i, v), (j, u) in itertools.product(enumerate(ys[oy]), enumerate(xs[ox]))
                if v is not None and u is not None
            ]
            share = float(g[r, c, oy, ox]) / (len(ys[oy]) * len(xs[ox]))
            if not is_average:
                assert x is not None
                values = [rounded_sample(x[batch, c], v, u, is_linear) for v, u, _, _ in points]
                points, share = points[int(np.argmax(values)) :][:1] if points else [], float(g[r, c, oy, ox])
            for v, u, sy, sx in points:
                pairs = itertools.product(
                    neighbours(v, image.sizes[2], is_linear), neighbours(u, image.sizes[3], is_linear)
                )
                for (row, wy), (column, wx) in pairs:
                    gradient[batch, c, row, column] += share * wy * wx
                if x is None:
                    continue
                totals = (height * len(ys[oy]), width * len(xs[ox]))
                slopes = slope(x[batch, c], v, u)
                for k, (number, total) in enumerate(zip((sy, sx), totals, strict=True)):
                    divisor = total - desc.align_regions_to_corners
                    way = (number - desc.output_pixel_offset) / divisor if divisor else 0.5
                    change = slopes[k] * share * scales[k]
                    roi_gradient[r, 1 - k] += change * (1 - way)
                    roi_gradient[r, 3 - k] += change * way
    return gradient, roi_gradient


def slope(plane: Array, y: float, x: float) -> tuple[float, float]:
    """How a plane changes along y and x at a point, 0 on an element."""
    (v, _), (_, wy) = neighbours(y, plane.shape[0], True)
    (u, _), (_, wx) = neighbours(x, plane.shape[1], True)
    below, right = v + (wy > 0), u + (wx > 0)
    p = plane.astype(np.float64)
    along_y = (1 - wx) * (p[below, u] - p[v, u]) + wx * (p[below, right] - p[v, right])
    along_x = (1 - wy) * (p[v, right] - p[v, u]) + wy * (p[below, right] - p[below, u])
    return float(along_y), float(along_x)


@st.composite
def gradients(draw: st.DrawFn, data_type: str) -> tuple[Any, Array, Array]:
    """A descriptor, the regions and the numbers of their images, too large ones among them."""
    count, channels = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    sizes = [draw(st.integers(1, 3)), channels, draw(st.integers(1, 6)), draw(st.sampled_from((1, 2, 5, 9, 17)))]
    pooled = [count, channels, draw(st.integers(1, 3)), draw(st.sampled_from((1, 2, 3, 7)))]
    least, function = draw(st.integers(0, 3)), draw(FUNCTIONS)
    which = draw(st.integers(1, 3))
    ones = [1] * draw(st.integers(0, 2))
    has_input = which > 1 or function == "MAX" or draw(st.booleans())
    roi = draw(inputs(data_type, [*ones, count, 4], broadcast=False))
    batches = draw(inputs("UINT32", [*ones, count], broadcast=False))
    desc = operators.RoiAlignGrad(
        input_tensor=draw(inputs(data_type, sizes, broadcast=False)) if has_input else None,
        input_gradient_tensor=draw(inputs(data_type, pooled)),
        roi_tensor=roi,
        batch_indices_tensor=batches,
        output_gradient_tensor=draw(outputs(data_type, sizes)) if which & 1 else None,
        output_roi_gradient_tensor=draw(outputs(data_type, roi.sizes)) if which & 2 else None,
        reduction_function=function,
        interpolation_mode=draw(MODES),
        spatial_scale_x=draw(st.sampled_from((1.0, 0.5, -1.0))),
        spatial_scale_y=draw(st.sampled_from((1.0, 2.0, 0.0))),
        input_pixel_offset=draw(st.sampled_from((0.5, 0.0))),
        output_pixel_offset=draw(st.sampled_from((-0.5, 0.0))),
        minimum_samples_per_output=least,
        maximum_samples_per_output=draw(st.sampled_from((least, least + 2, 2**32 - 1))),
        align_regions_to_corners=draw(st.booleans()),
    )
    rois = draw(region_lists(count, *sizes[2:])).reshape(roi.sizes).astype(roi.data_type.dtype)
    places = st.integers(0, sizes[0]) | st.sampled_from((2**31, 2**32 - 1))
    numbers = draw(st.lists(places, min_size=count, max_size=count))
    return desc, rois, np.array(numbers, np.uint32).reshape(batches.sizes)


@bounded
@given(data=st.data(), data_type=float_types, seed=seeds)
def test_gradients(data: st.DataObject, data_type: str, seed: int) -> None:
    desc, rois, batches = data.draw(gradients(data_type))
    x = None if desc.input_tensor is None else random_array(desc.input_tensor, seed, special=False)
    g = random_array(desc.input_gradient_tensor, seed + 1, special=False)
    found = run_operator(desc, [x, g, rois, batches])
    expected = backward(desc, x, g, rois, batches)
    close: dict[str, Any] = {"rtol": 5e-3, "atol": 5e-2} if data_type == "FLOAT16" else {"rtol": 1e-3, "atol": 1e-3}
    for result, wanted in zip(found, expected, strict=True):
        if result is not None:
            np.testing.assert_allclose(result.astype(np.float64), wanted.reshape(result.shape), **close)


@bounded
@given(data=st.data(), data_type=float_types, seed=seeds)
def test_hostile_inputs_touch_nothing_else(data: st.DataObject, data_type: str, seed: int) -> None:
    """Whatever bits images, gradients, regions and numbers have."""
    desc, *_ = data.draw(gradients(data_type))
    run_operator(desc, [None if t is None else random_array(t, seed + i) for i, (_, t) in enumerate(desc.inputs())])


@pytest.mark.parametrize("mode", ["LINEAR", "NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("corners", [False, True])
def test_the_gradient_is_the_transposed_operator(mode: str, corners: bool) -> None:
    """An average is linear in the image: products of one with the other are the same."""
    random = np.random.default_rng(0)
    wide = random.normal(size=(2, 3, 9, 20)), random.normal(size=(5, 3, 3, 7))
    corners_of = np.concatenate([random.uniform(0, 5, (5, 2)), random.uniform(4, 10, (5, 2))], axis=1)
    x, g, rois = (array.astype(np.float32) for array in (*wide, corners_of))
    batches = np.array([0, 1, 1, 0, 1], np.uint32)
    fields: dict[str, Any] = {"interpolation_mode": mode, "align_regions_to_corners": corners, "spatial_scale_x": 1.5}
    y = dml.roi_align(x, rois, batches, output_height=3, output_width=7, **fields)
    back = dml.roi_align_grad(x, g, rois, batches, **fields).gradient
    assert back is not None
    np.testing.assert_allclose((y * g).sum(), (x * back).sum(), rtol=1e-4)


def test_the_gradient_of_regions_is_the_derivative() -> None:
    """Against differences of the interpolation itself, in float64, where the image is smooth."""
    random = np.random.default_rng(1)
    v, u = np.meshgrid(np.arange(8.0), np.arange(10.0), indexing="ij")
    plane = 3 * v - 2 * u + 0.5 * u * v
    rois, g = np.array([[1.3, 0.7, 7.1, 6.2], [2.2, 1.1, 5.9, 7.4]]), random.normal(size=(2, 1, 2, 3))

    def value(corners: Array) -> float:
        total = 0.0
        for region, incoming in zip(corners, g[:, 0], strict=True):
            x1, y1, x2, y2 = region
            for oy, ox in np.ndindex(2, 3):
                samples = [
                    sample(
                        plane,
                        y1 + (oy * 2 + i + 0.5) * (y2 - y1) / 4 - 0.5,
                        x1 + (ox * 2 + j + 0.5) * (x2 - x1) / 6 - 0.5,
                        True,
                    )
                    for i, j in np.ndindex(2, 2)
                ]
                total += incoming[oy, ox] * sum(samples) / 4
        return total

    expected = np.zeros_like(rois)
    for place in np.ndindex(rois.shape):
        step = np.zeros_like(rois)
        step[place] = 1e-5
        expected[place] = (value(rois + step) - value(rois - step)) / 2e-5
    found = dml.roi_align_grad(
        plane.astype(np.float32).reshape(1, 1, 8, 10),
        g.astype(np.float32),
        rois.astype(np.float32),
        [0, 0],
        compute_output_gradient=False,
        compute_output_roi_gradient=True,
        minimum_samples_per_output=2,
        maximum_samples_per_output=2,
    )
    assert found.gradient is None and found.roi_gradient is not None
    np.testing.assert_allclose(found.roi_gradient, expected, rtol=1e-3, atol=1e-3)


def test_what_is_no_number_stays_where_it_is() -> None:
    """An infinite gradient reaches the elements of its samples; shares of 0 are none."""
    g, rois = np.array([[[[np.inf, 1]]]], np.float32), np.array([[0, 0, 2, 1]], np.float32)
    image: dict[str, Any] = {"batch_size": 1, "image_height": 2, "image_width": 4}
    found = dml.roi_align_grad(None, g, rois, [0], **image)
    assert found.gradient is not None
    assert found.gradient.tolist() == [[[[np.inf, 1, 0, 0], [0, 0, 0, 0]]]]


def test_the_first_of_the_largest_samples_has_the_gradient() -> None:
    """Of equal samples, minus infinities too, and a NaN before all numbers."""
    g, rois = np.array([[[[5]]]], np.float32), np.array([[0, 0, 4, 1]], np.float32)
    for row, place in (([2, 7, 7, 1], 1), ([-np.inf] * 4, 0), ([2, 9, np.nan, np.nan], 2)):
        x = np.array([[[row]]], np.float32)
        found = dml.roi_align_grad(x, g, rois, [0], reduction_function="MAX")
        assert found.gradient is not None
        assert found.gradient.ravel().tolist() == [5 * (i == place) for i in range(4)]


def test_rules() -> None:
    pooled, regions = TensorDesc("FLOAT32", [5, 3, 2, 2]), TensorDesc("FLOAT32", [5, 4])
    desc = operators.RoiAlignGrad(
        input_gradient_tensor=pooled,
        roi_tensor=regions,
        batch_indices_tensor=TensorDesc("UINT32", [5]),
        output_gradient_tensor=TensorDesc("FLOAT32", [1, 3, 7, 7]),
        reduction_function="AVERAGE",
        interpolation_mode="LINEAR",
        spatial_scale_x=1,
        spatial_scale_y=1,
        input_pixel_offset=0.5,
        output_pixel_offset=-0.5,
        minimum_samples_per_output=1,
        maximum_samples_per_output=1,
        align_regions_to_corners=False,
    )
    assert validate(desc) == []
    for changes, named in (
        ({"reduction_function": "MAX"}, {"InputTensor"}),
        ({"output_roi_gradient_tensor": regions}, {"InputTensor"}),
        ({"output_gradient_tensor": None}, {"OutputGradientTensor"}),
        ({"output_gradient_tensor": TensorDesc("FLOAT32", [1, 4, 7, 7])}, {"InputGradientTensor.Sizes[1]"}),
        ({"input_tensor": TensorDesc("FLOAT32", [1, 3, 7, 8])}, {"OutputGradientTensor.Sizes[3]"}),
    ):
        assert {violation.field for violation in validate(desc.replace(**changes))} == named


def test_one_sample_of_each_output() -> None:
    """Regions of nearest neighbours that lie beside each other: every gradient is where its sample was."""
    rois = np.array([[0, 0, 2, 2], [2, 0, 4, 2], [0, 2, 2, 4], [2, 2, 4, 4]], np.float32)
    fields: dict[str, Any] = {"interpolation_mode": "NEAREST_NEIGHBOR", "maximum_samples_per_output": 1}
    desc = operators.RoiAlignGrad(
        input_gradient_tensor=TensorDesc("FLOAT32", [4, 1, 1, 3]),
        roi_tensor=TensorDesc("FLOAT32", [4, 4]),
        batch_indices_tensor=TensorDesc("UINT32", [4]),
        output_gradient_tensor=TensorDesc("FLOAT32", [1, 1, 4, 4]),
        reduction_function="AVERAGE",
        spatial_scale_x=1,
        spatial_scale_y=1,
        input_pixel_offset=0.5,
        output_pixel_offset=-0.5,
        minimum_samples_per_output=1,
        align_regions_to_corners=False,
        **fields,
    )
    g = np.arange(1, 13, dtype=np.float32).reshape(4, 1, 1, 3)
    found = run_operator(desc, [None, g, rois, np.zeros(4, np.uint32)])[0]
    assert found.ravel().tolist() == [3, 3, 9, 6, 0, 0, 0, 0, 15, 9, 21, 12, 0, 0, 0, 0]
