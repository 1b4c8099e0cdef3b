"""The functions: which there are, and what they compute on arrays."""

from __future__ import annotations

import doctest
import importlib
import inspect
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import reference
from calls import FAMILIES, FUNCTIONS, Array, described, numbers

import opendml as dml
from opendml import operators
from opendml.functions import core
from opendml.operators import class_name, implemented

# ---- the functions as a whole


@pytest.mark.sampled
@pytest.mark.parametrize("name", FUNCTIONS)
def test_examples(name: str) -> None:
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(verbose=False)
    (test,) = finder.find(FUNCTIONS[name], name, globs={"np": np, "dml": dml})
    assert test.examples
    assert runner.run(test).failed == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_exported(name: str) -> None:
    assert getattr(dml, name) is FUNCTIONS[name]
    assert name in dir(dml)
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    assert parameters["device"].kind is parameters["out"].kind is inspect.Parameter.KEYWORD_ONLY
    assert parameters["device"].default is parameters["out"].default is None


def test_every_operator_has_a_function() -> None:
    sources = "".join(
        inspect.getsource(importlib.import_module(f"opendml.functions.{module}")) for module in [*FAMILIES, "versions"]
    )
    for operator_type in implemented():
        assert class_name(operator_type) in sources or f"OperatorType.{operator_type.name}," in sources, operator_type


# ---- values


def test_identity_and_add() -> None:
    x, y = numbers((3, 4)), numbers((3, 4), seed=1)
    np.testing.assert_array_equal(dml.identity(x), x)
    np.testing.assert_array_equal(dml.identity(x, scale_bias=dml.ScaleBias(2, 1)), x * 2 + 1)
    np.testing.assert_array_equal(dml.add(x, y), x + y)
    fused = dml.add(x, y, fused_activation=dml.fused_activation.relu())
    np.testing.assert_array_equal(fused, np.maximum(x + y, 0))
    np.testing.assert_array_equal(dml.add(x, y, fused_activation=operators.ActivationRelu()), fused)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "operator"),
    [
        ("int8", -3, 4, "ElementWiseClip1"),
        ("uint8", 2, np.inf, "ElementWiseClip"),
        ("int32", -2.5, 2, "ElementWiseClip"),
        ("int16", -(10**9), 3, "ElementWiseClip"),
        ("float16", -np.inf, 2.5, "ElementWiseClip1"),
        ("int64", -(2**62) - 1, 5, "ElementWiseClip1"),
    ],
)
def test_clip(dtype: str, low: float, high: float, operator: str) -> None:
    x = numbers((20,), dtype)
    x[:2] = [np.iinfo(dtype).min, np.iinfo(dtype).max] if dtype[0] != "f" else [-np.inf, np.nan]
    assert type(described(dml.clip, x, low, high)).__name__ == operator
    limits = [low, high]
    if dtype[0] != "f":
        range_ = np.iinfo(dtype)
        limits = [
            int(np.trunc(np.clip(limit, range_.min, range_.max))) if limit != np.inf else range_.max for limit in limits
        ]
    np.testing.assert_array_equal(dml.clip(x, low, high), np.clip(x, *[x.dtype.type(limit) for limit in limits]))


@pytest.mark.parametrize("target", ["uint8", np.int16, np.dtype("float64"), dml.TensorDataType.FLOAT16])
def test_cast(target: Any) -> None:
    x = np.array([-1.5, 0, 70000.5, 3.75, np.nan], np.float32)
    dtype = np.dtype(target.dtype if isinstance(target, dml.TensorDataType) else target)
    np.testing.assert_array_equal(dml.cast(x, target), reference.cast(x, dtype))


