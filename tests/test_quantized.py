"""Products and windows of quantized tensors against loops in exact integers, ONNX's reference and ONNX Runtime."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from execution import Array, assert_identical, inputs, outputs, random_array, run_operator, run_single, seeds
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.errors import BindingError
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate

bounded = examples(15)
BYTES = st.sampled_from(["INT8", "UINT8"])
UP_TO_32_BIT = st.sampled_from(["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32"])
SIZES = st.sampled_from([1, 2, 3, 4, 5, 8, 15, 16, 17, 33])


def wrapped(exact: Array, bits: int = 32) -> Array:
    """Python's integers, or NumPy's of 64 bits, modulo 2 ** bits, as signed ones."""
    half = 1 << (bits - 1)
    return ((exact + half) % (1 << bits) - half).astype(f"int{bits}")


def again(total: Array, factor: Array, zero_point: Array, dtype: Any) -> Array:
    """What is quantized again: rounded to float32 after each operation, halves to even, zero point, clamp."""
    limits = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        value = np.rint(total.astype(np.float32) * factor.astype(np.float32)).astype(np.float64) + zero_point
    return np.where(np.isnan(value), 0, np.clip(value, limits.min, limits.max)).astype(dtype)


def numbers(array: Array | None) -> Array:
    """Zero points, or zeros, as wide integers."""
    return np.zeros(1, np.int64) if array is None else array.astype(np.int64)


class Drawn:
    """Tensors, layouts and values by the names of an operator's fields."""

    def __init__(self, data: st.DataObject, seed: int) -> None:
        self.data, self.seed = data, seed
        self.fields: dict[str, Any] = {}
        self.arrays: dict[str, Array | None] = {}

    def input(self, name: str, data_type: str, sizes: Sequence[int], special: bool = True) -> Array:
        desc = self.data.draw(inputs(data_type, sizes))
        self.seed += 1
        array = random_array(desc, self.seed, special=special)
        self.fields[f"{name}_tensor"], self.arrays[f"{name}_tensor"] = desc, array
        return array

    def maybe(self, name: str, data_type: str, sizes: Sequence[int]) -> Array | None:
        if self.data.draw(st.booleans()):
            return self.input(name, data_type, sizes)
        self.fields[f"{name}_tensor"] = self.arrays[f"{name}_tensor"] = None
        return None

    def counted(self, name: str, data_type: str, rank: int, dimension: int, count: int, **options: Any) -> Array:
        """One value or one of a row, column or channel, and sometimes a tensor of one dimension."""
        count = self.data.draw(st.sampled_from([1, count]))
        sizes = [count if d == dimension % rank else 1 for d in range(rank)]
        array = self.input(name, data_type, sizes, **options)
        if options.get("special") is False:  # A scale
            self.arrays[f"{name}_tensor"] = array = np.abs(array) * np.float32(0.01) + np.float32(0.003)
            array = array.astype(self.fields[f"{name}_tensor"].data_type.dtype)
            self.arrays[f"{name}_tensor"] = array
        return array

    def output(self, data_type: str, sizes: Sequence[int]) -> Any:
        self.fields["output_tensor"] = self.data.draw(outputs(data_type, sizes))
        return self.fields["output_tensor"].data_type.dtype

    def run(self, operator: type[Any], **parameters: Any) -> Array:
        desc = operator(**self.fields, **parameters)
        names = [name for name, field in desc.fields.items() if getattr(field, "direction", "") == "input"]
        return run_single(desc, *(self.arrays[name] for name in names))


@st.composite
def matrices(draw: st.DrawFn) -> tuple[list[int], int, int, int]:
    return [draw(st.integers(1, 2)) for _ in range(draw(st.integers(0, 2)))], draw(SIZES), draw(SIZES), draw(SIZES)


