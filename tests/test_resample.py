"""RESAMPLE and its gradients: against matrices of weights made element by element, ONNX's reference and PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from execution import Array, assert_identical, inputs, outputs, random_array, run_single, seeds
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc

bounded = examples(25)

MODES = ("NEAREST_NEIGHBOR", "LINEAR")
DIRECTIONS = (None, "INCREASING", "DECREASING")


def place(o: int, scale: float, offsets: tuple[float, float]) -> np.float32:
    """Where an output lies, in float32."""
    single = np.float32
    with np.errstate(all="ignore"):
        return (single(o) - single(offsets[1])) / single(scale) - single(offsets[0])


def nearest(x: np.float32, direction: str | None) -> float:
    """The number of an element, as a real number."""
    if direction is None:
        return math.floor(x + np.float32(0.5))
    return math.ceil(x) if direction == "INCREASING" else math.floor(x)


def weights(
    size: int, count: int, scale: float, offsets: tuple[float, float], mode: str, direction: str | None = None
) -> Array:
    """The matrix that makes ``count`` outputs of ``size`` elements, one row an output."""
    matrix = np.zeros((count, size))
    for o in range(count):
        x = place(o, scale, offsets)
        if mode == "NEAREST_NEIGHBOR":
            i = 0 if math.isnan(x) else int(min(max(nearest(np.clip(x, -9e9, 9e9), direction), 0), size - 1))
            matrix[o, i] = 1
            continue
        x = np.float32(0) if math.isnan(x) else np.clip(x, np.float32(0), np.float32(size - 1))
        low, weight = math.floor(x), float(x) - math.floor(x)
        matrix[o, low] += 1 - weight
        matrix[o, min(low + 1, size - 1)] += weight
    return matrix


def resampled(x: Array, matrices: Sequence[Array]) -> Array:
    """Every dimension multiplied by its matrix, in float64."""
    result = x.astype(np.float64)
    for axis, matrix in enumerate(matrices):
        result = np.moveaxis(np.tensordot(matrix, result, (1, axis)), 0, axis)
    return result


@st.composite
def resamplings(draw: st.DrawFn, integers: bool = False) -> tuple[list[int], list[int], list[float], list[Any]]:
    """Sizes, sizes of outputs, scales (the quotients, or others: crops, repeated edges, backwards) and offsets."""
    rank = draw(st.integers(1, 4))
    sizes = [draw(st.integers(1, 5)) for _ in range(rank - 1)] + [draw(st.integers(1, 40))]
    counts = [draw(st.integers(1, 5)) for _ in range(rank - 1)] + [draw(st.integers(1, 40))]
    if draw(st.booleans()):
        return sizes, counts, [b / a for a, b in zip(sizes, counts, strict=True)], [(0.5, -0.5)] * rank
    scales = [draw(st.sampled_from((1.0, 2.0, 0.5, 3.0, 0.3, 1.7, -0.8, -2.0, 1e-4, 3.4e38, math.inf))) for _ in sizes]
    offsets = [draw(st.sampled_from(((0.5, -0.5), (0.0, 0.0), (1.0, -0.25), (0.5, 0.0), (-7.5, 3.0)))) for _ in sizes]
    return sizes, counts, scales, offsets


def forward(
    sizes: Any, counts: Any, scales: Any, offsets: Any, mode: str, direction: str | None, data_type: str = "FLOAT32"
) -> Operator:
    source, target = (s if isinstance(s, TensorDesc) else TensorDesc(data_type, s) for s in (sizes, counts))
    fields: dict[str, Any] = {"input_tensor": source, "output_tensor": target, "interpolation_mode": mode}
    fields |= {"scales": scales, "input_pixel_offsets": [a for a, _ in offsets]}
    fields["output_pixel_offsets"] = [b for _, b in offsets]
    if direction is None:
        return operators.Resample1(**fields)
    return operators.Resample2(**fields, rounding_direction=direction)


def backward(desc: Any, source: TensorDesc, target: TensorDesc) -> Operator:
    names = ("interpolation_mode", "scales", "input_pixel_offsets", "output_pixel_offsets", "rounding_direction")
    fields = {name: getattr(desc, name) for name in names if name in desc.fields}
    cls = operators.ResampleGrad1 if "rounding_direction" in fields else operators.ResampleGrad
    return cls(input_gradient_tensor=source, output_gradient_tensor=target, **fields)


@bounded
@given(
    data=st.data(),
    drawn=resamplings(),
    mode=st.sampled_from(MODES),
    direction=st.sampled_from(DIRECTIONS),
    data_type=st.sampled_from(["FLOAT32", "FLOAT16", "INT8", "UINT8"]),
    seed=seeds,
)
def test_resample(data: st.DataObject, drawn: Any, mode: str, direction: str | None, data_type: str, seed: int) -> None:
    sizes, counts, scales, offsets = drawn
    source, target = data.draw(inputs(data_type, sizes)), data.draw(outputs(data_type, counts))
    desc = forward(source, target, scales, offsets, mode, direction)
    x = random_array(source, seed, special=mode == "NEAREST_NEIGHBOR")
    result = run_single(desc, x)
    ways = zip(sizes, counts, scales, offsets, strict=True)
    matrices = [weights(*way, mode, direction) for way in ways]
    if mode == "NEAREST_NEIGHBOR":
        assert_identical(result, x[np.ix_(*(matrix.argmax(axis=1) for matrix in matrices))])
        return
    expected = resampled(x, matrices)
    close = {"FLOAT32": 1e-5, "FLOAT16": 2e-2}.get(data_type, 0.5001)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=0, atol=close)


@bounded
@given(
    data=st.data(),
    drawn=resamplings(),
    mode=st.sampled_from(MODES),
    direction=st.sampled_from(DIRECTIONS),
    data_type=st.sampled_from(["FLOAT32", "FLOAT16"]),
    seed=seeds,
)
def test_gradients_are_the_transposed_matrices(
    data: st.DataObject, drawn: Any, mode: str, direction: str | None, data_type: str, seed: int
) -> None:
    sizes, counts, scales, offsets = drawn
    source, target = data.draw(inputs(data_type, counts)), data.draw(outputs(data_type, sizes))
    desc = backward(forward(sizes, counts, scales, offsets, mode, direction), source, target)
    gradient = random_array(source, seed, special=False)
    ways = zip(sizes, counts, scales, offsets, strict=True)
    expected = resampled(gradient, [weights(*way, mode, direction).T for way in ways])
    close: dict[str, Any] = {"rtol": 1e-3, "atol": 2e-2} if data_type == "FLOAT16" else {"rtol": 1e-5, "atol": 1e-4}
    np.testing.assert_allclose(run_single(desc, gradient), expected, **close)


@pytest.mark.sampled
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("size", "count"), [(3, 200), (200, 3), (37, 111), (1, 17)])
@pytest.mark.parametrize("scale", [None, -1.0, 30.0])
def test_long_rows(mode: str, size: int, count: int, scale: float | None) -> None:
    """Rows of vectors, forth and back: outer elements that many outputs read, and elements that none reads."""
    steps = count / size if scale is None else scale
    desc = forward([2, size], [2, count], [1, steps], [(0.5, -0.5), (0.5, -0.5)], mode, "DECREASING")
    matrix = weights(size, count, steps, (0.5, -0.5), mode, "DECREASING")
    x, g = (np.random.default_rng(seed).normal(size=(2, n)).astype(np.float32) for seed, n in enumerate((size, count)))
    np.testing.assert_allclose(run_single(desc, x), x @ matrix.T, rtol=1e-5, atol=1e-5)
    gradient = backward(desc, TensorDesc("FLOAT32", [2, count]), TensorDesc("FLOAT32", [2, size]))
    np.testing.assert_allclose(run_single(gradient, g), g @ matrix, rtol=1e-4, atol=1e-4)


def test_the_first_version_aligns_centres() -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    tensors: dict[str, Any] = {
        "input_tensor": TensorDesc("FLOAT32", [1, 3, 4]),
        "output_tensor": TensorDesc("FLOAT32", [1, 5, 2]),
    }
    for mode in MODES:
        desc = operators.Resample(**tensors, interpolation_mode=mode, scales=[1, 5 / 3, 0.5])
        expected = forward([1, 3, 4], [1, 5, 2], [1, 5 / 3, 0.5], [(0.5, -0.5)] * 3, mode, None)
        assert_identical(run_single(desc, x), run_single(expected, x))


def test_halves_go_up() -> None:
    """Every second element of four by six is number 1, 3 and 5."""
    x = np.arange(24, dtype=np.float32).reshape(1, 1, 4, 6)
    desc = forward([1, 1, 4, 6], [1, 1, 2, 3], [1, 1, 0.5, 0.5], [(0.5, -0.5)] * 4, "NEAREST_NEIGHBOR", None)
    assert_identical(run_single(desc, x), x[:, :, 1::2, 1::2])


def test_an_infinity_stays_where_it_is() -> None:
    """Weights of 0 multiply nothing: an output on an element is that element."""
    x = np.array([[1, np.inf, 3, np.nan]], np.float32)
    desc = forward([1, 4], [1, 7], [1, 2], [(0.0, 0.0)] * 2, "LINEAR", None)
    found = run_single(desc, x)[0]
    assert found[[0, 2, 4]].tolist() == [1, np.inf, 3]
    assert np.isnan(found[[5, 6]]).all()
    gradient = backward(desc, TensorDesc("FLOAT32", [1, 7]), TensorDesc("FLOAT32", [1, 4]))
    g = np.array([[np.inf, 1, 1, 1, 1, 1, 1]], np.float32)
    assert run_single(gradient, g).tolist() == [[np.inf, 2, 2, 1.5]]


def test_bytes_are_rounded_to_nearest() -> None:
    desc = forward([2], [4], [2], [(0.5, -0.5)], "LINEAR", None, "UINT8")
    assert run_single(desc, np.array([10, 255], np.uint8)).tolist() == [10, 71, 194, 255]


@pytest.mark.parametrize("mode", MODES)
def test_against_pytorch(mode: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 3, 8, 12, requires_grad=True)
    named = {"LINEAR": "bilinear", "NEAREST_NEIGHBOR": "nearest-exact"}[mode]
    for height, width in ((16, 24), (4, 6), (5, 30), (11, 7)):
        y = torch.nn.functional.interpolate(x, (height, width), mode=named)
        g = torch.randn_like(y)
        (expected,) = torch.autograd.grad(y, x, g)
        scales = [1, 1, height / 8, width / 12]
        desc = forward(x.shape, y.shape, scales, [(0.5, -0.5)] * 4, mode, None)
        np.testing.assert_allclose(run_single(desc, x.detach().numpy()), y.detach().numpy(), rtol=1e-5, atol=1e-5)
        gradient = backward(desc, TensorDesc("FLOAT32", y.shape), TensorDesc("FLOAT32", x.shape))
        np.testing.assert_allclose(run_single(gradient, g.numpy()), expected.numpy(), rtol=1e-5, atol=1e-5)


def onnx_resize(x: Array, scales: Sequence[float], **attributes: Any) -> Array:
    """ONNX's reference of Resize."""
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], **attributes)
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "scales")]
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    model = helper.make_model(
        helper.make_graph([node], "g", given, result), opset_imports=[helper.make_opsetid("", 18)]
    )
    (y,) = ReferenceEvaluator(model).run(None, {"x": x, "scales": np.array(scales, np.float32)})
    return np.asarray(y)