def test_slice_and_its_gradient() -> None:
    x = numbers((5, 7))
    result = dml.slice(x, input_window_offsets=[1, 0], input_window_sizes=[3, 7], input_window_strides=[2, -3])
    np.testing.assert_array_equal(result, x[1:4:2, ::-3])
    expected = np.zeros_like(x)
    expected[1:4:2, ::-3] = result
    np.testing.assert_array_equal(
        dml.slice_grad(
            result,
            output_sizes=[5, 7],
            input_window_offsets=[1, 0],
            input_window_sizes=[3, 7],
            input_window_strides=[2, -3],
        ),
        expected,
    )


def test_split_and_join() -> None:
    x = numbers((2, 6, 3), "uint16")
    pieces = dml.split(x, axis=1, output_axis_sizes=[1, 2, 3])
    assert isinstance(pieces, tuple)
    for piece, expected in zip(pieces, np.split(x, [1, 3], axis=1), strict=True):
        np.testing.assert_array_equal(piece, expected)
    np.testing.assert_array_equal(dml.join(pieces, axis=1), x)
    np.testing.assert_array_equal(dml.join([x], axis=0), x)


def test_padding_and_tile() -> None:
    x = numbers((3, 4), "int16")
    modes = {"CONSTANT": "constant", "EDGE": "edge", "REFLECTION": "reflect", "SYMMETRIC": "symmetric", "WRAP": "wrap"}
    for mode, numpy_mode in modes.items():
        options = {"constant_values": -7} if mode == "CONSTANT" else {}
        expected = np.pad(x, [(1, 2), (2, 0)], numpy_mode, **options)  # type: ignore[call-overload]
        np.testing.assert_array_equal(
            dml.padding(x, padding_mode=mode, padding_value=-7, start_padding=[1, 2], end_padding=[2, 0]), expected
        )
    assert (
        dml.padding(x, padding_mode="CONSTANT", padding_value=2.75, start_padding=[0, 1], end_padding=[0, 0])[0, 0] == 2
    )
    np.testing.assert_array_equal(dml.tile(x, (2, 3)), np.tile(x, (2, 3)))


def test_max_pooling_and_unpooling() -> None:
    x = np.random.default_rng(0).permutation(2 * 3 * 5 * 6).astype(np.float32).reshape(2, 3, 5, 6)
    pooled = dml.max_pooling(x, window_size=[2, 3], strides=[2, 3], end_padding=[1, 0], output_indices=True)
    padded = np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 0)], constant_values=-np.inf)
    expected = padded.reshape(2, 3, 3, 2, 2, 3).max(axis=(3, 5))
    values, indices = pooled
    assert pooled.values is values
    assert pooled.indices is indices
    np.testing.assert_array_equal(values, expected)
    assert indices is not None
    assert indices.dtype == np.uint32
    np.testing.assert_array_equal(x.ravel()[indices], values)
    unpooled = dml.max_unpooling(values, indices, output_sizes=x.shape)
    np.testing.assert_array_equal(unpooled, np.where(np.isin(x, values), x, 0))
    assert dml.max_pooling(x, window_size=[2, 3]).indices is None


def test_average_and_lp_pooling() -> None:
    x = numbers((1, 2, 4, 6))
    blocks = x.reshape(1, 2, 2, 2, 3, 2)
    np.testing.assert_array_equal(dml.average_pooling(x, strides=[2, 2], window_size=[2, 2]), blocks.mean(axis=(3, 5)))
    np.testing.assert_allclose(
        dml.lp_pooling(x, window_size=[2, 2], strides=[2, 2]), np.sqrt((blocks * blocks).sum(axis=(3, 5))), rtol=1e-6
    )
    np.testing.assert_array_equal(
        dml.lp_pooling(x, window_size=[2, 2], p=1, strides=[2, 2]), np.abs(blocks).sum(axis=(3, 5))
    )
    corner = dml.average_pooling(
        x, strides=[9, 9], window_size=[2, 2], start_padding=[1, 1], end_padding=[0, 0], include_padding=True
    )
    np.testing.assert_array_equal(corner, x[..., :1, :1] / 4)
    dilated = dml.average_pooling(x, strides=[1, 1], window_size=[2, 2], dilations=[2, 4])
    np.testing.assert_array_equal(dilated, (x[:, :, :2, :2] + x[:, :, 2:, :2] + x[:, :, :2, 4:] + x[:, :, 2:, 4:]) / 4)