def operands(
    drawn: Drawn, types: tuple[str, str], shape: tuple[list[int], int, int, int], scales: str = ""
) -> tuple[Array, Array, Array, Array]:
    """Both matrices less their zero points, as Python's integers, and their scales."""
    batch, rows, inner, columns = shape
    rank, found, factors = len(batch) + 2, [], []
    for name, data_type, sizes, dimension in (
        ("a", types[0], (rows, inner), -2),
        ("b", types[1], (inner, columns), -1),
    ):
        whole = drawn.input(name, data_type, [*batch, *sizes])
        count = sizes[dimension]
        zero = None
        drawn.fields[f"{name}_zero_point_tensor"] = drawn.arrays[f"{name}_zero_point_tensor"] = None
        if drawn.data.draw(st.booleans()):
            zero = drawn.counted(f"{name}_zero_point", data_type, rank, dimension, count)
        if scales:
            factors.append(drawn.counted(f"{name}_scale", scales, rank, dimension, count, special=False))
        found.append(whole.astype(object) - numbers(zero).astype(object))
    return found[0], found[1], *(factors or (np.ones(1), np.ones(1)))


@bounded
@given(data=st.data(), shape=matrices(), a_type=BYTES, b_type=BYTES, seed=seeds)
def test_matrix_multiply_integer(data: st.DataObject, shape: Any, a_type: str, b_type: str, seed: int) -> None:
    drawn = Drawn(data, seed)
    a, b, *_ = operands(drawn, (a_type, b_type), shape)
    exact = np.matmul(a, b)
    drawn.output("INT32", exact.shape)
    assert_identical(drawn.run(operators.MatrixMultiplyInteger), wrapped(exact))


@bounded
@given(data=st.data(), shape=matrices(), integer=UP_TO_32_BIT, real=st.sampled_from(["FLOAT32", "FLOAT16"]), seed=seeds)
def test_matrix_multiply_integer_to_float(data: st.DataObject, shape: Any, integer: str, real: str, seed: int) -> None:
    drawn = Drawn(data, seed)
    a, b, a_scale, b_scale = operands(drawn, (integer, integer), shape, real)
    exact = np.matmul(a, b)
    dtype = drawn.output(real, exact.shape)
    bias = drawn.maybe("bias", real, exact.shape)
    total = wrapped(exact, 32 if integer.endswith("8") else 64).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = total * (a_scale.astype(np.float32) * b_scale.astype(np.float32))
        expected = (expected if bias is None else expected + bias.astype(np.float32)).astype(dtype)
    assert_identical(drawn.run(operators.MatrixMultiplyIntegerToFloat), expected)


@bounded
@given(data=st.data(), shape=matrices(), types=st.tuples(BYTES, BYTES, BYTES), seed=seeds)
def test_quantized_linear_matrix_multiply(data: st.DataObject, shape: Any, types: Any, seed: int) -> None:
    drawn = Drawn(data, seed)
    a, b, a_scale, b_scale = operands(drawn, types[:2], shape, "FLOAT32")
    exact = np.matmul(a, b)
    dtype, rank, rows = drawn.output(types[2], exact.shape), exact.ndim, shape[1]
    scale = drawn.counted("output_scale", "FLOAT32", rank, -2, rows, special=False)
    drawn.fields["output_zero_point_tensor"] = drawn.arrays["output_zero_point_tensor"] = None
    zero = drawn.counted("output_zero_point", types[2], rank, -2, rows) if data.draw(st.booleans()) else None
    expected = again(wrapped(exact), a_scale * b_scale / scale, numbers(zero), dtype)
    assert_identical(drawn.run(operators.QuantizedLinearMatrixMultiply), expected)


@st.composite
def windows(draw: st.DrawFn, rank: int) -> dict[str, list[int]]:
    """Spatial sizes of input, filter and output, and the window's way."""
    names = ("sizes", "taps", "counts", "strides", "dilations", "start_padding", "end_padding")
    lists: dict[str, list[int]] = {name: [] for name in names}
    for _ in range(rank):
        size, taps = draw(st.integers(1, 6)), draw(st.integers(1, 3))
        stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        span = 1 + (taps - 1) * dilation
        start, end = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        end = max(end, span - size - start)
        count = (size + start + end - span) // stride + 1
        for own, value in zip(lists.values(), (size, taps, count, stride, dilation, start, end), strict=True):
            own.append(value)
    return lists


def positions(window: dict[str, list[int]]) -> Any:
    """Every output's place, every tap, and the place in the input where it lies inside."""
    for place in np.ndindex(*window["counts"]):
        for taps in np.ndindex(*window["taps"]):
            ways = zip(place, taps, window["strides"], window["dilations"], window["start_padding"], strict=True)
            position = tuple(o * s + t * d - p for o, t, s, d, p in ways)
            if all(0 <= p < n for p, n in zip(position, window["sizes"], strict=True)):
                yield place, taps, position


