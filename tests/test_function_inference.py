"""The functions: the descriptors they make, at every feature level, and what is wrong with calls."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from calls import FUNCTIONS, Array, Recorder, ValidDescriptorError, bounded, described, numbers
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml import operators
from opendml.description.validation import validate
from opendml.functions import core

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
    parameters: dict[str, Any] = spatial_parameters(data, size)
    x = np.zeros((2, 3, *size), np.float32)
    desc = described(dml.max_pooling, x, **parameters, output_indices=True)
    windows = []
    for n, w, s, a, b, d in zip(size, *parameters.values(), strict=True):
        windows.append(len(range(0, n + a + b - (w - 1) * d, s)))
    assert desc.output_tensor.sizes == desc.output_indices_tensor.sizes == (2, 3, *windows)
    assert described(dml.lp_pooling, x, **parameters).output_tensor.sizes == (2, 3, *windows)
    assert described(dml.average_pooling, x, **parameters).output_tensor.sizes == (2, 3, *windows)


@bounded
@given(data=st.data())
def test_convolution_sizes(data: st.DataObject) -> None:
    """The transposed convolution of the output has the sizes of the input again, up to what strides round off."""
    size = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    parameters: dict[str, Any] = spatial_parameters(data, size)
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
    sizes = described(
        dml.slice,
        np.zeros(shape, np.int8),
        input_window_offsets=offsets,
        input_window_sizes=window,
        input_window_strides=strides,
    ).output_tensor.sizes
    assert sizes == tuple(len(range(0, n, abs(stride))) for n, stride in zip(window, strides, strict=True))
    part = np.zeros(sizes, np.int8)
    assert described(
        dml.slice_grad,
        part,
        output_sizes=shape,
        input_window_offsets=offsets,
        input_window_sizes=window,
        input_window_strides=strides,
    ).output_gradient_tensor.sizes == tuple(shape)


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
    parts = described(dml.split, whole, axis=axis, output_axis_sizes=pieces).output_tensors
    assert [part.sizes[axis] for part in parts] == pieces
    joined = described(dml.join, [np.zeros(part.sizes, np.float32) for part in parts], axis=axis)
    assert joined.output_tensor.sizes == whole.shape
    assert described(dml.tile, x, repeats).output_tensor.sizes == np.tile(x, repeats).shape
    padded = np.pad(x, list(zip(start, end, strict=True)))
    assert (
        described(
            dml.padding, x, padding_mode="EDGE", padding_value=0, start_padding=start, end_padding=end
        ).output_tensor.sizes
        == padded.shape
    )
    reduced = described(dml.reduce, x, "SUM", axes=sorted(axes)).output_tensor.sizes
    assert reduced == x.sum(axis=tuple(axes), keepdims=True).shape
    assert described(dml.cumulative_product, x, axis=axis).output_tensor.sizes == x.shape


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
    desc = described(dml.gather, x, places, axis=axis, index_dimensions=index_dimensions)
    # NumPy takes the indices in place of the axis; the rank then differs by leading sizes of 1.
    taken = np.take(x, places.reshape(indices), axis).shape
    assert [n for n in desc.output_tensor.sizes if n > 1] == [n for n in taken if n > 1]


def test_more_sizes() -> None:
    x = np.zeros((2, 12, 4, 6), np.float32)
    assert described(dml.space_to_depth, x, block_size=2).output_tensor.sizes == (2, 48, 2, 3)
    assert described(dml.depth_to_space, x, block_size=2).output_tensor.sizes == (2, 3, 8, 12)
    assert described(
        dml.upsample_2d, x, scale_size=dml.Size2D(width=3, height=2), interpolation_mode="LINEAR"
    ).output_tensor.sizes == (2, 12, 8, 18)
    a, b = np.zeros((5, 2, 3), np.float32), np.zeros((5, 4, 2), np.float32)
    gemm = described(dml.gemm, a, b, trans_a="TRANSPOSE", trans_b="TRANSPOSE")
    assert gemm.output_tensor.sizes == (5, 3, 4)
    inputs = [np.zeros(sizes, np.float32) for sizes in ((1, 7, 2, 3), (1, 2, 5, 3), (1, 2, 5, 5))]
    rnn = described(dml.rnn, *inputs, direction="BIDIRECTIONAL")
    assert rnn.output_sequence_tensor.sizes == (7, 2, 2, 5)
    assert rnn.output_single_tensor.sizes == (1, 2, 2, 5)


def test_explicit_output_sizes() -> None:
    x = np.arange(7, dtype=np.float32).reshape(1, 1, 1, 7)
    rounded_up = dml.max_pooling(x, window_size=[1, 2], strides=[1, 2], output_sizes=[1, 1, 1, 4]).values
    assert rounded_up.ravel().tolist() == [1, 3, 5, 6]
    assert dml.slice(
        x,
        input_window_offsets=[0] * 4,
        input_window_sizes=[1, 1, 1, 7],
        input_window_strides=[1, 1, 1, 2],
        output_sizes=[1, 1, 1, 2],
    ).ravel().tolist() == [0, 2]


# ---- defaults


def test_defaults_are_those_of_directmlx() -> None:
    x = np.zeros((1, 2, 5, 5), np.float32)
    pooling = described(dml.max_pooling, x, window_size=[2, 2])
    assert (pooling.strides, pooling.dilations) == ((1, 1), (1, 1))
    assert (pooling.start_padding, pooling.end_padding) == ((0, 0), (0, 0))
    assert pooling.output_indices_tensor is None
    assert described(dml.max_pooling, x, window_size=[2, 2], strides=[]).strides == (1, 1)
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
    assert (
        described(dml.reduce, x, "ARGMAX", axes=[1], output_data_type="int64").output_tensor.data_type
        == dml.TensorDataType.INT64
    )
    assert (
        described(dml.space_to_depth, np.zeros((1, 1, 2, 2)), block_size=2).order
        is dml.DepthSpaceOrder.DEPTH_COLUMN_ROW
    )
    assert isinstance(described(dml.activation_softmax, np.zeros((1, 2), "float32")), operators.ActivationSoftmax1)


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
    "name",
    [
        name
        for name, function in vars(dml.fused_activation).items()
        if inspect.isfunction(function) and function.__module__ == dml.fused_activation.__name__
    ],
)
def test_fused_activations_are_valid(name: str) -> None:
    make = getattr(dml.fused_activation, name)
    needed = [p for p in inspect.signature(make).parameters.values() if p.default is inspect.Parameter.empty]
    given = dict.fromkeys((parameter.name for parameter in needed), 0.5)
    activation = make(**given)
    if name == "hardmax":
        a = np.zeros((1, 1, 1, 1), np.float32)
        described(dml.rnn, a, a, a, activation_descs=[activation])
    else:
        a = np.zeros((1, 1), np.float32)
        described(dml.gemm, a, a, fused_activation=activation)
    assert activation == make(**given)


# ---- feature levels


def image(dtype: str = "float32") -> Array:
    return np.zeros((1, 4, 4, 4), dtype)


LEVELS: list[tuple[str, str, Callable[..., Any], list[Any], dict[str, Any]]] = [
    ("6_1", "AveragePooling", dml.average_pooling, [image()], {"strides": [1, 1], "window_size": [2, 2]}),
    ("6_1", "LpPooling", dml.lp_pooling, [image()], {"window_size": [2, 2]}),
    ("2_0", "MaxPooling1", dml.max_pooling, [image()], {"window_size": [2, 2], "output_indices": True}),
    ("1_0", "MaxPooling", dml.max_pooling, [image()], {"window_size": [2, 2]}),
    ("2_0", "SpaceToDepth", dml.space_to_depth, [image()], {"block_size": 2}),
    ("2_0", "DepthToSpace", dml.depth_to_space, [image()], {"block_size": 2}),
    (
        "2_0",
        "Slice",
        dml.slice,
        [image()],
        {
            "input_window_offsets": [0, 1, 2, 0],
            "input_window_sizes": [1, 2, 2, 4],
            "input_window_strides": [1, 1, 1, 3],
        },
    ),
    ("4_1", "ElementWiseClip", dml.clip, [image(), -math.inf, math.nan], {}),
    ("4_1", "ElementWiseClip", dml.clip, [image("int8"), -3, 4], {"scale_bias": (2, 1)}),
    (
        "4_1",
        "Padding",
        dml.padding,
        [image("int8")],
        {"padding_mode": "CONSTANT", "padding_value": 3, "start_padding": [1] * 4, "end_padding": [1] * 4},
    ),
    (
        "2_1",
        "GatherNd",
        dml.gather_nd,
        [image(), np.zeros((1, 1, 3, 2), "uint32")],
        {"input_dimension_count": 4, "indices_dimension_count": 2},
    ),
    ("2_1", "Reduce", dml.argmax, [image()], {"axes": [1, 3]}),
    ("1_0", "Reduce", dml.argmin, [image()], {}),
    (
        "5_0",
        "DiagonalMatrix",
        dml.diagonal_matrix,
        [None],
        {"output_sizes": [2, 3], "output_data_type": "int32", "value": -7, "diagonal_fill_begin": 1},
    ),
    (
        "6_4",
        "Padding1",
        dml.padding,
        [image("int8")],
        {"padding_mode": "CONSTANT", "padding_value": 3, "start_padding": [1] * 4, "end_padding": [1] * 4},
    ),
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
    window: dict[str, Any] = {
        "input_window_offsets": [0, 1, 1, 0],
        "input_window_sizes": [1, 1, 4, 6],
        "input_window_strides": [1, 1, 2, 3],
    }
    old = dml.slice(x, **window, device=dml.Device("cpu", feature_level="1_0"))
    np.testing.assert_array_equal(old, dml.slice(x, **window))


@pytest.mark.parametrize(
    ("level", "function", "arguments", "options"),
    [
        ("6_1", dml.average_pooling, [image()], {"strides": [1, 1], "window_size": [2, 2], "dilations": [2, 1]}),
        ("2_0", dml.max_pooling, [image()], {"window_size": [2, 2], "dilations": [1, 2]}),
        ("1_0", dml.max_pooling, [image()], {"window_size": [2, 2], "output_indices": True}),
        (
            "2_0",
            dml.slice,
            [image()],
            {"input_window_offsets": [0] * 4, "input_window_sizes": [1] * 4, "input_window_strides": [1, 1, 1, -1]},
        ),
        ("2_0", dml.space_to_depth, [image()], {"block_size": 2, "order": "COLUMN_ROW_DEPTH"}),
        ("4_1", dml.clip, [image("int32"), 2**24 + 1, 2**25], {}),
        ("2_0", dml.fill_value_constant, [[1, 1, 1, 1]], {"output_data_type": "float32", "value": 1}),
        ("2_1", dml.argmin, [image()], {"axes": [1], "axis_direction": "DECREASING"}),
        (
            "2_1",
            dml.gather_nd,
            [image(), np.zeros((1, 4, 3, 2), "uint32")],
            {"input_dimension_count": 4, "indices_dimension_count": 3, "batch_dimension_count": 1},
        ),
        ("5_0", dml.diagonal_matrix, [image()], {}),
        (
            "5_0",
            dml.diagonal_matrix,
            [None],
            {
                "output_sizes": [2, 2],
                "output_data_type": "float32",
                "value": 1,
                "diagonal_fill_begin": 0,
                "diagonal_fill_end": 2,
            },
        ),
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
        (
            lambda x: dml.slice(x, input_window_offsets=[0, 0], input_window_sizes=[3, 4], input_window_strides=[1, 0]),
            r"input_window_strides\[1\]: must not be 0, got 0",
        ),
        (
            lambda x: dml.slice(x, input_window_offsets=[0], input_window_sizes=[3], input_window_strides=[1]),
            r"len\(input_window_offsets\): must be input.ndim = 2, got 1",
        ),
        (
            lambda x: dml.slice(x, input_window_offsets=[0, 0], input_window_sizes=[3, 5], input_window_strides=[1, 1]),
            r"input_window_offsets\[1\]: must keep the window inside",
        ),
        (
            lambda x: dml.split(x, axis=1, output_axis_sizes=[1, 2]),
            r"output_axis_sizes: must add up along axis: all output\[i\].sizes\[1\] to input.shape\[1\] = 4",
        ),
        (lambda x: dml.split(x, axis=2, output_axis_sizes=[1, 3]), "axis: must be less than"),
        (lambda x: dml.split(x, axis=0, output_axis_sizes=[]), r"len\(output_axis_sizes\): must be at least 1"),
        (lambda x: dml.join([x, x[:, :1]], axis=0), r"inputs\[1\].shape\[1\]: must be output.shape\[1\] = 4"),
        (lambda x: dml.join([], axis=0), r"len\(inputs\): must be at least 1"),
        (lambda x: dml.join([x, x], axis=-1), "axis: must be an integer from 0"),
        (lambda x: dml.add(x, x[:2]), r"a \[3, 4\] and b \[2, 4\] do not broadcast to common sizes"),
        (
            lambda x: dml.add(x, x.astype("float16")),
            "b: must have the data type of a, FLOAT32, got FLOAT16; try b.astype",
        ),
        (lambda x: dml.reduce(x, "MEDIAN"), "function: must be a DML_REDUCE_FUNCTION"),
        (lambda x: dml.reduce(x, "SUM", axes=[2]), r"axes\[0\]: must be less than"),
        (lambda x: dml.reduce(x, "SUM", axes=1), "axes: must be an array"),  # type: ignore[call-overload]
        (lambda x: dml.max_pooling(x, window_size=[2, 2]), "rank"),
        (lambda x: dml.max_pooling(image(), window_size=[5, 2]), r"window_size\[0\]: must fit into the padded input"),
        (lambda x: dml.max_pooling(image(), window_size=[2, 2], strides=[0, 1]), r"strides\[0\]: must be at least 1"),
        (lambda x: dml.max_pooling(image(), window_size=[2.5, 2]), r"window_size\[0\]: must be an integer"),  # type: ignore[list-item]
        (lambda x: dml.max_pooling(image(), window_size="22"), "window_size: must be an array"),  # type: ignore[arg-type]
        (lambda x: dml.tile(x, [1, "b"]), r"repeats\[1\]: must be an integer"),  # type: ignore[list-item]
        (lambda x: dml.tile(x, [[1], [2]]), r"repeats\[0\]: must be an integer"),  # type: ignore[list-item]
        (
            lambda x: dml.padding(  # type: ignore[call-overload]
                x, padding_mode="CONSTANT", padding_value="0", start_padding=[0, 0], end_padding=[0, 0]
            ),
            "padding_value: must be a number that input.dtype can hold, got 0",
        ),
        (lambda x: dml.gemm(x, x), r"b.shape\[0\]: must be a.shape\[1\] = 4, the inner size"),
        (lambda x: dml.gemm(x, x, trans_a="YES"), "trans_a: must be a DML_MATRIX_TRANSFORM"),
        (lambda x: dml.identity(x, scale_bias=3), "scale_bias"),  # type: ignore[call-overload]
        (lambda x: dml.identity(x * 1j), "input: 'complex64': DirectML has no complex numbers"),
        (lambda x: dml.identity(np.zeros((2, 0), "int8")), r"input.shape\[1\]: must be from 1"),
        (lambda x: dml.identity(x.reshape((1,) * 7 + (3, 4))), "input.ndim: must be from 1 to 8, got 9"),
        (lambda x: dml.join([x, x > 0], axis=0), r"inputs\[1\]: must have the data type of"),
        (lambda x: dml.cast(x, "float8"), "dml.cast: output_data_type: 'float8' is not"),
        (lambda x: dml.add(x, x, fused_activation=x), "fused_activation: must be an operator"),
        (
            lambda x: dml.add(x, x, fused_activation=dml.fused_activation.softmax()),
            "must be an activation that ELEMENT_WISE_ADD1 can",
        ),
        (
            lambda x: dml.fill_value_constant([2], output_data_type="uint8", value=1000),
            "value: must be a number that output_data_type can hold",
        ),
        (lambda x: dml.fill_value_constant(2, output_data_type="uint8", value=1), "output_sizes: expected a sequence"),  # type: ignore[call-overload]
        (lambda x: dml.upsample_2d(image(), scale_size=(2,), interpolation_mode="LINEAR"), "scale_size"),  # type: ignore[arg-type]
    ],
)
def test_errors_say_what_is_wrong(call: Callable[[Array], Any], message: str) -> None:
    for _ in range(2):
        with pytest.raises(dml.InvalidDescriptorError, match=message) as caught:
            call(numbers((3, 4)))
        assert len(caught.value.violations) <= 3


@pytest.mark.parametrize("operand", [["a", 2], 3.5, "text", object(), {}, None])
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


@examples(300)
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
