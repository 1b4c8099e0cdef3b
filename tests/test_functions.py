"""The eager functions: inference, defaults, operands of every kind, results, caching and errors."""

from __future__ import annotations

import array
import contextlib
import doctest
import importlib
import inspect
import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

import opendml as dml
from opendml import operators
from opendml.descriptors import Operator, operator_class
from opendml.functions import core
from opendml.operators import class_name, implemented
from opendml.rules import validate

Array = np.ndarray[Any, Any]
bounded = settings(max_examples=60, deadline=None)

# The functions are grouped as the operators are.
FAMILIES = sorted({operator_class(operator).__module__.rpartition(".")[2] for operator in implemented()})
FUNCTIONS = {
    name: function
    for family in FAMILIES
    for name, function in vars(importlib.import_module(f"opendml.functions.{family}")).items()
    if inspect.isfunction(function)
    and function.__module__ == f"opendml.functions.{family}"
    and "out" in inspect.signature(function).parameters
    and not name.startswith("_")
}


class Recorder(dml.Device):
    """A device that keeps the descriptors it compiles. Every one is a device of its own for the program cache."""

    numbers = itertools.count()

    def __init__(self, feature_level: str = "6_4", valid_only: bool = False) -> None:
        super().__init__("cpu", feature_level=feature_level)
        self.descs: list[Operator] = []
        self.valid_only = valid_only
        self.number = next(Recorder.numbers)

    @property
    def _key(self) -> tuple[object, ...]:
        return (*super()._key, self.number)

    def compile(self, operator: Any) -> Any:
        checked = self.create_operator(operator)
        self.descs.append(operator)
        if self.valid_only:
            raise ValidDescriptorError
        return super().compile(checked)


class ValidDescriptorError(Exception):
    """A descriptor was found valid; what remains is not compiled."""


def described(function: Callable[..., Any], *arguments: Any, level: str = "6_4", **options: Any) -> Any:
    """The valid descriptor that a call makes."""
    recorder = Recorder(level, valid_only=True)
    with pytest.raises(ValidDescriptorError):
        function(*arguments, device=recorder, **options)
    return recorder.descs[0]


def numbers(shape: Sequence[int], dtype: str = "float32", seed: int = 0) -> Array:
    generator = np.random.default_rng(seed)
    values = generator.integers(-9, 10, shape) if dtype[0] != "u" else generator.integers(0, 20, shape)
    return values.astype(dtype)


# ---- the functions as a whole


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


# ---- inference: what is inferred validates, and is what DirectMLX or the formula says