def convolved(x: Array, w: Array, groups: int, window: dict[str, list[int]]) -> Array:
    """Plain loops in 64-bit integers, of differences."""
    y = np.zeros((x.shape[0], w.shape[0], *window["counts"]), np.int64)
    group_outputs, group_inputs = w.shape[0] // groups, w.shape[1]
    for place, taps, position in positions(window):
        for channel, inner in itertools.product(range(w.shape[0]), range(group_inputs)):
            source = channel // group_outputs * group_inputs + inner
            y[(slice(None), channel, *place)] += x[(slice(None), source, *position)] * w[(channel, inner, *taps)]
    return y


@bounded
@given(
    data=st.data(),
    window=st.one_of(windows(1), windows(2)),
    groups=st.integers(1, 2),
    channels=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    types=st.tuples(BYTES, BYTES, BYTES),
    requantizes=st.booleans(),
    seed=seeds,
)
def test_convolution(
    data: st.DataObject, window: Any, groups: int, channels: Any, types: Any, requantizes: bool, seed: int
) -> None:
    drawn, rank, filters = Drawn(data, seed), len(window["sizes"]) + 2, groups * channels[1]
    differences: list[Array] = []
    for name, sizes, count in (
        ("input", [2, groups * channels[0], *window["sizes"]], 1),
        ("filter", [filters, channels[0], *window["taps"]], filters),
    ):
        data_type = types[len(differences)]
        whole, zero = drawn.input(name, data_type, sizes), None
        drawn.fields[f"{name}_zero_point_tensor"] = drawn.arrays[f"{name}_zero_point_tensor"] = None
        if data.draw(st.booleans()):
            zero = drawn.counted(f"{name}_zero_point", data_type, rank, 1, count)
        shape = (-1, *[1] * (rank - 1))
        differences.append(whole.astype(np.int64) - numbers(zero).reshape(shape))
    exact = convolved(differences[0], differences[1], groups, window)
    parameters = {name: window[name] for name in ("strides", "dilations", "start_padding", "end_padding")}
    if not requantizes:
        drawn.output("INT32", exact.shape)
        result = drawn.run(operators.ConvolutionInteger, **parameters, group_count=groups)
        assert_identical(result, wrapped(exact))
        return
    dtype = drawn.output(types[2], exact.shape)
    bias = drawn.maybe("bias", "INT32", [1, filters, *[1] * (rank - 2)])
    x_scale = drawn.counted("input_scale", "FLOAT32", rank, 1, 1, special=False)
    w_scale = drawn.counted("filter_scale", "FLOAT32", rank, 1, filters, special=False)
    scale = drawn.counted("output_scale", "FLOAT32", rank, 1, 1, special=False)
    zero = drawn.maybe("output_zero_point", types[2], [1] * rank)
    total = wrapped(exact + numbers(bias))
    expected = again(total, x_scale * w_scale / scale, numbers(zero), dtype)
    assert_identical(drawn.run(operators.QuantizedLinearConvolution, **parameters, group_count=groups), expected)


@bounded
@given(
    data=st.data(),
    window=st.one_of(windows(2), windows(3)),
    types=st.tuples(BYTES, BYTES),
    include_padding=st.booleans(),
    seed=seeds,
)
def test_average_pooling(data: st.DataObject, window: Any, types: Any, include_padding: bool, seed: int) -> None:
    drawn, rank, channels = Drawn(data, seed), len(window["sizes"]) + 2, 3
    x = drawn.input("input", types[0], [2, channels, *window["sizes"]]).astype(np.int64)
    dtype = drawn.output(types[1], [2, channels, *window["counts"]])
    scales, zeros = [], []
    for name, data_type in zip(("input", "output"), types, strict=True):
        scales.append(drawn.counted(f"{name}_scale", "FLOAT32", rank, 1, channels, special=False))
        drawn.fields[f"{name}_zero_point_tensor"] = drawn.arrays[f"{name}_zero_point_tensor"] = None
        given = data.draw(st.booleans())
        zeros.append(numbers(drawn.counted(f"{name}_zero_point", data_type, rank, 1, channels) if given else None))
    x = x - zeros[0]
    total, count = np.zeros((2, channels, *window["counts"]), np.int64), np.zeros(window["counts"], np.float32)
    for place, _, position in positions(window):
        total[(slice(None), slice(None), *place)] += x[(slice(None), slice(None), *position)]
        count[place] += 1
    if include_padding:
        count[...] = math.prod(window["taps"])
    with np.errstate(all="ignore"):
        mean = total.astype(np.float32) * scales[0] / count
        expected = again(mean / scales[1], np.ones(1), zeros[1], dtype)
    names = ("strides", "dilations", "start_padding", "end_padding")
    result = drawn.run(
        operators.QuantizedLinearAveragePooling,
        **{name: window[name] for name in names},
        window_size=window["taps"],
        include_padding=include_padding,
    )
    assert_identical(result, expected)