def test_gather() -> None:
    x = numbers((3, 4, 5))
    indices = np.array([[[2, -3, 0]]], np.int32)
    np.testing.assert_array_equal(dml.gather(x, indices, axis=1, index_dimensions=1), x[:, [2, 1, 0]])
    flat = numbers((1, 1, 6))
    places = np.array([[[0, 5], [3, 3]]], np.uint32)
    np.testing.assert_array_equal(dml.gather(flat, places, axis=2, index_dimensions=2)[0], flat[0, 0][places[0]])


def test_more_gathers() -> None:
    x, generator = numbers((3, 4, 5)), np.random.default_rng(1)
    places = generator.integers(0, 4, (3, 7, 5))
    np.testing.assert_array_equal(dml.gather_elements(x, places, axis=1), np.take_along_axis(x, places, 1))
    tuples = generator.integers(0, 3, (1, 6, 2))
    rows = dml.gather_nd(x, tuples, input_dimension_count=3, indices_dimension_count=2)
    np.testing.assert_array_equal(rows[0], x[tuples[0, :, 0], tuples[0, :, 1]])
    batches = dml.gather_nd(
        x,
        generator.integers(0, 1, (3, 2, 1)),
        input_dimension_count=3,
        indices_dimension_count=3,
        batch_dimension_count=1,
    )
    np.testing.assert_array_equal(batches, np.repeat(x[:, :1], 2, axis=1))


def test_scatters_and_one_hot() -> None:
    x, places = numbers((3, 4)), np.array([[1], [3], [0]], np.uint32)
    expected = x.copy()
    np.put_along_axis(expected, places.astype(np.int64), x[:, 2:3], 1)
    np.testing.assert_array_equal(dml.scatter_elements(x, places, x[:, 2:3], axis=1), expected)
    rows = dml.scatter_nd(
        x, np.array([[2], [-3]], np.int64), -x[:2], input_dimension_count=2, indices_dimension_count=2
    )
    np.testing.assert_array_equal(rows, [-x[1], x[1], -x[0]])
    np.testing.assert_array_equal(
        dml.one_hot(places, np.array([[0, 1]], np.int8), output_length=4, axis=1), np.eye(4)[places[:, 0]]
    )


def test_reversals_and_diagonals() -> None:
    x = numbers((3, 4))
    lengths = np.broadcast_to(np.array([[2], [0], [9]], np.uint64), (3, 1))
    expected = [[*x[0, 1::-1], *x[0, 2:]], x[1], x[2, ::-1]]
    np.testing.assert_array_equal(dml.reverse_subsequences(x, lengths, axis=1), expected)
    np.testing.assert_array_equal(
        dml.diagonal_matrix(None, output_sizes=(3, 4), output_data_type=np.float32, value=2, diagonal_fill_begin=-1),
        np.eye(3, 4, -1) * 2,
    )
    upper = dml.diagonal_matrix(x, value=0, diagonal_fill_begin=-9, diagonal_fill_end=0)
    np.testing.assert_array_equal(upper, np.triu(x))
    assert dml.diagonal_matrix(x.astype(np.int8), output_sizes=[3, 4], output_data_type="int8").dtype == np.int8


def test_positions() -> None:
    x = numbers((3, 4, 5)) // 4
    first, last = (
        dml.argmax(x, axes=[2], output_data_type="int64"),
        dml.argmax(x, axes=[2], axis_direction="DECREASING"),
    )
    np.testing.assert_array_equal(first, x.argmax(2, keepdims=True))
    np.testing.assert_array_equal(last, 4 - x[..., ::-1].argmax(2, keepdims=True))
    assert first.dtype == np.int64 and last.dtype == np.uint32
    np.testing.assert_array_equal(dml.argmin(x), [[[x.argmin()]]])