def spatial_parameters(data: st.DataObject, size: Sequence[int]) -> dict[str, list[int]]:
    dilations = [data.draw(st.integers(1, 2)) for _ in size]
    start = [data.draw(st.integers(0, 2)) for _ in size]
    end = [data.draw(st.integers(0, 2)) for _ in size]
    fitting = [(n + s + e - 1) // d + 1 for n, s, e, d in zip(size, start, end, dilations, strict=True)]
    window = [data.draw(st.integers(1, min(most, 4))) for most in fitting]
    strides = [data.draw(st.integers(1, 3)) for _ in size]
    return {
        "window_size": window,
        "strides": strides,
        "start_padding": start,
        "end_padding": end,
        "dilations": dilations,
    }


@bounded
@given(data=st.data())
def test_pooling_sizes(data: st.DataObject) -> None:
    size = data.draw(st.lists(st.integers(1, 9), min_size=2, max_size=3))
    parameters = spatial_parameters(data, size)
    x = np.zeros((2, 3, *size), np.float32)
    desc = described(dml.max_pooling, x, **parameters, output_indices=True)
    windows = []
    for n, w, s, a, b, d in zip(size, *parameters.values(), strict=True):
        windows.append(len(range(0, n + a + b - (w - 1) * d, s)))
    assert desc.output_tensor.sizes == desc.output_indices_tensor.sizes == (2, 3, *windows)
    assert described(dml.lp_pooling, x, **parameters).output_tensor.sizes == (2, 3, *windows)
    parameters["window_sizes"] = parameters.pop("window_size")
    assert described(dml.average_pooling, x, **parameters).output_tensor.sizes == (2, 3, *windows)


@bounded
@given(data=st.data())
def test_convolution_sizes(data: st.DataObject) -> None:
    """The transposed convolution of the output has the sizes of the input again, up to what strides round off."""
    size = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    parameters = spatial_parameters(data, size)
    window = parameters.pop("window_size")
    groups = data.draw(st.integers(1, 2))
    x, filter = np.zeros((2, 3 * groups, *size), np.float32), np.zeros((5 * groups, 3, *window), np.float32)
    forward = described(dml.convolution, x, filter, group_count=groups, **parameters)
    sizes = forward.output_tensor.sizes
    counts = [
        len(range(0, n + a + b - (w - 1) * d, s))
        for n, w, s, a, b, d in zip(size, window, *parameters.values(), strict=True)
    ]
    assert sizes == (2, 5 * groups, *counts)
    extra = [
        (n + a + b - (w - 1) * d - 1) % s for n, w, s, a, b, d in zip(size, window, *parameters.values(), strict=True)
    ]
    y = np.zeros(sizes, np.float32)
    backward = described(
        dml.convolution, y, filter, direction="BACKWARD", output_padding=extra, group_count=groups, **parameters
    )
    assert backward.output_tensor.sizes == x.shape


@bounded
@given(data=st.data(), shape=st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_slice_sizes(data: st.DataObject, shape: list[int]) -> None:
    offsets = [data.draw(st.integers(0, n - 1)) for n in shape]
    window = [data.draw(st.integers(1, n - first)) for n, first in zip(shape, offsets, strict=True)]
    strides = [data.draw(st.integers(-3, 3).filter(bool)) for _ in shape]
    sizes = described(dml.slice, np.zeros(shape, np.int8), offsets, window, strides).output_tensor.sizes
    assert sizes == tuple(len(range(0, n, abs(stride))) for n, stride in zip(window, strides, strict=True))
    part = np.zeros(sizes, np.int8)
    assert described(dml.slice_grad, part, shape, offsets, window, strides).output_gradient_tensor.sizes == tuple(shape)


@bounded
@given(data=st.data(), shape=st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_other_sizes(data: st.DataObject, shape: list[int]) -> None:
    x = np.zeros(shape, np.float32)
    repeats = [data.draw(st.integers(1, 3)) for _ in shape]
    start, end = ([data.draw(st.integers(0, 3)) for _ in shape] for _ in range(2))
    axis = data.draw(st.integers(0, len(shape) - 1))
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    pieces = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    whole = np.zeros((*shape[:axis], sum(pieces), *shape[axis + 1 :]), np.float32)
    parts = described(dml.split, whole, axis, pieces).output_tensors
    assert [part.sizes[axis] for part in parts] == pieces
    joined = described(dml.join, [np.zeros(part.sizes, np.float32) for part in parts], axis)
    assert joined.output_tensor.sizes == whole.shape
    assert described(dml.tile, x, repeats).output_tensor.sizes == np.tile(x, repeats).shape
    padded = np.pad(x, list(zip(start, end, strict=True)))
    assert described(dml.padding, x, "EDGE", 0, start, end).output_tensor.sizes == padded.shape
    reduced = described(dml.reduce, x, "SUM", sorted(axes)).output_tensor.sizes
    assert reduced == x.sum(axis=tuple(axes), keepdims=True).shape
    assert described(dml.cumulative_product, x, axis).output_tensor.sizes == x.shape


@bounded
@given(data=st.data())
def test_gather_sizes(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 5))
    index_dimensions = data.draw(st.integers(0, rank))
    used = rank - max(index_dimensions - 1, 0)
    axis = data.draw(st.integers(rank - used, rank - 1))
    shape = [1] * (rank - used) + [data.draw(st.integers(1, 4)) for _ in range(used)]
    indices = [data.draw(st.integers(1, 3)) for _ in range(index_dimensions)]
    x = np.zeros(shape, np.float32)
    places = np.zeros((*[1] * (rank - index_dimensions), *indices), np.uint32)
    desc = described(dml.gather, x, places, axis, index_dimensions)
    # NumPy takes the indices in place of the axis; the rank then differs by leading sizes of 1.
    taken = np.take(x, places.reshape(indices), axis).shape
    assert [n for n in desc.output_tensor.sizes if n > 1] == [n for n in taken if n > 1]


def test_more_sizes() -> None:
    x = np.zeros((2, 12, 4, 6), np.float32)
    assert described(dml.space_to_depth, x, 2).output_tensor.sizes == (2, 48, 2, 3)
    assert described(dml.depth_to_space, x, 2).output_tensor.sizes == (2, 3, 8, 12)
    assert described(dml.upsample_2d, x, dml.Size2D(width=3, height=2), "LINEAR").output_tensor.sizes == (2, 12, 8, 18)
    a, b = np.zeros((5, 2, 3), np.float32), np.zeros((5, 4, 2), np.float32)
    gemm = described(dml.gemm, a, b, trans_a="TRANSPOSE", trans_b="TRANSPOSE")
    assert gemm.output_tensor.sizes == (5, 3, 4)
    inputs = [np.zeros(sizes, np.float32) for sizes in ((1, 7, 2, 3), (1, 2, 5, 3), (1, 2, 5, 5))]
    rnn = described(dml.rnn, *inputs, direction="BIDIRECTIONAL")
    assert rnn.output_sequence_tensor.sizes == (7, 2, 2, 5)
    assert rnn.output_single_tensor.sizes == (1, 2, 2, 5)


def test_explicit_output_sizes() -> None:
    x = np.arange(7, dtype=np.float32).reshape(1, 1, 1, 7)
    rounded_up = dml.max_pooling(x, [1, 2], [1, 2], output_sizes=[1, 1, 1, 4]).values
    assert rounded_up.ravel().tolist() == [1, 3, 5, 6]
    assert dml.slice(x, [0] * 4, [1, 1, 1, 7], [1, 1, 1, 2], output_sizes=[1, 1, 1, 2]).ravel().tolist() == [0, 2]


# ---- defaults


def test_defaults_are_those_of_directmlx() -> None:
    x = np.zeros((1, 2, 5, 5), np.float32)
    pooling = described(dml.max_pooling, x, [2, 2])
    assert (pooling.strides, pooling.dilations) == ((1, 1), (1, 1))
    assert (pooling.start_padding, pooling.end_padding) == ((0, 0), (0, 0))
    assert pooling.output_indices_tensor is None
    assert described(dml.max_pooling, x, [2, 2], strides=[]).strides == (1, 1)
    volume = np.zeros((1, 1, 2, 2, 2), np.float32)
    convolution = described(dml.convolution, volume, volume)
    assert convolution.mode is dml.ConvolutionMode.CROSS_CORRELATION
    assert convolution.direction is dml.ConvolutionDirection.FORWARD
    assert (convolution.strides, convolution.dilations) == ((1, 1, 1), (1, 1, 1))
    assert convolution.output_padding == (0, 0, 0)
    assert (convolution.group_count, convolution.bias_tensor, convolution.fused_activation) == (1, None, None)
    gemm = described(dml.gemm, np.zeros((1, 1), "float32"), np.zeros((1, 1), "float32"))
    assert (gemm.trans_a, gemm.trans_b, gemm.alpha, gemm.beta) == (0, 0, 1, 1)
    assert described(dml.reduce, x, "SUM").axes == (0, 1, 2, 3)
    assert described(dml.reduce, x, dml.ReduceFunction.ARGMIN).output_tensor.data_type == dml.TensorDataType.UINT32
    assert described(dml.reduce, x, "ARGMAX", [1], "int64").output_tensor.data_type == dml.TensorDataType.INT64
    assert described(dml.space_to_depth, np.zeros((1, 1, 2, 2)), 2).order is dml.DepthSpaceOrder.DEPTH_COLUMN_ROW
    assert isinstance(described(dml.activation_softmax, np.zeros((1, 2), "float32")), operators.ActivationSoftmax)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("elu", [1.0]),
        ("celu", [1.0]),
        ("hard_sigmoid", [0.2, 0.5]),
        ("leaky_relu", [0.01]),
        ("scaled_elu", [1.67326319217681884765625, 1.05070102214813232421875]),
        ("scaled_tanh", [1.0, 0.5]),
        ("shrink", [0.0, 0.5]),
        ("softplus", [1.0]),
        ("thresholded_relu", [1.0]),
        ("relu", []),
    ],
)
def test_defaults_of_activations(name: str, values: list[float]) -> None:
    alone = described(getattr(dml, f"activation_{name}"), np.zeros((1, 1), np.float32))
    fused = getattr(dml.fused_activation, name)()
    expected = [float(np.float32(value)) for value in values]
    assert [value for value in alone.values().values() if isinstance(value, float)] == expected
    assert fused == alone.replace(input_tensor=None, output_tensor=None)


