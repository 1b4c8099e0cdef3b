"""ROI_POOLING, ROI_ALIGN and its second version: against plain loops, ONNX Runtime and known answers of TensorFlow."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from execution import Array, assert_identical, inputs, outputs, random_array, run_single, seeds
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate

bounded = examples(30)
single = np.float32
float_types = st.sampled_from(["FLOAT32", "FLOAT16"])
MODES = st.sampled_from(["LINEAR", "NEAREST_NEIGHBOR"])
FUNCTIONS = st.sampled_from(["AVERAGE", "MAX"])


def side(low: Any, high: Any, scale: float, size: int, count: int, desc: Any) -> list[list[float | None]]:
    """The points of each output along a dimension, in float32; None outside of the image."""
    offsets = (getattr(desc, "input_pixel_offset", 0.5), getattr(desc, "output_pixel_offset", -0.5))
    aligned = getattr(desc, "align_regions_to_corners", False)
    with np.errstate(all="ignore"):
        start = single(low) * single(scale)
        length = single(high) * single(scale) - start
        least = max(desc.minimum_samples_per_output, 1)
        most = max(min(desc.maximum_samples_per_output, 2 * size), least)
        wanted = np.ceil(length / single(count))
        samples = least if math.isnan(wanted) else int(min(max(wanted, least), most))
        step = length / single(samples * count - aligned)
        if aligned and samples * count == 1:
            start, step = start + length * single(0.5), single(0)
        result: list[list[float | None]] = []
        for output in range(count):
            result.append([])
            for sample in range(samples):
                place = (single(output * samples + sample) - single(offsets[1])) * step + start
                result[-1].append(float(place - single(offsets[0])) if 0 <= place <= single(size) else None)
    return result


def sample(plane: Array, y: float, x: float, is_linear: bool) -> float:
    """A plane between its elements, in float64."""
    height, width = plane.shape
    if not is_linear:
        v, u = (int(min(max(math.ceil(single(p) - single(0.5)), 0), n - 1)) for p, n in ((y, height), (x, width)))
        return float(plane[v, u])
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    v, u = int(y), int(x)
    below, right = min(v + 1, height - 1), min(u + 1, width - 1)

    def mixed(a: float, b: float, weight: float) -> float:
        return a if weight == 0 else (1 - weight) * a + weight * b

    upper, lower = (mixed(float(plane[r, u]), float(plane[r, right]), x - u) for r in (v, below))
    return mixed(upper, lower, y - v)


def aligned(x: Array, rois: Array, batches: Array, desc: Any) -> Array:
    """ROI_ALIGN by its page, in float64."""
    count, channels, height, width = desc.output_tensor.sizes
    result = np.zeros((count, channels, height, width))
    is_linear = desc.interpolation_mode.name == "LINEAR"
    for r in range(count):
        x1, y1, x2, y2 = rois.reshape(-1, 4)[r]
        ys = side(y1, y2, desc.spatial_scale_y, x.shape[2], height, desc)
        xs = side(x1, x2, desc.spatial_scale_x, x.shape[3], width, desc)
        image = x[min(int(batches.ravel()[r]), x.shape[0] - 1)]
        for c, oy, ox in np.ndindex(channels, height, width):
            values = [
                desc.out_of_bounds_input_value if v is None or u is None else sample(image[c], v, u, is_linear)
                for v, u in itertools.product(ys[oy], xs[ox])
            ]
            average = desc.reduction_function.name == "AVERAGE"
            result[r, c, oy, ox] = sum(values) / len(values) if average else max(values)
    return result


@st.composite
def region_lists(draw: st.DrawFn, count: int, height: int, width: int) -> Array:
    """Regions inside, across the border and far away, empty, inverted, and of what is no number."""
    inside = [st.floats(0, size, width=16) for size in (width, height) * 2]
    odd = st.sampled_from((-3.0, 0.0, 0.5, 2.5, 1e4, -1e4, math.inf, math.nan))
    rows = st.tuples(*inside) | st.tuples(*(one | odd for one in inside))
    return np.array(draw(st.lists(rows, min_size=count, max_size=count)), np.float64).reshape(count, 4)


@st.composite
def alignments(draw: st.DrawFn, data_type: str) -> tuple[Any, Array, Array]:
    """A descriptor of either version, the regions and the numbers of their images, too large ones among them."""
    count, channels = draw(st.integers(1, 3)), draw(st.integers(1, 9))
    sizes = [draw(st.integers(1, 3)), channels, draw(st.integers(1, 7)), draw(st.integers(1, 9))]
    pooled = [count, channels, draw(st.integers(1, 3)), draw(st.sampled_from((1, 2, 3, 7, 17)))]
    least = draw(st.integers(0, 3))
    fields: dict[str, Any] = {
        "reduction_function": draw(FUNCTIONS),
        "interpolation_mode": draw(MODES),
        "spatial_scale_x": draw(st.sampled_from((1.0, 0.5, -1.0, 1e30))),
        "spatial_scale_y": draw(st.sampled_from((1.0, 2.0, 0.0))),
        "out_of_bounds_input_value": draw(st.sampled_from((0.0, -1.5))),
        "minimum_samples_per_output": least,
        "maximum_samples_per_output": draw(st.sampled_from((least, least + 2, 2**32 - 1))),
    }
    cls: Any = operators.RoiAlign
    if draw(st.booleans()):
        cls = operators.RoiAlign1
        fields["input_pixel_offset"] = draw(st.sampled_from((0.5, 0.0, -2.0)))
        fields["output_pixel_offset"] = draw(st.sampled_from((-0.5, 0.0, 1.0)))
        fields["align_regions_to_corners"] = draw(st.booleans())
    ones = [1] * draw(st.integers(0, 2))
    number = draw(st.sampled_from(["UINT32", "UINT64"]))
    roi = draw(inputs(data_type, [*ones, count, 4], broadcast=False))
    batches = draw(inputs(number, [*ones, count], broadcast=False))
    desc = cls(
        input_tensor=draw(inputs(data_type, sizes)),
        roi_tensor=roi,
        batch_indices_tensor=batches,
        output_tensor=draw(outputs(data_type, pooled)),
        **fields,
    )
    rois = draw(region_lists(count, *sizes[2:])).reshape(roi.sizes).astype(roi.data_type.dtype)
    places = st.integers(0, sizes[0]) | st.sampled_from((2**31, 2**32 - 1))
    numbers = draw(st.lists(places, min_size=count, max_size=count))
    return desc, rois, np.array(numbers, batches.data_type.dtype).reshape(batches.sizes)


@bounded
@given(data=st.data(), data_type=float_types, seed=seeds)
def test_roi_align(data: st.DataObject, data_type: str, seed: int) -> None:
    desc, rois, batches = data.draw(alignments(data_type))
    x = random_array(desc.input_tensor, seed, special=False)
    result = run_single(desc, x, rois, batches)
    close: dict[str, Any] = {"rtol": 2e-3, "atol": 1e-2} if data_type == "FLOAT16" else {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(result.astype(np.float64), aligned(x, rois, batches, desc), **close)


@bounded
@given(data=st.data(), data_type=float_types, seed=seeds)
def test_hostile_inputs_read_nothing_else(data: st.DataObject, data_type: str, seed: int) -> None:
    """Whatever bits regions, images and numbers have: between guard pages, the interpreter being asked the same."""
    desc, *_ = data.draw(alignments(data_type))
    run_single(desc, *(random_array(tensor, seed) for _, tensor in desc.inputs() if tensor is not None))


def alignment(x: Array, rois: Array, output: tuple[int, int], **changes: Any) -> Any:
    """A descriptor of the second version on one image."""
    fields: dict[str, Any] = {
        "reduction_function": "AVERAGE",
        "interpolation_mode": "LINEAR",
        "spatial_scale_x": 1,
        "spatial_scale_y": 1,
        "input_pixel_offset": 0.5,
        "output_pixel_offset": -0.5,
        "out_of_bounds_input_value": 0,
        "minimum_samples_per_output": 1,
        "maximum_samples_per_output": 1,
        "align_regions_to_corners": False,
    }
    return operators.RoiAlign1(
        input_tensor=TensorDesc(x.dtype, x.shape),
        roi_tensor=TensorDesc(rois.dtype, rois.shape),
        batch_indices_tensor=TensorDesc("UINT32", rois.shape[:1]),
        output_tensor=TensorDesc(x.dtype, (len(rois), x.shape[1], *output)),
        **fields | changes,
    )


def test_a_published_answer_of_directml() -> None:
    """A region of two by two pixels in four by four outputs, as a maintainer of DirectML states its result."""
    x = (10 * np.arange(6)[:, None] + np.arange(6)).astype(np.float32).reshape(1, 1, 6, 6)
    rois = np.array([[1, 1, 3, 3]], np.float32)
    found = run_single(alignment(x, rois, (4, 4)), x, rois, np.zeros(1, np.uint32))
    np.testing.assert_array_equal(found[0, 0], 8.25 + 5 * np.arange(4)[:, None] + 0.5 * np.arange(4))


@pytest.mark.parametrize(
    ("box", "crop", "outside", "expected"),
    [
        ([0, 0, 1, 1], (1, 1), 0, [2.5]),
        ([0, 0, 1, 1], (3, 3), 0, [1, 1.5, 2, 2, 2.5, 3, 3, 3.5, 4]),
        ([1, 1, 0, 0], (3, 3), 0, [4, 3.5, 3, 3, 2.5, 2, 2, 1.5, 1]),
        ([-1, -1, 1, 1], (3, 3), -1, [-1, -1, -1, -1, 1, 2, -1, 3, 4]),
    ],
)
def test_crop_and_resize(box: list[float], crop: tuple[int, int], outside: float, expected: list[float]) -> None:
    """TensorFlow's answers for an image of two by two pixels, by corners that are aligned."""
    x, rois = np.array([[[[1, 2], [3, 4]]]], np.float32), np.array([box], np.float32)
    desc = alignment(
        x,
        rois,
        crop,
        input_pixel_offset=0,
        output_pixel_offset=0,
        align_regions_to_corners=True,
        out_of_bounds_input_value=outside,
    )
    found = run_single(desc, x, rois, np.zeros(1, np.uint32))
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-6)