@pytest.mark.parametrize("order", ["DEPTH_COLUMN_ROW", dml.DepthSpaceOrder.COLUMN_ROW_DEPTH])
def test_space_and_depth(order: Any) -> None:
    x = numbers((2, 3, 4, 6))
    deep = dml.space_to_depth(x, block_size=2, order=order)
    np.testing.assert_array_equal(deep, reference.space_to_depth(x, 2, depth_first=order == "DEPTH_COLUMN_ROW"))
    np.testing.assert_array_equal(dml.depth_to_space(deep, block_size=2, order=order), x)


def test_reduce() -> None:
    x = numbers((3, 4, 5))
    for function, expected in {
        "SUM": x.sum(axis=(0, 2), keepdims=True),
        "MAX": x.max(axis=(0, 2), keepdims=True),
        "AVERAGE": x.mean(axis=(0, 2), keepdims=True),
        "L1": np.abs(x).sum(axis=(0, 2), keepdims=True),
    }.items():
        np.testing.assert_allclose(dml.reduce(x, function, axes=[0, 2]), expected, rtol=1e-6)
    np.testing.assert_array_equal(dml.reduce(x, "ARGMAX"), [[[x.argmax()]]])
    assert dml.reduce(x, "ARGMIN", axes=[1], output_data_type=np.int64).dtype == np.int64


def test_fill_values() -> None:
    constant = dml.fill_value_constant([2, 3], output_data_type="uint64", value=2**64 - 1)
    assert constant.dtype == np.uint64
    assert (constant == 2**64 - 1).all()
    sequence = dml.fill_value_sequence((2, 3), output_data_type=np.int16, value_start=5, value_delta=-2)
    np.testing.assert_array_equal(sequence, (5 - 2 * np.arange(6, dtype=np.int16)).reshape(2, 3))
    assert np.isnan(dml.fill_value_constant([1], output_data_type="float16", value=math.nan)).all()


def test_cumulative() -> None:
    x = numbers((3, 4), "int32")
    np.testing.assert_array_equal(dml.cumulative_summation(x, axis=1), np.cumsum(x, 1))
    np.testing.assert_array_equal(
        dml.cumulative_summation(x, axis=0, axis_direction="DECREASING"), np.cumsum(x[::-1], 0)[::-1]
    )
    shifted = np.concatenate([np.ones((3, 1), np.int32), np.cumprod(x, 1)[:, :-1]], 1)
    np.testing.assert_array_equal(dml.cumulative_product(x, axis=1, exclusive=True), shifted)


def test_upsample() -> None:
    x = numbers((1, 2, 2, 3))
    nearest = dml.upsample_2d(x, scale_size=(2, 3), interpolation_mode="NEAREST_NEIGHBOR")
    np.testing.assert_array_equal(nearest, x.repeat(3, axis=2).repeat(2, axis=3))
    np.testing.assert_allclose(
        dml.upsample_2d(x, scale_size=(2, 3), interpolation_mode="LINEAR"), reference.bilinear(x, 3, 2), atol=1e-5
    )


def convolved(x: Array, filter: Array, stride: int) -> Array:
    """Cross-correlation over two dimensions without padding."""
    (batch, _, height, width), (count, _, rows, columns) = x.shape, filter.shape
    y = np.zeros((batch, count, (height - rows) // stride + 1, (width - columns) // stride + 1), np.float64)
    for i, j in np.ndindex(y.shape[2:]):
        window = x[:, :, i * stride : i * stride + rows, j * stride : j * stride + columns]
        y[:, :, i, j] = np.einsum("ncij,kcij->nk", window, filter)
    return y


def test_convolution() -> None:
    x, filter, bias = numbers((2, 3, 6, 5)), numbers((4, 3, 3, 2), seed=1), numbers((1, 4, 1, 1), seed=2)
    np.testing.assert_array_equal(dml.convolution(x, filter), convolved(x, filter, 1))
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 1)])
    expected = np.maximum(convolved(padded, filter[..., ::-1, ::-1], 2) + bias, 0)
    result = dml.convolution(
        x,
        filter,
        bias,
        mode="CONVOLUTION",
        strides=[2, 2],
        start_padding=[1, 0],
        end_padding=[1, 1],
        fused_activation=dml.fused_activation.relu(),
    )
    np.testing.assert_array_equal(result, expected)