@pytest.mark.parametrize(
    "name", [name for name, function in vars(dml.fused_activation).items() if callable(function) and name.islower()]
)
def test_fused_activations_are_valid(name: str) -> None:
    make = getattr(dml.fused_activation, name)
    needed = [p for p in inspect.signature(make).parameters.values() if p.default is inspect.Parameter.empty]
    activation = make(*[0.5] * len(needed))
    a = np.zeros((1, 1), np.float32)
    described(dml.gemm, a, a, fused_activation=activation)
    assert activation == make(*[0.5] * len(needed))


# ---- values


def test_identity_and_add() -> None:
    x, y = numbers((3, 4)), numbers((3, 4), seed=1)
    np.testing.assert_array_equal(dml.identity(x), x)
    np.testing.assert_array_equal(dml.identity(x, dml.ScaleBias(2, 1)), x * 2 + 1)
    np.testing.assert_array_equal(dml.add(x, y), x + y)
    fused = dml.add(x, y, dml.fused_activation.relu())
    np.testing.assert_array_equal(fused, np.maximum(x + y, 0))
    np.testing.assert_array_equal(dml.add(x, y, operators.ActivationRelu()), fused)


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
    result = dml.slice(x, [1, 0], [3, 7], [2, -3])
    np.testing.assert_array_equal(result, x[1:4:2, ::-3])
    expected = np.zeros_like(x)
    expected[1:4:2, ::-3] = result
    np.testing.assert_array_equal(dml.slice_grad(result, [5, 7], [1, 0], [3, 7], [2, -3]), expected)


def test_split_and_join() -> None:
    x = numbers((2, 6, 3), "uint16")
    pieces = dml.split(x, 1, [1, 2, 3])
    assert isinstance(pieces, tuple)
    for piece, expected in zip(pieces, np.split(x, [1, 3], axis=1), strict=True):
        np.testing.assert_array_equal(piece, expected)
    np.testing.assert_array_equal(dml.join(pieces, 1), x)
    np.testing.assert_array_equal(dml.join([x], axis=0), x)


def test_padding_and_tile() -> None:
    x = numbers((3, 4), "int16")
    modes = {"CONSTANT": "constant", "EDGE": "edge", "REFLECTION": "reflect", "SYMMETRIC": "symmetric", "WRAP": "wrap"}
    for mode, numpy_mode in modes.items():
        options = {"constant_values": -7} if mode == "CONSTANT" else {}
        expected = np.pad(x, [(1, 2), (2, 0)], numpy_mode, **options)  # type: ignore[call-overload]
        np.testing.assert_array_equal(dml.padding(x, mode, -7, [1, 2], [2, 0]), expected)
    assert dml.padding(x, "CONSTANT", 2.75, [0, 1], [0, 0])[0, 0] == 2
    np.testing.assert_array_equal(dml.tile(x, (2, 3)), np.tile(x, (2, 3)))


def test_max_pooling_and_unpooling() -> None:
    x = np.random.default_rng(0).permutation(2 * 3 * 5 * 6).astype(np.float32).reshape(2, 3, 5, 6)
    pooled = dml.max_pooling(x, [2, 3], strides=[2, 3], end_padding=[1, 0], output_indices=True)
    padded = np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 0)], constant_values=-np.inf)
    expected = padded.reshape(2, 3, 3, 2, 2, 3).max(axis=(3, 5))
    values, indices = pooled
    assert pooled.values is values
    assert pooled.indices is indices
    np.testing.assert_array_equal(values, expected)
    assert indices is not None
    assert indices.dtype == np.uint32
    np.testing.assert_array_equal(x.ravel()[indices], values)
    unpooled = dml.max_unpooling(values, indices, x.shape)
    np.testing.assert_array_equal(unpooled, np.where(np.isin(x, values), x, 0))
    assert dml.max_pooling(x, [2, 3]).indices is None


def test_average_and_lp_pooling() -> None:
    x = numbers((1, 2, 4, 6))
    blocks = x.reshape(1, 2, 2, 2, 3, 2)
    np.testing.assert_array_equal(dml.average_pooling(x, [2, 2], [2, 2]), blocks.mean(axis=(3, 5)))
    np.testing.assert_allclose(
        dml.lp_pooling(x, [2, 2], strides=[2, 2]), np.sqrt((blocks * blocks).sum(axis=(3, 5))), rtol=1e-6
    )
    np.testing.assert_array_equal(dml.lp_pooling(x, [2, 2], 1, [2, 2]), np.abs(blocks).sum(axis=(3, 5)))
    corner = dml.average_pooling(x, [9, 9], [2, 2], [1, 1], [0, 0], include_padding=True)
    np.testing.assert_array_equal(corner, x[..., :1, :1] / 4)
    dilated = dml.average_pooling(x, [1, 1], [2, 2], dilations=[2, 4])
    np.testing.assert_array_equal(dilated, (x[:, :, :2, :2] + x[:, :, 2:, :2] + x[:, :, :2, 4:] + x[:, :, 2:, 4:]) / 4)