def dynamic(x: Array, dtype: Any) -> tuple[Array, np.float32, Any]:
    """ONNX's formula, for both types."""
    limits, single = np.iinfo(dtype), np.float32
    low, high = min(single(x.min()), single(0)), max(single(x.max()), single(0))
    scale = (single(1) if high == low else high - low) / single(255)
    zero_point = np.clip(np.rint(single(limits.min) - low / scale), limits.min, limits.max)
    quotients = np.rint(x.astype(np.float32) / scale) + zero_point
    return np.clip(quotients, limits.min, limits.max).astype(dtype), scale, dtype(zero_point)


@bounded
@given(
    data=st.data(),
    shape=st.lists(st.sampled_from([1, 2, 3, 17]), min_size=1, max_size=3),
    data_type=st.sampled_from(["FLOAT32", "FLOAT16"]),
    output_type=BYTES,
    shift=st.sampled_from([0.0, 5.0, -100.0]),
    seed=seeds,
)
def test_dynamic_quantize_linear(
    data: st.DataObject, shape: Any, data_type: str, output_type: str, shift: float, seed: int
) -> None:
    source, target = data.draw(inputs(data_type, shape)), data.draw(outputs(output_type, shape))
    x = (random_array(source, seed, special=False).astype(np.float32) + np.float32(shift)).astype(data_type.lower())
    one = [1] * len(shape)
    desc = operators.DynamicQuantizeLinear(
        input_tensor=source,
        output_tensor=target,
        output_scale_tensor=TensorDesc("FLOAT32", one),
        output_zero_point_tensor=TensorDesc(output_type, one),
    )
    values, scale, zero_point = run_operator(desc, [x])
    expected = dynamic(x, target.data_type.dtype.type)
    assert_identical(values, expected[0])
    assert (scale.item(), zero_point.item()) == (expected[1], expected[2])


def test_ranges_that_are_none() -> None:
    """Zeros alone have a scale, too; of what is no number there is none, and a zero point is 0."""
    zeros = dml.dynamic_quantize_linear(np.zeros((2, 3), np.float32))
    assert zeros.output.tolist() == [[0] * 3] * 2
    assert zeros.scale.shape == zeros.zero_point.shape == (1, 1)
    assert (zeros.scale.item(), zeros.zero_point.item()) == (np.float32(1) / np.float32(255), 0)
    nothing = dml.dynamic_quantize_linear(np.array([1, np.nan, -1], np.float32), output_data_type="int8")
    assert nothing.output.tolist() == [0, 0, 0] and np.isnan(nothing.scale) and nothing.zero_point == 0
    endless = dml.dynamic_quantize_linear(np.array([1, np.inf, -1], np.float32))
    assert endless.output.tolist() == [0, 0, 0] and endless.scale == np.inf and endless.zero_point == 0


def test_ranges_of_pieces() -> None:
    """Extremes that partial results find."""
    x = np.random.default_rng(0).normal(size=70_000).astype(np.float32)
    values, scale, zero_point = dml.dynamic_quantize_linear(x)
    expected = dynamic(x, np.uint8)
    np.testing.assert_array_equal(values, expected[0])
    assert (scale.item(), zero_point.item()) == (expected[1], expected[2])