def test_transposed_convolution() -> None:
    """It is the gradient: <conv(x), y> = <x, transposed(y)>."""
    x, filter = numbers((2, 3, 7, 6)), numbers((4, 3, 3, 2), seed=1)
    forward = dml.convolution(x, filter, strides=[2, 2])
    y = numbers(forward.shape, seed=2)
    back = dml.convolution(y, filter, direction="BACKWARD", strides=[2, 2])
    assert back.shape == x.shape
    assert (forward * y).sum() == (x * back).sum()


def test_gemm() -> None:
    a, b, c = numbers((2, 3, 4, 5)), numbers((2, 3, 5, 6), seed=1), numbers((2, 3, 4, 6), seed=2)
    np.testing.assert_array_equal(dml.gemm(a, b), a @ b)
    np.testing.assert_array_equal(dml.gemm(a, b, c, alpha=2, beta=-1), 2 * (a @ b) - c)
    # Views with exchanged strides stand for transposed matrices as well.
    np.testing.assert_array_equal(dml.gemm(a.swapaxes(2, 3), b, trans_a="TRANSPOSE"), a @ b)
    transposed = np.ascontiguousarray(b.swapaxes(2, 3))
    np.testing.assert_array_equal(dml.gemm(a, transposed, trans_b=dml.MatrixTransform.TRANSPOSE), a @ b)


def test_rnn() -> None:
    x, w, r = numbers((1, 4, 2, 3)), numbers((1, 2, 5, 3), seed=1), numbers((1, 2, 5, 5), seed=2)
    lengths = np.array([[[[4, 2]]]], np.uint32)
    relu = dml.fused_activation.relu()
    outputs = dml.rnn(x, w, r, sequence_lengths=lengths, activation_descs=[relu, relu], direction="BIDIRECTIONAL")
    expected = np.zeros((4, 2, 2, 5), np.float32)
    for item, direction in itertools.product(range(2), range(2)):
        length, state = int(lengths[0, 0, 0, item]), np.zeros(5, np.float32)
        for step in list(range(length))[:: -1 if direction else 1]:
            state = np.maximum(x[0, step, item] @ w[0, direction].T + state @ r[0, direction].T, 0)
            expected[step, direction, item] = state
    assert outputs.sequence is not None
    assert outputs.single is not None
    np.testing.assert_allclose(outputs.sequence, expected, rtol=1e-5)
    np.testing.assert_allclose(outputs.single[0, 0], [expected[3, 0, 0], expected[1, 0, 1]], rtol=1e-5)
    only = dml.rnn(x, w[:, :1], r[:, :1], output_sequence=False)
    assert only.sequence is None
    assert only.single is not None
    assert only.single.shape == (1, 1, 2, 5)


def test_softmax() -> None:
    x = numbers((2, 3, 4))
    powers = np.exp(x)
    np.testing.assert_allclose(
        dml.activation_softmax(x, axes=[0, 2]), powers / powers.sum(axis=(0, 2), keepdims=True), rtol=1e-5
    )
    np.testing.assert_allclose(dml.activation_softmax(x[0]), powers[0] / powers[0].sum(1, keepdims=True), rtol=1e-5)


@pytest.fixture(autouse=True, scope="module")
def _forget_programs() -> Iterator[None]:
    yield
    core.PROGRAMS.clear()