def test_gather() -> None:
    x = numbers((3, 4, 5))
    indices = np.array([[[2, -3, 0]]], np.int32)
    np.testing.assert_array_equal(dml.gather(x, indices, 1, 1), x[:, [2, 1, 0]])
    flat = numbers((1, 1, 6))
    places = np.array([[[0, 5], [3, 3]]], np.uint32)
    np.testing.assert_array_equal(dml.gather(flat, places, 2, 2)[0], flat[0, 0][places[0]])


def test_more_gathers() -> None:
    x, generator = numbers((3, 4, 5)), np.random.default_rng(1)
    places = generator.integers(0, 4, (3, 7, 5))
    np.testing.assert_array_equal(dml.gather_elements(x, places, 1), np.take_along_axis(x, places, 1))
    tuples = generator.integers(0, 3, (1, 6, 2))
    rows = dml.gather_nd(x, tuples, 3, 2)
    np.testing.assert_array_equal(rows[0], x[tuples[0, :, 0], tuples[0, :, 1]])
    batches = dml.gather_nd(x, generator.integers(0, 1, (3, 2, 1)), 3, 3, 1)
    np.testing.assert_array_equal(batches, np.repeat(x[:, :1], 2, axis=1))


def test_scatters_and_one_hot() -> None:
    x, places = numbers((3, 4)), np.array([[1], [3], [0]], np.uint32)
    expected = x.copy()
    np.put_along_axis(expected, places.astype(np.int64), x[:, 2:3], 1)
    np.testing.assert_array_equal(dml.scatter_elements(x, places, x[:, 2:3], 1), expected)
    rows = dml.scatter_nd(x, np.array([[2], [-3]], np.int64), -x[:2], 2, 2)
    np.testing.assert_array_equal(rows, [-x[1], x[1], -x[0]])
    np.testing.assert_array_equal(dml.one_hot(places, np.array([[0, 1]], np.int8), 4, 1), np.eye(4)[places[:, 0]])


def test_reversals_and_diagonals() -> None:
    x = numbers((3, 4))
    lengths = np.broadcast_to(np.array([[2], [0], [9]], np.uint64), (3, 1))
    expected = [[*x[0, 1::-1], *x[0, 2:]], x[1], x[2, ::-1]]
    np.testing.assert_array_equal(dml.reverse_subsequences(x, lengths, 1), expected)
    np.testing.assert_array_equal(dml.diagonal_matrix(None, (3, 4), np.float32, 2, -1), np.eye(3, 4, -1) * 2)
    upper = dml.diagonal_matrix(x, value=0, diagonal_fill_begin=-9, diagonal_fill_end=0)
    np.testing.assert_array_equal(upper, np.triu(x))
    assert dml.diagonal_matrix(x.astype(np.int8), [3, 4], "int8").dtype == np.int8


def test_positions() -> None:
    x = numbers((3, 4, 5)) // 4
    first, last = dml.argmax(x, [2], output_data_type="int64"), dml.argmax(x, [2], "DECREASING")
    np.testing.assert_array_equal(first, x.argmax(2, keepdims=True))
    np.testing.assert_array_equal(last, 4 - x[..., ::-1].argmax(2, keepdims=True))
    assert (first.dtype, last.dtype) == (np.int64, np.uint32)
    np.testing.assert_array_equal(dml.argmin(x), [[[x.argmin()]]])


@pytest.mark.parametrize("order", ["DEPTH_COLUMN_ROW", dml.DepthSpaceOrder.COLUMN_ROW_DEPTH])
def test_space_and_depth(order: Any) -> None:
    x = numbers((2, 3, 4, 6))
    deep = dml.space_to_depth(x, 2, order)
    np.testing.assert_array_equal(deep, reference.space_to_depth(x, 2, depth_first=order == "DEPTH_COLUMN_ROW"))
    np.testing.assert_array_equal(dml.depth_to_space(deep, 2, order), x)


def test_reduce() -> None:
    x = numbers((3, 4, 5))
    for function, expected in {
        "SUM": x.sum(axis=(0, 2), keepdims=True),
        "MAX": x.max(axis=(0, 2), keepdims=True),
        "AVERAGE": x.mean(axis=(0, 2), keepdims=True),
        "L1": np.abs(x).sum(axis=(0, 2), keepdims=True),
    }.items():
        np.testing.assert_allclose(dml.reduce(x, function, [0, 2]), expected, rtol=1e-6)
    np.testing.assert_array_equal(dml.reduce(x, "ARGMAX"), [[[x.argmax()]]])
    assert dml.reduce(x, "ARGMIN", [1], np.int64).dtype == np.int64


def test_fill_values() -> None:
    constant = dml.fill_value_constant([2, 3], "uint64", 2**64 - 1)
    assert constant.dtype == np.uint64
    assert (constant == 2**64 - 1).all()
    sequence = dml.fill_value_sequence((2, 3), np.int16, 5, -2)
    np.testing.assert_array_equal(sequence, (5 - 2 * np.arange(6, dtype=np.int16)).reshape(2, 3))
    assert np.isnan(dml.fill_value_constant([1], "float16", math.nan)).all()


def test_cumulative() -> None:
    x = numbers((3, 4), "int32")
    np.testing.assert_array_equal(dml.cumulative_summation(x, 1), np.cumsum(x, 1))
    np.testing.assert_array_equal(dml.cumulative_summation(x, 0, "DECREASING"), np.cumsum(x[::-1], 0)[::-1])
    shifted = np.concatenate([np.ones((3, 1), np.int32), np.cumprod(x, 1)[:, :-1]], 1)
    np.testing.assert_array_equal(dml.cumulative_product(x, 1, has_exclusive_product=True), shifted)