@pytest.mark.parametrize("inner", [15, 16, 32, 64, 80])
def test_dot_products_of_whole_vectors(inner: int) -> None:
    """One vector of products that is added up: LLVM has an instruction for it, and forgets most of its lanes."""
    generator = np.random.default_rng(inner)
    signed, unsigned = (
        generator.integers(-128, 128, (1, inner), np.int8),
        generator.integers(0, 256, (inner, 1), np.uint8),
    )
    expected = signed.astype(int) @ unsigned.astype(int)
    assert dml.matrix_multiply_integer(signed, None, unsigned).tolist() == expected.tolist()
    assert dml.matrix_multiply_integer(unsigned.T.copy(), None, signed.T.copy()).tolist() == expected.tolist()
    graph = dml.Graph()
    a, b = graph.input("int8", [1, inner]), graph.input("uint8", [1, inner])
    total = dml.reduce(dml.cast(a, "int32") * dml.cast(b, "int32"), "SUM", axes=[1])
    assert graph.compile(total)(signed, unsigned.T.copy()).tolist() == expected.tolist()


def test_convolution_of_padding_alone() -> None:
    """Taps that no output has inside of the input: factors of 0, which are no products any more."""
    fields: dict[str, Any] = {"strides": [255], "dilations": [1], "start_padding": [1], "end_padding": [1000003]}
    desc = operators.ConvolutionInteger(
        input_tensor=TensorDesc("INT8", [1, 1, 1]),
        filter_tensor=TensorDesc("INT8", [1, 1, 1]),
        output_tensor=TensorDesc("INT32", [1, 1, 3922]),
        group_count=1,
        **fields,
    )
    result = run_single(desc, np.ones((1, 1, 1), np.int8), None, np.ones((1, 1, 1), np.int8), None)
    assert not result.any()


def test_sums_wrap() -> None:
    """More products of the largest differences than INT32 holds."""
    inner = 40_000
    a, b = np.full((2, inner), 255, np.uint8), np.full((inner, 18), 127, np.int8)
    expected = wrapped(np.full((2, 18), inner * 255 * 255, np.int64))
    assert_identical(dml.matrix_multiply_integer(a, None, b, np.int8(-128)), expected)
    wide = np.full((1, 3), -(2**31), np.int32)
    one = np.float32(1)
    result = dml.matrix_multiply_integer_to_float(wide, one, None, wide.T.copy(), one)
    assert result.item() == np.float32(3 * 2**62 - 2**64)


def onnx_reference(operator: str, *arrays: Array | None, **attributes: Any) -> Array:
    """What ONNX's reference evaluator gives."""
    onnx = pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")
    names = ["" if array is None else f"x{i}" for i, array in enumerate(arrays)]
    types = {name: array.dtype for name, array in zip(names, arrays, strict=True) if array is not None}
    of = onnx.helper.np_dtype_to_tensor_dtype
    given = [onnx.helper.make_tensor_value_info(name, of(dtype), None) for name, dtype in types.items()]
    result = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, None)]
    node = onnx.helper.make_node(operator, names, ["y"], **attributes)
    graph = onnx.helper.make_graph([node], "g", given, result)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    feeds = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    (y,) = reference.ReferenceEvaluator(model).run(None, feeds)
    return np.asarray(y)


def test_against_onnx() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.integers(0, 256, (2, 5, 7), np.uint8), generator.integers(-128, 128, (2, 7, 6), np.int8)
    a_zero, b_zero = np.uint8(120), np.int8(-3)
    expected = onnx_reference("MatMulInteger", a, b, np.array(a_zero), np.array(b_zero))
    np.testing.assert_array_equal(dml.matrix_multiply_integer(a, a_zero, b, b_zero), expected)
    scales = [np.array(s, np.float32) for s in (0.03, 0.01, 0.7)]
    ordered = (a, scales[0], np.array(a_zero), b, scales[1], np.array(b_zero), scales[2], np.array(np.uint8(9)))
    result = dml.quantized_linear_matrix_multiply(*ordered)
    np.testing.assert_array_equal(result, onnx_reference("QLinearMatMul", *ordered))
    x, w = generator.integers(0, 256, (2, 4, 8, 9), np.uint8), generator.integers(-128, 128, (6, 2, 3, 3), np.int8)
    window = {"pads": [1, 1, 1, 1], "strides": [2, 1], "group": 2}
    own: dict[str, Any] = {"start_padding": [1, 1], "end_padding": [1, 1], "strides": [2, 1], "group_count": 2}
    expected = onnx_reference("ConvInteger", x, w, np.array(a_zero), **window)
    np.testing.assert_array_equal(dml.convolution_integer(x, a_zero, w, **own), expected)