def test_an_infinity_stays_where_it_is() -> None:
    """A sample on a pixel is that pixel: weights of 0 multiply nothing."""
    x = np.array([[[[1, np.inf, 3, np.nan]]]], np.float32)
    rois = np.array([[0, 0, 4, 1]], np.float32)
    found = run_single(alignment(x, rois, (1, 4)), x, rois, np.zeros(1, np.uint32))
    assert_identical(found, x)


@pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 1, 2])
def test_against_onnx_runtime(mode: str, ratio: int) -> None:
    """Regions inside of the image, as ONNX Runtime's provider for DirectML states them."""
    runtime, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    random = np.random.default_rng(ratio)
    x = random.normal(size=(2, 3, 11, 14)).astype(np.float32)
    corners = np.sort(random.uniform(0, 1, (5, 2, 2)), axis=1) + np.array([[0, 0], [0.3, 0.4]])
    rois = (corners * [8.0, 6.0]).reshape(5, 4).astype(np.float32)
    batches = np.array([0, 1, 1, 0, 1])
    attributes = {"output_height": 3, "output_width": 4, "sampling_ratio": ratio, "spatial_scale": 1.25}
    node = helper.make_node("RoiAlign", ["x", "r", "b"], ["y"], coordinate_transformation_mode=mode, **attributes)
    given_values = [
        helper.make_tensor_value_info(name, type, array.shape)
        for name, type, array in (("x", float32, x), ("r", float32, rois), ("b", onnx.TensorProto.INT64, batches))
    ]
    graph = helper.make_graph([node], "g", given_values, [helper.make_tensor_value_info("y", float32, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x, "r": rois, "b": batches})
    found = dml.roi_align(
        x,
        rois,
        batches.astype(np.uint32),
        output_height=3,
        output_width=4,
        spatial_scale_x=1.25,
        spatial_scale_y=1.25,
        input_pixel_offset=0.5 if mode == "half_pixel" else 0,
        minimum_samples_per_output=max(ratio, 1),
        maximum_samples_per_output=ratio or 2**32 - 1,
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def rounded(value: Any) -> int:
    """The nearest integer, halves away from zero."""
    if math.isnan(value):
        return 0
    limit = float(np.clip(value, -(2**29), 2**29))
    return int(math.copysign(math.floor(abs(limit) + 0.5), limit))


def pooled(x: Array, rois: Array, scale: float, size: tuple[int, int]) -> Array:
    """ROI_POOLING by its page."""
    rois = rois.reshape(-1, 5)
    result = np.zeros((len(rois), x.shape[1], *size), x.dtype)
    for r, (batch, *corners) in enumerate(rois):
        with np.errstate(all="ignore"):
            x1, y1, x2, y2 = (rounded(single(corner) * single(scale)) for corner in corners)
        number = 0 if math.isnan(batch) else int(np.clip(np.trunc(np.float64(batch)), 0, x.shape[0] - 1))
        for oy, ox in np.ndindex(*size):
            spans = []
            for o, low, high, count, limit in ((oy, y1, y2, size[0], x.shape[2]), (ox, x1, x2, size[1], x.shape[3])):
                length = max(high - low + 1, 1)
                ends = o * length // count + low, ((o + 1) * length + count - 1) // count + low
                spans.append(slice(*(min(max(end, 0), limit) for end in ends)))
            cut = x[number][:, spans[0], spans[1]]
            if cut.size:
                result[r, :, oy, ox] = cut.max(axis=(1, 2))
    return result


@bounded
@given(data=st.data(), data_type=float_types, seed=seeds)
def test_roi_pooling(data: st.DataObject, data_type: str, seed: int) -> None:
    draw = data.draw
    count, channels = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    sizes = [draw(st.integers(1, 3)), channels, draw(st.integers(1, 7)), draw(st.integers(1, 9))]
    width, height = draw(st.sampled_from((1, 2, 3, 7, 17))), draw(st.integers(1, 3))
    roi = draw(inputs(data_type, [1, 1, count, 5], broadcast=False))
    scale = draw(st.sampled_from((1.0, 0.5, 1 / 16, -1.0, 1e30)))
    desc = operators.RoiPooling(
        input_tensor=draw(inputs(data_type, sizes)),
        roi_tensor=roi,
        output_tensor=draw(outputs(data_type, [count, channels, height, width])),
        spatial_scale=scale,
        pooled_size=(width, height),
    )
    batches = np.array(draw(st.lists(st.sampled_from((-1, 0, 1, 1.75, 99, math.nan)), min_size=count, max_size=count)))
    rois = np.concatenate([batches[:, None], draw(region_lists(count, *sizes[2:])).round(1)], axis=1)
    rois = rois.astype(roi.data_type.dtype).reshape(roi.sizes)
    x = random_array(desc.input_tensor, seed, special=True)
    x = np.where(x == 0, x.dtype.type(0), x)  # which of two zeros is the maximum is said elsewhere
    np.testing.assert_array_equal(run_single(desc, x, rois), pooled(x, rois, scale, (height, width)))


def test_pooled_against_onnx_runtime() -> None:
    runtime, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    random = np.random.default_rng(0)
    x = random.normal(size=(2, 3, 9, 14)).astype(np.float32)
    corners = np.sort(random.uniform(0, 100, (6, 2, 2)).round(), axis=1).reshape(6, 4)
    rois = np.concatenate([random.integers(0, 2, (6, 1)), corners], axis=1).astype(np.float32)
    node = helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[3, 4], spatial_scale=0.125)
    given_values = [helper.make_tensor_value_info(n, float32, a.shape) for n, a in (("x", x), ("r", rois))]
    graph = helper.make_graph([node], "g", given_values, [helper.make_tensor_value_info("y", float32, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x, "r": rois})
    found = dml.roi_pooling(x, rois.reshape(1, 1, 6, 5), pooled_size=(4, 3), spatial_scale=0.125)
    np.testing.assert_array_equal(found, expected)


def test_rules() -> None:
    x, rois = np.zeros((2, 3, 5, 6), np.float32), np.zeros((4, 4), np.float32)
    desc = alignment(x, rois, (2, 2))
    assert validate(desc) == []
    broken = desc.replace(
        reduction_function="SUM",
        minimum_samples_per_output=3,
        maximum_samples_per_output=2,
        roi_tensor=TensorDesc("FLOAT16", [2, 4, 5]),
        batch_indices_tensor=TensorDesc("UINT32", [2, 3]),
        output_tensor=TensorDesc("FLOAT32", [5, 4, 2, 2]),
    )
    assert {violation.field for violation in validate(broken)} == {
        "ReductionFunction",
        "MaximumSamplesPerOutput",
        "ROITensor",
        "ROITensor.Sizes[0]",
        "ROITensor.Sizes[2]",
        "BatchIndicesTensor.Sizes[0]",
        "BatchIndicesTensor.Sizes[1]",
        "OutputTensor.Sizes[0]",
        "OutputTensor.Sizes[1]",
    }
    assert "ROITensor" in desc.to_json()["Desc"]
    assert operators.RoiAlign1.from_json(desc.to_json()) == desc