def test_upsample() -> None:
    x = numbers((1, 2, 2, 3))
    nearest = dml.upsample_2d(x, (2, 3), "NEAREST_NEIGHBOR")
    np.testing.assert_array_equal(nearest, x.repeat(3, axis=2).repeat(2, axis=3))
    np.testing.assert_allclose(dml.upsample_2d(x, (2, 3), "LINEAR"), reference.bilinear(x, 3, 2), atol=1e-5)


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
        dml.activation_softmax(x, [0, 2]), powers / powers.sum(axis=(0, 2), keepdims=True), rtol=1e-5
    )
    np.testing.assert_allclose(dml.activation_softmax(x[0]), powers[0] / powers[0].sum(1, keepdims=True), rtol=1e-5)


# ---- operands


LAYOUTS = {
    "packed": lambda x: x.copy(),
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "every other": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "a part": lambda x: np.pad(x, [(1, 2), (3, 4)])[1:-2, 3:-4],
}


def unaligned(x: Array) -> Array:
    memory = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    memory[...] = x
    return memory


def between(x: Array) -> Array:
    """Rows whose distance is no multiple of the element size."""
    memory = np.zeros((x.shape[0], x.shape[1] * x.itemsize + 2), np.uint8)
    rows = np.ndarray(x.shape, x.dtype, memory, 0, (memory.strides[0], x.itemsize))
    rows[...] = x
    return rows


COPIED = {
    "reversed": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "unaligned": unaligned,
    "between": between,
    "swapped": lambda x: x.astype(x.dtype.newbyteorder(">")),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views_are_used_in_place(layout: str) -> None:
    x = LAYOUTS[layout](numbers((3, 5)))
    recorder = Recorder()
    np.testing.assert_array_equal(dml.add(x, x, device=recorder), x + x)
    (desc,) = recorder.descs
    assert isinstance(desc, operators.ElementWiseAdd)
    assert desc.a_tensor.effective_strides == tuple(stride // 4 for stride in x.strides)
    assert desc.output_tensor.strides is None


@pytest.mark.parametrize("layout", COPIED)
def test_other_arrays_are_copied(layout: str) -> None:
    original = numbers((3, 5))
    x = COPIED[layout](original)
    recorder = Recorder()
    for _ in range(2):
        np.testing.assert_array_equal(dml.add(x, original, device=recorder), original + original)
    (desc,) = recorder.descs
    assert isinstance(desc, operators.ElementWiseAdd)
    assert desc.a_tensor == desc.b_tensor == dml.TensorDesc("float32", (3, 5))


def test_broadcast_operands() -> None:
    x, row = numbers((3, 5)), numbers((5,), seed=1)
    broadcast = np.broadcast_to(row, (3, 5))
    assert described(dml.add, x, broadcast).b_tensor.strides == (0, 1)
    np.testing.assert_array_equal(dml.add(x, broadcast), x + row)
    np.testing.assert_array_equal(dml.identity(broadcast), broadcast)
    assert dml.identity(broadcast).flags.c_contiguous


def test_strides_of_single_elements_mean_nothing() -> None:
    x = np.lib.stride_tricks.as_strided(numbers((4,)), (1, 4), (-400, 4))
    assert described(dml.identity, x).input_tensor.strides is None
    np.testing.assert_array_equal(dml.identity(x), x)


def test_overlapping_windows_are_used_in_place() -> None:
    windows = np.lib.stride_tricks.sliding_window_view(numbers((8,)), 3)
    assert described(dml.reduce, windows, "SUM", [1]).input_tensor.strides == (1, 1)
    np.testing.assert_array_equal(dml.reduce(windows, "SUM", [1])[:, 0], windows.sum(1))


def test_buffer_protocol() -> None:
    values = array.array("f", [1, 2, 3])
    np.testing.assert_array_equal(dml.add(values, memoryview(values)), [2, 4, 6])
    np.testing.assert_array_equal(dml.identity(b"\x01\xff"), np.array([1, 255], np.uint8))


def test_dlpack() -> None:
    class Exporter:
        def __init__(self, array: Array) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    x = numbers((2, 3))
    recorder = Recorder()
    np.testing.assert_array_equal(dml.identity(Exporter(x.T), device=recorder), x.T)
    assert recorder.descs[0].inputs()[0][1] == dml.TensorDesc("float32", (3, 2), (1, 3))


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    np.testing.assert_array_equal(dml.add(x, x), (x + x).numpy())
    np.testing.assert_array_equal(dml.identity(x.t()), x.t().numpy())
    out = np.empty((2, 3), np.float32)
    dml.add(x, x.numpy(), out=out)
    assert torch.equal(torch.from_dlpack(dml.add(x, x)), x + x)


def test_results_are_new_and_packed() -> None:
    x = numbers((3, 5)).T
    first, second = dml.identity(x), dml.identity(x)
    assert first.flags.c_contiguous
    assert first.flags.writeable
    assert not np.shares_memory(first, second)
    assert first.__array_interface__["data"][0] % 64 == 0


# ---- out


def test_out() -> None:
    x = numbers((3, 5))
    out = np.empty((3, 5), np.float32)
    assert dml.add(x, x, out=out) is out
    np.testing.assert_array_equal(out, x + x)
    strided = np.zeros((5, 6), np.float32)
    view = strided.T[::2]
    assert dml.add(x, x, out=view) is view
    np.testing.assert_array_equal(strided.T[::2], x + x)
    assert not strided.T[1::2].any()
    again = x.copy()
    dml.add(again, x, out=again)
    np.testing.assert_array_equal(again, x + x)


def test_several_outs() -> None:
    x = numbers((2, 6), "int8")
    whole = np.zeros((2, 6), np.int8)
    pieces = dml.split(x, 1, [2, 4], out=(whole[:, 4:], whole[:, :4]))
    assert pieces[0].base is whole
    np.testing.assert_array_equal(whole, np.roll(x, -2, axis=1))
    image = numbers((1, 1, 4, 4))
    expected = dml.max_pooling(image, [2, 2], [2, 2], output_indices=True)
    out = dml.MaxPoolingOutputs(np.empty((1, 1, 2, 2), np.float32), np.empty((1, 1, 2, 2), np.uint32))
    result = dml.max_pooling(image, [2, 2], [2, 2], output_indices=True, out=out)
    assert result.indices is out.indices
    np.testing.assert_array_equal(out.values, expected.values)
    np.testing.assert_array_equal(out.indices, expected.indices)
    for only in (out.values, [out.values], dml.MaxPoolingOutputs(out.values, None)):
        assert dml.max_pooling(image, [2, 2], [2, 2], out=only).values is out.values


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty((5, 3), np.float32), r"OutputTensor: expected sizes \[3, 5\], got \[5, 3\]"),
        (np.empty((3, 5), np.float64), "OutputTensor: expected elements of float32, got float64"),
        (np.empty((3, 5), np.float32)[::-1], "strides"),
        (unaligned(np.zeros((3, 5), np.float32)), "aligned"),
        ([np.empty((3, 5), np.float32)] * 2, "expected 1 array"),
        ([], "an array is needed"),
        ("text", "out"),
    ],
)
def test_unfitting_out(out: Any, message: str) -> None:
    x = numbers((3, 5))
    for _ in range(2):
        with pytest.raises(dml.BindingError, match=message):
            dml.add(x, x, out=out)