@pytest.mark.parametrize("x_type", [np.uint8, np.int8])
def test_against_onnx_runtime(x_type: Any) -> None:
    """Bit for bit: the same sums, the same factor, the same rounding."""
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    generator = np.random.default_rng(2)
    limits = np.iinfo(x_type)
    x = generator.integers(limits.min, limits.max + 1, (2, 8, 9, 9), x_type)
    w = generator.integers(-64, 64, (12, 8, 3, 3), np.int8)
    bias = generator.integers(-2000, 2000, 12, np.int32)
    x_zero, y_zero = x_type(limits.max // 2), x_type(limits.max // 3)
    w_scale = generator.uniform(0.01, 0.05, 12).astype(np.float32)
    one = [np.array(v) for v in (np.float32(0.02), x_zero, np.float32(0.61), y_zero)]
    arrays = [x, one[0], one[1], w, w_scale, np.zeros(12, np.int8), one[2], one[3], bias]
    of = onnx.helper.np_dtype_to_tensor_dtype
    constants = [onnx.numpy_helper.from_array(array, f"x{i}") for i, array in enumerate(arrays) if i]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("QLinearConv", [f"x{i}" for i in range(9)], ["y"], pads=[1, 1, 1, 1])],
        "g",
        [onnx.helper.make_tensor_value_info("x0", of(x.dtype), list(x.shape))],
        [onnx.helper.make_tensor_value_info("y", of(x.dtype), None)],
        constants,
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=9)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x0": x})
    padding: dict[str, Any] = {"start_padding": [1, 1], "end_padding": [1, 1]}
    result = dml.quantized_linear_convolution(x, one[0], one[1], w, w_scale, None, bias, one[2], one[3], **padding)
    np.testing.assert_array_equal(result, expected)


def test_functions_see_rows_columns_and_channels() -> None:
    generator = np.random.default_rng(3)
    a, b = generator.integers(0, 256, (2, 3, 5), np.uint8), generator.integers(0, 256, (5, 4), np.uint8)
    rows, columns = np.array([1, 2, 3], np.uint8), np.array([9, 8, 7, 6], np.uint8)
    expected = (a.astype(int) - rows[:, None]) @ (b.astype(int) - columns)
    assert dml.matrix_multiply_integer(a, rows, b, columns).tolist() == expected.tolist()
    scale = np.array([1, 2, 4, 8], np.float32)
    found = dml.matrix_multiply_integer_to_float(a, 0.5, rows, b, scale, columns, np.float32(1))
    assert found.tolist() == (expected * 0.5 * scale + 1).tolist()
    x = generator.integers(0, 256, (1, 2, 3, 3), np.uint8)
    pooled = dml.quantized_linear_average_pooling(
        x, np.array([1, 2], np.float32), None, 1, np.array([0, 5], np.uint8), window_size=[3, 3]
    )
    means = x.reshape(2, 9).sum(1).astype(np.float32) * np.array([1, 2], np.float32) / np.float32(9)
    assert pooled.ravel().tolist() == np.clip(np.rint(means) + np.array([0, 5]), 0, 255).tolist()


def test_an_operand_between_optional_ones_is_needed() -> None:
    x = np.zeros((2, 2), np.uint8)
    with pytest.raises(BindingError, match="b: an array is needed"):
        dml.matrix_multiply_integer(x, None, None)  # type: ignore[call-overload]
    with pytest.raises(BindingError, match="b_scale: an array is needed"):
        dml.matrix_multiply_integer_to_float(x, 1, None, x, None)  # type: ignore[call-overload]
    with pytest.raises(BindingError, match="b: an array is needed"):
        dml.quantized_linear_add(x, 1, None, None, 1, None, 1)  # type: ignore[call-overload]


