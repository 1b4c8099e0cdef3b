"""Nodes between DequantizeLinear and QuantizeLinear: by integers, by float32, and by ONNX Runtime."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml.command_line import main

onnx = pytest.importorskip("onnx")
from onnx_building import REFERENCE, TYPES, info, node, proto  # noqa: E402

Array = npt.NDArray[Any]
ELEMENTS = {"uint8": TYPES.UINT8, "int8": TYPES.INT8, "float32": TYPES.FLOAT, "int32": TYPES.INT32}


@dataclass
class Network:
    """Nodes from ``x`` on, whose constants have names of their own."""

    x: Array = field(repr=False)
    nodes: list[Any] = field(default_factory=list, repr=False)
    weights: dict[str, Array] = field(default_factory=dict, repr=False)

    def known(self, value: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(value)
        return name

    def then(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        name = f"n{len(self.nodes)}"
        given = [one if isinstance(one, str) else self.known(one) for one in inputs]
        self.nodes.append(node(kind, given, [name], **attributes))
        return name

    def dequantized(self, integers: Any, scale: Any, zero_point: Any, **attributes: Any) -> str:
        return self.then("DequantizeLinear", integers, np.float32(scale), zero_point, **attributes)

    def quantized(self, numbers: str, scale: Any, zero_point: Any) -> str:
        return self.then("QuantizeLinear", numbers, np.float32(scale), zero_point)

    def proto(self, output: str, data_type: str = "uint8", opset: int = 17) -> Any:
        inputs = [info("x", self.x.shape, ELEMENTS[self.x.dtype.name])]
        renamed = node("Identity", [output], ["y"])
        return proto([*self.nodes, renamed], inputs, [info("y", None, ELEMENTS[data_type])], opset, **self.weights)

    def model(self, *arguments: Any) -> dml.OnnxModel:
        loaded = dml.load(self.proto(*arguments).SerializeToString())
        assert isinstance(loaded, dml.OnnxModel)
        return loaded


def operators_of(model: dml.OnnxModel, device: dml.Device | None = None, **named: Any) -> list[str]:
    """The operators of the graph, but for constants."""
    return [one.operator.type.name for one in model.describe(device, **named).nodes if hasattr(one, "operator")]


def integers_of(random: Any, data_type: Any, *sizes: int) -> Array:
    limits = np.iinfo(data_type)
    return np.asarray(random.integers(limits.min, limits.max + 1, sizes).astype(data_type))


def value_of(random: Any, data_type: str) -> Any:
    return integers_of(random, data_type, 1)[0]


PRODUCTS = ("Conv", "MatMul", "Gemm")


@st.composite
def products(draw: st.DrawFn) -> tuple[Network, str, str]:
    """A product of quantised tensors, with or without a bias and limits behind it, quantised again."""
    random = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    types = [draw(st.sampled_from(("uint8", "int8"))) for _ in range(2)]
    kind, by_output, has_bias = draw(st.sampled_from(PRODUCTS)), draw(st.booleans()), draw(st.booleans())
    outputs, inner, turned = draw(st.integers(1, 5)), draw(st.integers(1, 7)), draw(st.booleans())
    attributes: dict[str, Any] = {}
    sizes: tuple[int, ...]
    filter_sizes: tuple[int, ...]
    if kind == "Conv":
        groups, size, side = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(3, 5))
        outputs *= groups
        sizes, filter_sizes, axis = (2, inner * groups, side, side), (outputs, inner, size, size), 0
        pads = draw(st.integers(0, size - 1))
        attributes = {"group": groups, "pads": [pads] * 4, "strides": [draw(st.integers(1, 2))] * 2}
    elif kind == "Gemm":
        sizes, axis = (3, inner), 0 if turned else 1
        filter_sizes = (outputs, inner) if turned else (inner, outputs)
        attributes = {"transB": int(turned)}
    else:
        sizes, filter_sizes, axis, has_bias = (2, 3, inner), (inner, outputs), 1, False
    network = Network(integers_of(random, "uint8", *sizes))
    if types[0] == "int8":
        network.x = network.x.view(np.int8)
    # Of few bits: without VNNI ONNX Runtime's products of pairs saturate.
    filter = random.integers(-63, 64, filter_sizes).astype(np.int8)
    scales = random.uniform(0.001, 0.01, outputs if by_output else 1).astype(np.float32)
    x_scale, y_scale = np.float32(random.uniform(0.01, 0.1)), np.float32(random.uniform(0.01, 0.1))
    zero_point = value_of(random, types[0])
    data = network.dequantized("x", x_scale, zero_point)
    weights = network.dequantized(
        filter, scales if by_output else scales[0], np.zeros_like(scales, np.int8)[() if by_output else 0], axis=axis
    )
    inputs = [data, weights]
    if has_bias:
        bias = random.integers(-3000, 3000, outputs).astype(np.int32)
        units = np.broadcast_to(x_scale * scales, outputs)
        inputs.append(network.dequantized(bias, units, np.zeros(outputs, np.int32), axis=0))
    found = network.then(kind, *inputs, **attributes)
    limits = draw(st.sampled_from(("", "Relu", "Clip", "Relu Clip")))
    for name in limits.split():
        found = network.then(name, found, *([np.float32(-0.3), np.float32(0.7)] if name == "Clip" else []))
    return network, network.quantized(found, y_scale, value_of(random, types[1])), types[1]


@examples(100)
@given(products())
def test_products_are_those_of_integers(drawn: tuple[Network, str, str]) -> None:
    """They are at most one step from the products in float32, and those that are exact beside it."""
    network, output, data_type = drawn
    model = network.model(output, data_type)
    by_integers = model.run({"x": network.x}, device=REFERENCE)["y"]
    by_numbers = model.run({"x": network.x}, device=REFERENCE, fuse_quantization=False)["y"]
    assert by_integers.dtype == by_numbers.dtype == np.dtype(data_type)
    assert np.abs(by_integers.astype(int) - by_numbers.astype(int)).max() <= 1
    fused, plain = (set(operators_of(model, fuse_quantization=fuses)) for fuses in (True, False))
    assert fused & {"QUANTIZED_LINEAR_CONVOLUTION", "QUANTIZED_LINEAR_MATRIX_MULTIPLY", "MATRIX_MULTIPLY_INTEGER"}
    assert not fused & {"CONVOLUTION", "GEMM"}
    assert plain & {"CONVOLUTION", "GEMM"}


@examples(60)
@given(products())
def test_products_are_those_of_onnx_runtime(drawn: tuple[Network, str, str]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    network, output, data_type = drawn
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    file = network.proto(output, data_type)
    file.ir_version = 8
    session = onnxruntime.InferenceSession(file.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": network.x})
    found = network.model(output, data_type).run({"x": network.x}, device=REFERENCE)["y"]
    # What it does not fuse (types that differ, limits) is rounded otherwise.
    is_fused = network.x.dtype == np.dtype(data_type) and not {one.op_type for one in network.nodes} & {"Clip", "Relu"}
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= (0 if is_fused else 1)


@pytest.mark.parametrize("data_type", ["uint8", "int8"])
def test_convolutions_have_the_bits_of_exact_sums(data_type: str) -> None:
    random = np.random.default_rng(1)
    network = Network(integers_of(random, data_type, 1, 3, 5, 5))
    filter, bias = integers_of(random, "int8", 4, 3, 3, 3), integers_of(random, "int8", 4).astype(np.int32)
    scales, zero_point = random.uniform(0.01, 0.02, 4).astype(np.float32), network.x.dtype.type(3)
    inputs = [
        network.dequantized("x", 0.5, zero_point),
        network.dequantized(filter, scales, np.zeros(4, np.int8), axis=0),
        network.dequantized(bias, scales * np.float32(0.5), np.zeros(4, np.int32), axis=0),
    ]
    model = network.model(network.quantized(network.then("Conv", *inputs), 7, np.int8(2)), "int8")
    windows = np.lib.stride_tricks.sliding_window_view(network.x.astype(np.int32) - 3, (3, 3), (2, 3))
    sums = np.einsum("nchwij,ocij->nohw", windows, filter.astype(np.int32)) + bias[:, None, None]
    factors = np.float32(0.5) * scales / np.float32(7)
    expected = np.rint(sums.astype(np.float32) * factors[:, None, None]) + 2
    found = model.run({"x": network.x})["y"]
    np.testing.assert_array_equal(found, np.clip(expected, -128, 127))
    assert operators_of(model) == ["QUANTIZED_LINEAR_CONVOLUTION"]


@st.composite
def transposed(draw: st.DrawFn) -> tuple[Network, str]:
    """A transposed convolution of quantised tensors of one or two dimensions."""
    random = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    rank, groups, has_bias = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.booleans())
    inner, outputs = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    side = [draw(st.integers(1, 5)) for _ in range(rank)]
    strides = [draw(st.integers(1, 3)) for _ in range(rank)]
    taps = [draw(st.integers(stride, 5)) for stride in strides]
    start, end = ([draw(st.integers(0, min(2, n - 1))) for n in taps] for _ in range(2))
    extra = [draw(st.integers(0, stride - 1)) for stride in strides]
    every = zip(side, strides, taps, start, end, extra, strict=True)
    start = [a if s * (n - 1) + k - a - b + e > 0 else 0 for n, s, k, a, b, e in every]
    every = zip(side, strides, taps, start, end, extra, strict=True)
    end = [b if s * (n - 1) + k - a - b + e > 0 else 0 for n, s, k, a, b, e in every]
    network = Network(integers_of(random, "uint8", 2, inner * groups, *side))
    by_output = draw(st.booleans())
    scales = random.uniform(0.001, 0.01, outputs if by_output else 1).astype(np.float32)
    filter = random.integers(-63, 64, (inner * groups, outputs, *taps)).astype(np.int8)
    zero = np.zeros_like(scales, np.int8)
    inputs = [
        network.dequantized("x", 0.05, value_of(random, "uint8")),
        network.dequantized(filter, scales if by_output else scales[0], zero if by_output else zero[0], axis=1),
    ]
    if has_bias:
        bias = random.integers(-3000, 3000, outputs * groups).astype(np.int32)
        units = np.float32(0.05) * (np.tile(scales, groups) if by_output else np.repeat(scales, outputs * groups))
        inputs.append(network.dequantized(bias, units, np.zeros(outputs * groups, np.int32), axis=0))
    found = network.then(
        "ConvTranspose", *inputs, group=groups, strides=strides, pads=[*start, *end], output_padding=extra
    )
    return network, network.quantized(network.then("Relu", found), 0.03, value_of(random, "uint8"))


@examples(100)
@given(transposed())
def test_transposed_convolutions_are_convolutions_of_integers_by_phases(drawn: tuple[Network, str]) -> None:
    network, output = drawn
    model = network.model(output)
    by_integers = model.run({"x": network.x}, device=REFERENCE)["y"].astype(int)
    by_numbers = model.run({"x": network.x}, device=REFERENCE, fuse_quantization=False)["y"].astype(int)
    assert by_integers.shape == by_numbers.shape and np.abs(by_integers - by_numbers).max(initial=0) <= 1


@pytest.mark.parametrize(("attributes", "is_fused"), [({}, True), ({"dilations": [2, 2]}, False)])
def test_which_transposed_convolutions_are_of_integers(attributes: dict[str, Any], is_fused: bool) -> None:
    """A convolution for each of four phases, and nothing in float32; none for windows with gaps."""
    random = np.random.default_rng(5)
    network = Network(integers_of(random, "uint8", 1, 3, 4, 4))
    filter = network.dequantized(integers_of(random, "int8", 3, 5, 4, 4), 0.01, np.int8(0))
    data = network.dequantized("x", 0.02, np.uint8(100))
    found = network.then("ConvTranspose", data, filter, strides=[2, 2], pads=[1] * 4, **attributes)
    names = operators_of(network.model(network.quantized(found, 0.05, np.uint8(128))))
    fused = ["QUANTIZED_LINEAR_CONVOLUTION"] * 4 + ["JOIN"] * 3
    assert sorted(names) == sorted(fused) if is_fused else "CONVOLUTION" in names


MOVES: list[tuple[str, tuple[int, ...], list[Any], dict[str, Any]]] = [
    ("Reshape", (2, 6), [np.array([3, 4])], {}),
    ("Transpose", (2, 3, 4), [], {"perm": [2, 0, 1]}),
    ("Flatten", (2, 3, 4), [], {}),
    ("Squeeze", (2, 1, 4), [np.array([1])], {}),
    ("Unsqueeze", (2, 4), [np.array([0])], {}),
    ("Slice", (4, 5), [np.array([1]), np.array([4]), np.array([1])], {}),
    ("Gather", (4, 5), [np.array([2, 0])], {"axis": 1}),
    ("Expand", (1, 5), [np.array([3, 5])], {}),
    ("DepthToSpace", (1, 8, 2, 3), [], {"blocksize": 2}),
    ("MaxPool", (1, 2, 5, 5), [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ("Concat", (2, 3), ["n0"], {"axis": 1}),
    ("Relu", (3, 4), [], {}),
]


@pytest.mark.parametrize(("kind", "sizes", "others", "attributes"), MOVES, ids=[one[0] for one in MOVES])
def test_what_moves_elements_moves_integers(
    kind: str, sizes: tuple[int, ...], others: Sequence[Any], attributes: dict[str, Any]
) -> None:
    network = Network(integers_of(np.random.default_rng(2), "uint8", *sizes))
    moved = network.then(kind, network.dequantized("x", 0.03, np.uint8(70)), *others, **attributes)
    model = network.model(network.quantized(moved, 0.03, np.uint8(70)))
    results = [model.run({"x": network.x}, device=REFERENCE, fuse_quantization=fuses)["y"] for fuses in (True, False)]
    np.testing.assert_array_equal(results[0], results[1])
    assert not any("QUANTIZE" in name for name in operators_of(model))
    assert any("QUANTIZE" in name for name in operators_of(model, fuse_quantization=False))
    numbers = network.model(moved, "float32")
    results = [numbers.run({"x": network.x}, device=REFERENCE, fuse_quantization=fuses)["y"] for fuses in (True, False)]
    np.testing.assert_array_equal(results[0], results[1])


def test_a_pool_that_sees_nothing_but_padding_stays_as_it_is() -> None:
    network = Network(integers_of(np.random.default_rng(2), "uint8", 1, 1, 4, 4))
    data = network.dequantized("x", 0.5, np.uint8(7))
    window = {"kernel_shape": [2, 2], "dilations": [2, 2], "pads": [1, 1, 1, 1]}
    model = network.model(network.quantized(network.then("MaxPool", data, **window), 0.5, np.uint8(7)))
    assert "ELEMENT_WISE_DEQUANTIZE_LINEAR" in operators_of(model)


def test_products_that_are_not_quantised_again_are_scaled() -> None:
    """As MatMulIntegerToFloat: the sums are exact, and rounded once."""
    random = np.random.default_rng(3)
    network = Network(integers_of(random, "uint8", 4, 6))
    data = network.dequantized("x", 0.5, np.uint8(9))
    filter, bias = integers_of(random, "int8", 6, 3), random.standard_normal(3).astype(np.float32)
    weights = network.dequantized(filter, 0.25, np.int8(-2))
    sums = (network.x.astype(int) - 9) @ (filter.astype(int) + 2)
    model = network.model(network.then("MatMul", data, weights), "float32")
    expected = sums.astype(np.float32) * np.float32(0.125)
    np.testing.assert_array_equal(model.run({"x": network.x})["y"], expected)
    model = network.model(network.then("Gemm", data, weights, bias), "float32")
    np.testing.assert_array_equal(model.run({"x": network.x})["y"], expected + bias)
    assert "MATRIX_MULTIPLY_INTEGER" in operators_of(model)


@examples(40)
@given(st.integers(0, 1 << 20), st.sampled_from(((3, 4), (4,), (1, 4))), st.booleans())
def test_sums_are_taken_in_the_steps_of_the_result(seed: int, sizes: tuple[int, ...], limited: bool) -> None:
    random = np.random.default_rng(seed)
    network = Network(integers_of(random, "uint8", 3, 4))
    scales = random.uniform(0.01, 0.1, 3).astype(np.float32)
    zero_points = integers_of(random, "uint8", 3)
    other = integers_of(random, "uint8", *sizes)
    parts = [network.dequantized(one, scales[i], zero_points[i]) for i, one in enumerate(("x", other))]
    total = network.then("Add", *parts)
    total = network.then("Relu", total) if limited else total
    model = network.model(network.quantized(total, scales[2], zero_points[2]))
    results = [model.run({"x": network.x}, device=REFERENCE, fuse_quantization=fuses)["y"] for fuses in (True, False)]
    assert np.abs(np.subtract(*results, dtype=int)).max() <= 1
    exact = (network.x.astype(float) - zero_points[0]) * scales[0] + (other.astype(float) - zero_points[1]) * scales[1]
    wanted = np.clip(exact.clip(0 if limited else None) / scales[2] + zero_points[2], 0, 255)
    assert np.abs(results[0] - wanted).max() < 0.5001


def test_a_result_that_is_also_read_as_numbers() -> None:
    random = np.random.default_rng(4)
    network = Network(integers_of(random, "uint8", 4, 6))
    data = network.dequantized("x", 0.5, np.uint8(9))
    product = network.then("MatMul", data, network.dequantized(integers_of(random, "int8", 6, 3), 0.01, np.int8(0)))
    quantized = network.quantized(product, 0.5, np.uint8(128))
    total = network.then("Add", product, network.dequantized(quantized, 0.5, np.uint8(128)))
    model = network.model(total, "float32")
    results = [model.run({"x": network.x}, device=REFERENCE, fuse_quantization=fuses)["y"] for fuses in (True, False)]
    np.testing.assert_allclose(results[0], results[1], atol=0.51)


def _of_unknown_scale(network: Network) -> str:
    scale = network.then("ReduceMax", network.then("Cast", "x", to=TYPES.FLOAT), keepdims=0)
    data = network.then("DequantizeLinear", "x", scale, np.uint8(3))
    return network.quantized(network.then("Relu", data), 0.5, np.uint8(3))


def _of_other_steps(network: Network) -> str:
    return network.quantized(network.dequantized("x", 0.5, np.uint8(3)), 0.25, np.uint8(3))


def _of_a_scale_of_zero(network: Network) -> str:
    return network.quantized(network.dequantized("x", 0, np.uint8(3)), 0, np.uint8(3))


def _of_another_factor(network: Network) -> str:
    data = network.dequantized("x", 0.5, np.uint8(3))
    return network.quantized(network.then("Gemm", data, data, alpha=0.5, transB=1), 0.5, np.uint8(3))


def _of_a_bias_in_other_units(network: Network) -> str:
    data, bias = (
        network.dequantized("x", 0.5, np.uint8(3)),
        network.dequantized(np.arange(4, dtype="i"), 1, np.int32(0)),
    )
    return network.quantized(network.then("Gemm", data, data, bias, transB=1), 0.5, np.uint8(3))


@pytest.mark.parametrize(
    "build", [_of_unknown_scale, _of_other_steps, _of_a_scale_of_zero, _of_another_factor, _of_a_bias_in_other_units]
)
def test_what_has_no_integers_is_computed_as_it_is_written(build: Any) -> None:
    network = Network(integers_of(np.random.default_rng(5), "uint8", 4, 4))
    model = network.model(build(network))
    results = [model.run({"x": network.x}, device=REFERENCE, fuse_quantization=fuses)["y"] for fuses in (True, False)]
    np.testing.assert_array_equal(results[0], results[1])
    assert "ELEMENT_WISE_QUANTIZE_LINEAR" in operators_of(model)


def test_sessions_leave_quantised_nodes_apart_where_onnx_runtime_does() -> None:
    from opendml.compatibility import onnxruntime as runtime

    # 3 * 0.1 in float32 is above 0.3, by which a sum of such products is rounded up where the exact one is a tie.
    network = Network(np.full((1, 3), 1, np.uint8))
    data = network.dequantized("x", 0.1, np.uint8(0))
    weights = network.dequantized(np.full((3, 1), 5, np.int8), 1, np.int8(0))
    file = network.proto(network.quantized(network.then("MatMul", data, weights), 1, np.uint8(0))).SerializeToString()
    ways = []
    for entry, level in (("0", "ENABLE_ALL"), ("1", "ENABLE_ALL"), ("0", "ENABLE_BASIC"), ("0", "DISABLE_ALL")):
        options = runtime.SessionOptions()
        options.add_session_config_entry("session.disable_quant_qdq", entry)
        options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, f"ORT_{level}")
        ways.append(options.fuses_quantization)
        runtime.InferenceSession(file, options).run(None, {"x": network.x})
    assert ways == [True, False, False, False]


def test_programs_for_integers_and_for_numbers_are_kept_apart() -> None:
    """In memory, and on disk: 1.5 is rounded to 2, and a little less to 1."""
    network = Network(np.full((1, 3), 5, np.uint8))
    data = network.dequantized("x", 0.1, np.uint8(0))
    weights = network.dequantized(np.full((3, 1), 1, np.int8), 1.0, np.int8(0))
    model = network.model(network.quantized(network.then("MatMul", data, weights), 1, np.uint8(0)))
    for _ in range(2):
        programs = [model.compile(fuse_quantization=fuses).program for fuses in (True, False)]
        operators = [None if one is None else one.program.desc for one in programs]
        assert operators[0] != operators[1]


def test_weights_that_are_transposed_keep_their_scales() -> None:
    random = np.random.default_rng(8)
    network = Network(integers_of(random, "uint8", 2, 5))
    filter, scales = integers_of(random, "int8", 3, 5), random.uniform(0.01, 0.1, 3).astype(np.float32)
    weights = network.then("Transpose", network.dequantized(filter, scales, np.zeros(3, np.int8), axis=0))
    model = network.model(network.then("MatMul", network.dequantized("x", 1, np.uint8(0)), weights), "float32")
    expected = (network.x.astype(int) @ filter.T.astype(int)).astype(np.float32) * scales
    np.testing.assert_array_equal(model.run({"x": network.x})["y"], expected)
    assert "GEMM" not in operators_of(model)


def test_images_of_three_dimensions_have_no_quantised_convolution() -> None:
    network = Network(integers_of(np.random.default_rng(9), "uint8", 1, 1, 2, 3, 3))
    data = network.dequantized("x", 0.5, np.uint8(3))
    weights = network.dequantized(np.ones((1, 1, 1, 2, 2), np.int8), 0.5, np.int8(0))
    model = network.model(network.quantized(network.then("Conv", data, weights), 0.5, np.uint8(3)))
    assert "CONVOLUTION" in operators_of(model)
    model.run({"x": network.x}, device=REFERENCE)


# ---- where it is not wanted


def product_file() -> bytes:
    random = np.random.default_rng(3)
    network = Network(integers_of(random, "uint8", 4, 8))
    weights = network.dequantized(integers_of(random, "uint8", 8, 5), 0.01, np.uint8(3))
    product = network.then("MatMul", network.dequantized("x", 0.02, np.uint8(100)), weights)
    data: bytes = network.proto(network.quantized(product, 0.05, np.uint8(128))).SerializeToString()
    return data


@pytest.mark.parametrize(
    ("option", "fuses"),
    [
        ([], True),
        (["--no-fuse-quantization"], False),
        (["-l", "1"], False),
        (["-l", "2"], True),
        (["-e", "session.disable_quant_qdq:1"], False),
        (["-e", "session.disable_quant_qdq:0", "-e", "other:1"], True),
    ],
    ids=str,
)
def test_the_command_leaves_quantised_nodes_in_float32(
    option: list[str], fuses: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    program_for = dml.OnnxModel.program_for

    def noted(self: dml.OnnxModel, *given: Any, **named: Any) -> Any:
        made.append(program_for(self, *given, **named))
        return made[-1]

    monkeypatch.setattr(dml.OnnxModel, "program_for", noted)
    (tmp_path / "m.onnx").write_bytes(product_file())
    assert main(["run", str(tmp_path / "m.onnx"), "--device", "reference", *option]) == 0
    (program,) = made
    assert ("QUANTIZED_LINEAR_MATRIX_MULTIPLY" in str(dml.explain(program))) == fuses


def test_commands_and_models_of_dxdispatch_leave_them_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.onnx").write_bytes(product_file())
    cases: dict[str, dict[str, Any]] = {
        "plain": {},
        "level": {"graphOptimizationLevel": 1},
        "entry": {"sessionOptionsConfigEntries": {"session.disable_quant_qdq": "1"}},
    }
    for name, members in cases.items():
        document = {
            "resources": {},
            "dispatchables": {"m": {"type": "onnx", "sourcePath": "m.onnx", **members}},
            "commands": [{"type": "dispatch", "dispatchable": "m", "bindings": {}}],
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    for file, options in {
        "m.onnx": [],
        "plain.json": [],
        "level.json": [],
        "entry.json": [],
        "./m.onnx": ["--no-fuse-quantization"],
        "./plain.json": ["--no-fuse-quantization"],
    }.items():
        assert main(["explain", str(tmp_path / file), *options]) == 0
        fuses = file in ("m.onnx", "plain.json")
        assert ("QUANTIZED_LINEAR_MATRIX_MULTIPLY" in capsys.readouterr().out) == fuses, file