def test_overlapping_out() -> None:
    x = numbers((4, 4))
    for _ in range(2):
        with pytest.raises(dml.BindingError, match="overlaps"):
            dml.tile(x[:2, :2], [2, 2], out=x)
        with pytest.raises(dml.BindingError, match="overlaps"):
            dml.add(x[:2], x[:2], out=x[1:3])
    repeated = np.lib.stride_tricks.as_strided(x, (4, 4), (0, 4))
    with pytest.raises(dml.InvalidDescriptorError, match="address of its own"):
        dml.add(x, x, out=repeated)
    read_only = x.copy()
    read_only.flags.writeable = False
    with pytest.raises(dml.BindingError, match="read-only"):
        dml.add(x, x, out=read_only)


# ---- the cache of programs


def test_programs_are_compiled_once() -> None:
    recorder = Recorder()
    x = numbers((3, 4))
    for sizes in ([3, 4], (3, 4), np.array([3, 4]), range(3, 5)):
        for _ in range(3):
            dml.slice(x.copy(), [0, 0], sizes, [1, 1], device=recorder)
    assert len(recorder.descs) == 1
    dml.slice(x, [0, 0], [3, 4], [1, -1], device=recorder)
    dml.slice(x.astype("int32"), [0, 0], [3, 4], [1, 1], device=recorder)
    dml.slice(x[:, ::-1], [0, 0], [3, 4], [1, 1], device=recorder)
    dml.slice(np.asfortranarray(x), [0, 0], [3, 4], [1, 1], device=recorder)
    assert len(recorder.descs) == 5


def test_numbers_are_told_apart_by_their_bits() -> None:
    recorder = Recorder()
    x = np.array([-0.0], np.float32)
    signs = [np.signbit(dml.identity(x, (1, bias), device=recorder)).item() for bias in (0.0, -0.0, 0.0, -0.0)]
    assert signs == [False, True, False, True]
    assert len(recorder.descs) == 2
    for _ in range(3):
        dml.activation_linear(x, float("nan"), 0, device=recorder)
    assert len(recorder.descs) == 3
    assert dml.fill_value_constant([1], "int64", 2**53 + 1).item() == 2**53 + 1
    assert dml.fill_value_constant([1], "int64", float(2**53)).item() == 2**53


def test_equal_devices_share_programs() -> None:
    x = numbers((3, 3))
    dml.add(x, x, device=dml.Device("cpu", feature_level="5_0"))
    count = len(core.PROGRAMS)
    dml.add(x, x, device=dml.Device("cpu", feature_level="5_0"))
    assert len(core.PROGRAMS) == count
    assert dml.Device("cpu") == dml.Device("cpu")
    assert len({dml.Device("cpu"), dml.Device("cpu"), dml.Device("cpu", thread_count=1)}) == 2


def test_the_cache_is_bounded_and_forgets_the_least_recent() -> None:
    cache = core.ProgramCache(2)
    made: list[str] = []

    def get(key: str) -> None:
        def make() -> core.Call:
            made.append(key)
            return core.Call(None, ())  # type: ignore[arg-type]

        cache.get_or_make((key,), make)

    for key in ("a", "b", "a", "c", "a", "b"):
        get(key)
    assert made == ["a", "b", "c", "b"]
    assert len(cache) == 2
    cache.clear()
    assert len(cache) == 0


def test_parameters_that_cannot_be_keys() -> None:
    x = numbers((3, 4))
    axis: Any = np.array(1)
    for _ in range(2):
        np.testing.assert_array_equal(dml.cumulative_summation(x, axis), np.cumsum(x, 1))


def test_a_failure_is_not_cached() -> None:
    x = numbers((3, 4))
    count = len(core.PROGRAMS)
    for _ in range(2):
        with pytest.raises(dml.InvalidDescriptorError):
            dml.tile(x, [1, 2, 3])
    assert len(core.PROGRAMS) == count