def test_graphs_of_quantized_layers() -> None:
    """A layer as exporters write it: dynamic quantization, product, scales; fused as alone."""
    generator = np.random.default_rng(4)
    x, w = generator.normal(size=(9, 20)).astype(np.float32), generator.integers(-128, 128, (20, 17), np.int8)
    graph = dml.Graph()
    quantized = dml.dynamic_quantize_linear(graph.input("float32", [9, 20]))
    total = dml.matrix_multiply_integer(quantized.output, quantized.zero_point, graph.constant(w))
    program = graph.compile(dml.cast(total, "float32") * quantized.scale.broadcast_to([9, 17]))
    alone = dml.dynamic_quantize_linear(x)
    expected = dml.matrix_multiply_integer(alone.output, alone.zero_point, w).astype(np.float32) * alone.scale
    (result,) = [program(x)] if not isinstance(program(x), (list, tuple)) else program(x)
    np.testing.assert_array_equal(result, expected)


# ---- rules


def texts(desc: Operator, level: str = "6_4") -> list[str]:
    return [str(violation) for violation in validate(desc, level)]


def u8(*shape: int) -> TensorDesc:
    return TensorDesc("UINT8", shape)


def s32(*shape: int) -> TensorDesc:
    return TensorDesc("INT32", shape)


def test_zero_points_hold_one_value_or_one_of_each_row_or_column() -> None:
    desc = operators.MatrixMultiplyInteger(
        a_tensor=u8(1, 1, 3, 4),
        a_zero_point_tensor=u8(1, 1, 2, 1),
        b_tensor=u8(1, 1, 4, 5),
        b_zero_point_tensor=u8(1, 1, 5, 1),
        output_tensor=s32(1, 1, 3, 5),
    )
    assert texts(desc) == [
        "AZeroPointTensor.Sizes[2]: must be 1 or ATensor.Sizes[2] = 3, got 2",
        "BZeroPointTensor.Sizes[2]: must be 1, as in all dimensions but one, got 5",
    ]
    for a_zero, b_zero in (((3,), (5,)), ((1,), (1,)), ((3, 1), (1, 5)), ((1, 3), (1, 1, 5)), ((1, 1, 3, 1), (1,))):
        assert not texts(desc.replace(a_zero_point_tensor=u8(*a_zero), b_zero_point_tensor=u8(*b_zero)))
    assert texts(desc.replace(a_zero_point_tensor=u8(3, 3), b_zero_point_tensor=None)) == [
        "AZeroPointTensor.Sizes[1]: must be 1, as in all dimensions but one, got 3"
    ]


def test_ranks_by_level() -> None:
    desc = operators.MatrixMultiplyInteger(
        a_tensor=u8(3, 4), b_tensor=u8(4, 5), b_zero_point_tensor=u8(5), output_tensor=s32(3, 5)
    )
    assert not texts(desc, "5_2")
    assert texts(desc, "4_0") == [
        "BZeroPointTensor: must have rank 2 to 4 at feature level 4_0, got rank 1 (allowed from feature level 5_2 on)"
    ]
    assert len(texts(desc, "2_1")) == 4


def test_convolution_rules() -> None:
    fields: dict[str, Any] = {name: [1, 1] for name in ("strides", "dilations", "start_padding", "end_padding")}
    desc = operators.ConvolutionInteger(
        input_tensor=u8(1, 4, 7, 7),
        input_zero_point_tensor=TensorDesc("INT8", [1, 4, 1, 1]),
        filter_tensor=u8(6, 3, 3, 3),
        filter_zero_point_tensor=u8(1, 6, 1, 1),
        output_tensor=s32(1, 5, 7, 6),
        group_count=2,
        **fields,
    )
    assert texts(desc) == [
        "InputZeroPointTensor: must have the DataType of InputTensor, UINT8, got INT8",
        "FilterTensor.Sizes[1]: must be InputTensor.Sizes[1] / GroupCount = 4 / 2, got 3",
        "OutputTensor.Sizes[1]: must be FilterTensor.Sizes[0] = 6, got 5",
        "OutputTensor.Sizes[3]: must be 7, by (InputTensor.Sizes[3] + StartPadding[1] + EndPadding[1] - "
        "(FilterTensor.Sizes[3] - 1) * Dilations[1] - 1) / Strides[1] + 1, got 6",
        "InputZeroPointTensor.Sizes[1]: must be 1, as it holds one value, got 4",
    ]