@pytest.mark.parametrize("scale", [0.6, 0.5, 0.3, 0.14, 1.0, 1.5])
def test_antialiasing_against_onnx(scale: float) -> None:
    x = np.random.default_rng(0).normal(size=(1, 1, 8, 10)).astype(np.float32)
    expected = onnx_resize(x, [1, 1, scale, scale], mode="linear", antialias=1)
    desc = operators.Resample3(
        input_tensor=TensorDesc("FLOAT32", x.shape),
        output_tensor=TensorDesc("FLOAT32", expected.shape),
        interpolation_mode="LINEAR",
        rounding_direction="INCREASING",
        scales=[1, 1, scale, scale],
        input_pixel_offsets=[0.5] * 4,
        output_pixel_offsets=[-0.5] * 4,
        antialiased=True,
    )
    np.testing.assert_allclose(run_single(desc, x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("nearest_mode", "direction", "shift"),
    [
        ("floor", "DECREASING", 0),
        ("ceil", "INCREASING", 0),
        ("round_prefer_floor", "INCREASING", 0.5),
        ("round_prefer_ceil", "DECREASING", -0.5),
    ],
)
@pytest.mark.parametrize("scale", [0.5, 0.75, 1.5, 2.0, 3.0])
def test_nearest_against_onnx(nearest_mode: str, direction: str, shift: float, scale: float) -> None:
    """The four roundings of ONNX, as ONNX Runtime's provider states them."""
    x = np.arange(48, dtype=np.float32).reshape(1, 1, 6, 8)
    expected = onnx_resize(x, [1, 1, scale, scale], mode="nearest", nearest_mode=nearest_mode)
    offsets = [(0.5 + shift if d > 1 else 0.5, -0.5) for d in range(4)]
    desc = forward(x.shape, expected.shape, [1, 1, scale, scale], offsets, "NEAREST_NEIGHBOR", direction)
    np.testing.assert_array_equal(run_single(desc, x)[..., :, :], expected)


def test_tables_do_not_grow_with_hostile_scales() -> None:
    """A filter as wide as the input: weights are computed where they are used, and every element counts."""
    size = 3000
    desc = operators.Resample3(
        input_tensor=TensorDesc("FLOAT32", [size]),
        output_tensor=TensorDesc("FLOAT32", [size]),
        interpolation_mode="LINEAR",
        rounding_direction="INCREASING",
        scales=[1e-38],
        input_pixel_offsets=[0.5],
        output_pixel_offsets=[-0.5],
        antialiased=True,
    )
    definition = desc.define()
    assert sum(math.prod(tensor.sizes) for tensor in definition.temporaries) < 10 * size
    x = np.random.default_rng(0).normal(size=40).astype(np.float32)
    steep = desc.replace(
        scales=[1e-3], input_tensor=TensorDesc("FLOAT32", [40]), output_tensor=TensorDesc("FLOAT32", [2])
    )
    # Both outputs lie beyond the last element, and are taken to be there.
    numbers = np.arange(-1000, 1100)
    shares = np.maximum(1 - np.abs(numbers - 39) / 1000, 0)
    expected = (shares * x[np.clip(numbers, 0, 39)]).sum() / shares.sum()
    np.testing.assert_allclose(run_single(steep, x), [expected, expected], rtol=1e-4)


def test_functions_are_adjoint() -> None:
    x, g = (
        np.random.default_rng(seed).normal(size=size).astype(np.float32) for seed, size in enumerate([(4, 5), (7, 3)])
    )
    for mode in MODES:
        y = dml.resample(x, output_sizes=[7, 3], interpolation_mode=mode)
        back = dml.resample_grad(g, output_sizes=[4, 5], interpolation_mode=mode)
        np.testing.assert_allclose((y * g).sum(), (x * back).sum(), rtol=1e-4)