def test_threads_share_a_compilation_and_run_at_once() -> None:
    recorder = Recorder()
    arrays = [numbers((40, 50), seed=seed) for seed in range(8)]
    failures: list[int] = []
    start = threading.Barrier(len(arrays))

    def work(number: int) -> None:
        x = arrays[number]
        expected = (x + x).sum(axis=1, keepdims=True)
        start.wait()
        sums = [dml.reduce(dml.add(x, x, device=recorder), "SUM", [1], device=recorder) for _ in range(50)]
        if not all(np.array_equal(total, expected) for total in sums):
            failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(arrays))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(recorder.descs) == 2


# ---- feature levels


def image(dtype: str = "float32") -> Array:
    return np.zeros((1, 4, 4, 4), dtype)


LEVELS: list[tuple[str, str, Callable[..., Any], list[Any], dict[str, Any]]] = [
    ("6_1", "AveragePooling", dml.average_pooling, [image(), [1, 1], [2, 2]], {}),
    ("6_1", "LpPooling", dml.lp_pooling, [image(), [2, 2]], {}),
    ("2_0", "MaxPooling1", dml.max_pooling, [image(), [2, 2]], {"output_indices": True}),
    ("1_0", "MaxPooling", dml.max_pooling, [image(), [2, 2]], {}),
    ("2_0", "SpaceToDepth", dml.space_to_depth, [image(), 2], {}),
    ("2_0", "DepthToSpace", dml.depth_to_space, [image(), 2], {}),
    ("2_0", "Slice", dml.slice, [image(), [0, 1, 2, 0], [1, 2, 2, 4], [1, 1, 1, 3]], {}),
    ("4_1", "ElementWiseClip", dml.clip, [image(), -math.inf, math.nan], {}),
    ("4_1", "ElementWiseClip", dml.clip, [image("int8"), -3, 4, (2, 1)], {}),
    ("4_1", "Padding", dml.padding, [image("int8"), "CONSTANT", 3, [1] * 4, [1] * 4], {}),
    ("2_1", "GatherNd", dml.gather_nd, [image(), np.zeros((1, 1, 3, 2), "uint32"), 4, 2], {}),
    ("2_1", "Reduce", dml.argmax, [image(), [1, 3]], {}),
    ("1_0", "Reduce", dml.argmin, [image()], {}),
    ("5_0", "DiagonalMatrix", dml.diagonal_matrix, [None, [2, 3], "int32", -7, 1], {}),
    ("6_4", "Padding1", dml.padding, [image("int8"), "CONSTANT", 3, [1] * 4, [1] * 4], {}),
]


@pytest.mark.parametrize(("level", "operator", "function", "arguments", "options"), LEVELS)
def test_older_versions(
    level: str, operator: str, function: Callable[..., Any], arguments: list[Any], options: dict[str, Any]
) -> None:
    desc = described(function, *arguments, level=level, **options)
    assert type(desc).__name__ == operator
    newest = described(function, *arguments, **options)
    for (_, old), (_, new) in zip(desc.outputs(), newest.outputs(), strict=False):
        assert old == new


def test_slices_of_old_levels_are_the_same() -> None:
    x = numbers((1, 2, 5, 7))
    window = ([0, 1, 1, 0], [1, 1, 4, 6], [1, 1, 2, 3])
    old = dml.slice(x, *window, device=dml.Device("cpu", feature_level="1_0"))
    np.testing.assert_array_equal(old, dml.slice(x, *window))


@pytest.mark.parametrize(
    ("level", "function", "arguments", "options"),
    [
        ("6_1", dml.average_pooling, [image(), [1, 1], [2, 2]], {"dilations": [2, 1]}),
        ("2_0", dml.max_pooling, [image(), [2, 2]], {"dilations": [1, 2]}),
        ("1_0", dml.max_pooling, [image(), [2, 2]], {"output_indices": True}),
        ("2_0", dml.slice, [image(), [0] * 4, [1] * 4, [1, 1, 1, -1]], {}),
        ("2_0", dml.space_to_depth, [image(), 2, "COLUMN_ROW_DEPTH"], {}),
        ("4_1", dml.clip, [image("int32"), 2**24 + 1, 2**25], {}),
        ("2_0", dml.fill_value_constant, [[1, 1, 1, 1], "float32", 1], {}),
        ("2_1", dml.argmin, [image(), [1], "DECREASING"], {}),
        ("2_1", dml.gather_nd, [image(), np.zeros((1, 4, 3, 2), "uint32"), 4, 3, 1], {}),
        ("5_0", dml.diagonal_matrix, [image()], {}),
        ("5_0", dml.diagonal_matrix, [None, [2, 2], "float32", 1, 0, 2], {}),
    ],
)
def test_what_old_levels_cannot_say(
    level: str, function: Callable[..., Any], arguments: list[Any], options: dict[str, Any]
) -> None:
    with pytest.raises(dml.InvalidDescriptorError) as caught:
        function(*arguments, device=dml.Device("cpu", feature_level=level), **options)
    assert any(violation.allowed_at is not None for violation in caught.value.violations)


# ---- errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: dml.slice(x, [0, 0], [3, 4], [1, 0]), r"InputWindowStrides\[1\]: must not be 0, got 0"),
        (lambda x: dml.slice(x, [0], [3], [1]), "DimensionCount"),
        (lambda x: dml.slice(x, [0, 0], [3, 5], [1, 1]), r"InputWindowOffsets\[1\]: must keep the window inside"),
        (lambda x: dml.split(x, 1, [1, 2]), r"must have Sizes\[1\] that add up to InputTensor.Sizes\[1\] = 4"),
        (lambda x: dml.split(x, 2, [1, 3]), "Axis: must be less than"),
        (lambda x: dml.split(x, 0, []), "OutputCount: must be at least 1"),
        (lambda x: dml.join([x, x[:, :1]], 0), r"InputTensors\[1\].Sizes\[1\]: must be 4"),
        (lambda x: dml.join([], 0), "InputCount: must be at least 1"),
        (lambda x: dml.join([x, x], -1), "Axis: must be an integer from 0"),
        (lambda x: dml.add(x, x[:1]), "BTensor.Sizes: must have the Sizes of ATensor"),
        (lambda x: dml.add(x, x.astype("float16")), "DataType"),
        (lambda x: dml.reduce(x, "MEDIAN"), "Function: must be a DML_REDUCE_FUNCTION"),
        (lambda x: dml.reduce(x, "SUM", [2]), r"Axes\[0\]: must be less than"),
        (lambda x: dml.reduce(x, "SUM", 1), "Axes: must be an array"),
        (lambda x: dml.max_pooling(x, [2, 2]), "rank"),
        (lambda x: dml.max_pooling(image(), [5, 2]), r"WindowSize\[0\]: must be a window that fits"),
        (lambda x: dml.max_pooling(image(), [2, 2], strides=[0, 1]), r"Strides\[0\]: must be at least 1"),
        (lambda x: dml.max_pooling(image(), [2.5, 2]), r"WindowSize\[0\]: must be an integer"),
        (lambda x: dml.max_pooling(image(), "22"), "WindowSize: must be an array"),
        (lambda x: dml.tile(x, [1, "b"]), r"Repeats\[1\]: must be an integer"),
        (lambda x: dml.tile(x, [[1], [2]]), r"Repeats\[0\]: must be an integer"),
        (lambda x: dml.padding(x, "CONSTANT", "0", [0, 0], [0, 0]), "PaddingValue: must be a number"),
        (lambda x: dml.gemm(x, x), "BTensor.Sizes: must be a matrix with 4 rows"),
        (lambda x: dml.gemm(x, x, trans_a="YES"), "TransA: must be a DML_MATRIX_TRANSFORM"),
        (lambda x: dml.identity(x, 3), "ScaleBias"),  # type: ignore[arg-type]
        (lambda x: dml.identity(x > 0), "input: DataType: .*BOOL"),
        (lambda x: dml.identity(np.zeros((2, 0), "int8")), r"InputTensor.Sizes\[1\]: must be from 1"),
        (lambda x: dml.identity(np.array(1.0)), "InputTensor.DimensionCount: must be from 1 to 8, got 0"),
        (lambda x: dml.join([x, x > 0], 0), r"inputs\[1\]: DataType"),
        (lambda x: dml.cast(x, "float8"), "DataType: .*FLOAT8"),
        (lambda x: dml.add(x, x, x), "FusedActivation: must be an operator"),  # type: ignore[arg-type]
        (lambda x: dml.add(x, x, dml.fused_activation.softmax()), "must be an activation that ELEMENT_WISE_ADD1 can"),
        (lambda x: dml.fill_value_constant([2], "uint8", 1000), "Value: must be a number that ValueDataType can hold"),
        (lambda x: dml.fill_value_constant(2, "uint8", 1), "Sizes: expected a sequence"),  # type: ignore[arg-type]
        (lambda x: dml.upsample_2d(image(), (2,), "LINEAR"), "ScaleSize"),  # type: ignore[arg-type]
    ],
)
def test_errors_say_what_is_wrong(call: Callable[[Array], Any], message: str) -> None:
    for _ in range(2):
        with pytest.raises(dml.InvalidDescriptorError, match=message) as caught:
            call(numbers((3, 4)))
        assert len(caught.value.violations) <= 3


@pytest.mark.parametrize("operand", [[1, 2], 3.5, "text", object(), {}, None])
def test_operands_that_are_no_arrays(operand: Any) -> None:
    with pytest.raises((dml.BindingError, dml.InvalidDescriptorError), match=r"input: |InputTensor\."):
        dml.identity(operand)


nonsense = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from([2**31, 2**32, 2**64, -(2**40)]),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from(["FLOAT32", "SUM", "EDGE", "LINEAR", "BACKWARD"]),
    st.lists(st.one_of(st.integers(-3, 9), st.none(), st.floats(), st.just(2**33)), max_size=5),
    st.dictionaries(st.text(max_size=1), st.integers(), max_size=1),
    st.builds(operators.ActivationRelu),
)


@settings(max_examples=300, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(FUNCTIONS)))
def test_nonsense_is_refused(data: st.DataObject, name: str) -> None:
    """Parameters of any kind give a valid descriptor or an error of the package."""
    shapes = st.lists(st.integers(0, 4), max_size=6).map(lambda shape: np.zeros(shape, np.float32))
    operands = {"input", "a", "b", "c", "indices", "filter", "bias", "weight", "recurrence", "hidden_init"}
    operands |= {"sequence_lengths", "input_gradient", "updates", "values"}
    if name == "activation_shrink":
        operands.remove("bias")
    arguments: dict[str, Any] = {}
    for parameter in inspect.signature(FUNCTIONS[name]).parameters.values():
        if parameter.name in ("device", "out"):
            continue
        if parameter.name == "inputs":
            arguments["inputs"] = data.draw(st.lists(shapes, max_size=3))
        elif parameter.name in operands:
            arguments[parameter.name] = data.draw(st.one_of(shapes, st.none()))
        elif parameter.default is inspect.Parameter.empty or data.draw(st.booleans()):
            arguments[parameter.name] = data.draw(nonsense)
    with contextlib.suppress(ValidDescriptorError, dml.InvalidDescriptorError, dml.BindingError):
        FUNCTIONS[name](**arguments, device=Recorder(valid_only=True))


def test_descriptors_are_built_without_arrays() -> None:
    """Builders see descriptions only: what is not an array can be described as well."""
    from opendml.functions.slicing import _slice

    source = dml.TensorDesc("float32", [1, 2, 4, 4])
    desc = core.descriptor(
        _slice, [source], ((0,) * 4, (1, 2, 4, 4), (1, 1, 2, -1), None), (), dml.FeatureLevel.LEVEL_6_4
    )
    assert not validate(desc)


@pytest.fixture(autouse=True, scope="module")
def _forget_programs() -> Iterator[None]:
    yield
    core.PROGRAMS.clear()
