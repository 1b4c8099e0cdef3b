"""Operators of com.microsoft: against ONNX Runtime where its CPU has them, else against NumPy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import opendml as dml
from opendml.formats.onnx.operators.table import OPERATORS, REASONS

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
helper = onnx.helper

Array = npt.NDArray[Any]
REFERENCE = dml.Device("reference")
DOMAIN = "com.microsoft"
RANDOM = np.random.default_rng(7)


def floats(*sizes: int) -> Array:
    return RANDOM.standard_normal(sizes).astype(np.float32)


def integers(low: int, high: int, *sizes: int, data_type: str = "int32") -> Array:
    return RANDOM.integers(low, high, sizes).astype(data_type)


def model_bytes(
    operator: str, inputs: Mapping[str, Array | None], outputs: int, attributes: dict[str, Any], types: list[Any] | None
) -> bytes:
    given = {name: array for name, array in inputs.items() if array is not None}
    domain = "" if operator == "SimplifiedLayerNormalization" else DOMAIN
    names = [name if array is not None else "" for name, array in inputs.items()]
    produced = [f"y{i}" if types is None or types[i] is not None else "" for i in range(outputs)]
    node = helper.make_node(operator, names, produced, domain=domain, name="node", **attributes)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    results = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(types[i] if types else "f")), None)
        for i, name in enumerate(produced)
        if name
    ]
    graph = helper.make_graph([node], "g", infos, results)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    data: bytes = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    return data


def results_of(
    operator: str,
    inputs: Mapping[str, Array | None],
    outputs: int = 1,
    types: list[Any] | None = None,
    **attributes: Any,
) -> tuple[list[Array], bytes, dict[str, Array]]:
    data = model_bytes(operator, inputs, outputs, attributes, types)
    model = dml.load(data)
    assert isinstance(model, dml.OnnxModel)
    given = {name: array for name, array in inputs.items() if array is not None}
    return [*model.run(given, device=REFERENCE).values()], data, given


def as_onnx_runtime(operator: str, inputs: Mapping[str, Array | None], steps: int = 0, **named: Any) -> None:
    """The same results; of quantised ones ``steps`` may lie between."""
    found, data, given = results_of(operator, inputs, **named)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # several quantise parts of a state apart
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    for result, expected in zip(found, session.run(None, given), strict=True):
        assert result.dtype == expected.dtype
        assert result.shape == expected.shape
        if result.dtype.kind == "f":
            np.testing.assert_allclose(result, expected, rtol=2e-4, atol=2e-5)
        else:
            assert np.abs(result.astype(int) - expected.astype(int)).max(initial=0) <= steps


# ---- activations, products


def test_activations_with_biases() -> None:
    x, bias = floats(2, 3, 8), floats(8)
    as_onnx_runtime("Gelu", {"x": x})
    as_onnx_runtime("BiasGelu", {"x": x, "b": bias})
    as_onnx_runtime("FastGelu", {"x": x, "b": bias})
    as_onnx_runtime("FastGelu", {"x": x})
    as_onnx_runtime("QuickGelu", {"x": x}, alpha=1.5)


@pytest.mark.parametrize(
    ("attributes", "a", "b"),
    [
        ({"alpha": 0.5}, (2, 3, 4), (2, 4, 5)),
        ({"transA": 1, "transB": 1}, (2, 4, 3), (2, 5, 4)),
        ({"transBatchA": 1}, (3, 2, 4), (2, 4, 5)),
        ({"transBatchA": 1, "transBatchB": 1, "transB": 1}, (3, 2, 4), (5, 2, 4)),
        ({}, (4,), (4, 5)),
    ],
)
def test_products_of_transposed_matrices(attributes: dict[str, Any], a: tuple[int, ...], b: tuple[int, ...]) -> None:
    as_onnx_runtime("FusedMatMul", {"a": floats(*a), "b": floats(*b)}, **attributes)


def test_what_is_activated_behind() -> None:
    a, b, c = floats(3, 4), floats(5, 4), floats(5)
    named = {"a": a, "b": b, "c": c}
    as_onnx_runtime("FusedGemm", named, transB=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.2)
    x, w, bias = floats(1, 2, 5, 5), floats(3, 2, 3, 3), floats(3)
    convolution = {"x": x, "w": w, "b": bias}
    as_onnx_runtime("FusedConv", convolution, activation="Relu", pads=[1, 1, 1, 1])
    as_onnx_runtime("FusedConv", convolution, activation="Clip", activation_params=[-0.5, 0.5])
    as_onnx_runtime("FusedConv", convolution | {"z": floats(1, 3, 3, 3)}, activation="Relu")
    (found,), *_ = results_of("FusedMatMulActivation", {"a": a, "b": b}, transB=1, activation="Relu", alpha=2.0)
    np.testing.assert_allclose(found, np.maximum(2 * a @ b.T, 0), rtol=1e-5)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("has_zero_points", [False, True])
def test_products_with_weights_of_few_bits(bits: int, has_zero_points: bool) -> None:
    """Rows of 3 blocks, whose zero points of 4 bits do not fill their bytes; the last block is not whole."""
    rows, length, block = 6, 40, 16
    blocks = -(-length // block)
    given: dict[str, Array | None] = {
        "a": floats(2, 3, length),
        "b": integers(0, 256, rows, blocks, block * bits // 8, data_type="uint8"),
        "scales": np.abs(floats(rows * blocks)),
    }
    attributes = {"bits": bits, "block_size": block, "N": rows, "K": length}
    if not has_zero_points:
        as_onnx_runtime("MatMulNBits", given, **attributes)
        return
    zero = integers(0, 256, rows * -(-blocks * bits // 8), data_type="uint8")
    as_onnx_runtime("MatMulNBits", given | {"zero": zero}, **attributes)


@pytest.mark.parametrize("zero", ["none", "whole", "real"])
@pytest.mark.parametrize("has_order", [False, True])
def test_blocks_of_weights_in_any_order(zero: str, has_order: bool) -> None:
    """Zero points that are real numbers, and columns that say which block's scale they have."""
    rows, length, block = 3, 48, 16
    numbers = integers(0, 16, rows, length, data_type="uint8")
    packed = (numbers[:, ::2] | numbers[:, 1::2] << 4).reshape(rows, length // block, block // 2)
    scales, a = np.abs(floats(rows, 3)), floats(2, length)
    whole = integers(0, 16, rows, 3, data_type="uint8")
    padded = np.concatenate([whole, np.zeros((rows, 1), np.uint8)], 1)
    zeros: dict[str, Array | None] = {
        "none": None,
        "whole": (padded[:, ::2] | padded[:, 1::2] << 4).reshape(-1),
        "real": (whole + np.float32(0.25)).reshape(-1),
    }
    order = RANDOM.permutation(np.arange(length) // block).astype("int32") if has_order else np.arange(length) // block
    given = {"a": a, "b": packed, "scales": scales.reshape(-1), "zero": zeros[zero]}
    given |= {"order": order if has_order else None}
    (found,), *_ = results_of("MatMulNBits", given, bits=4, block_size=block, N=rows, K=length)
    points = {"none": np.full((rows, 3), 8.0), "whole": whole, "real": whole + np.float32(0.25)}[zero]
    weights = (numbers.astype("f") - points[:, order]) * scales[:, order]
    np.testing.assert_allclose(found, a @ weights.T.astype("f"), rtol=2e-4, atol=2e-4)
    if not has_order:
        as_onnx_runtime("MatMulNBits", given, bits=4, block_size=block, N=rows, K=length)


def test_the_page_names_all_operators() -> None:
    """Those that are computed, and those that ONNX Runtime's DirectML provider has."""
    page = (Path(__file__).parents[1] / "docs" / "reference" / "onnx_microsoft.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][2:]
    assert {name for name, *_ in rows} == {name for domain, name in OPERATORS if domain == DOMAIN}
    assert {name for name, has, *_ in rows if has.strip(" |") == "yes"} == PROVIDER
    written = set(re.findall(r"DmlFused\w+", page))
    assert written == {name for domain, name in OPERATORS if domain == DOMAIN + ".dml"}
    for domain, name in REASONS:
        assert domain != DOMAIN or name in page


PROVIDER = {
    *("Attention", "BiasAdd", "BiasGelu", "BiasSplitGelu", "ConvTransposeWithDynamicPads", "DequantizeLinear"),
    *("DynamicQuantizeMatMul", "EmbedLayerNormalization", "FastGelu", "FusedMatMul", "FusedMatMulActivation", "Gelu"),
    *("GroupNorm", "GroupQueryAttention", "MatMulIntegerToFloat", "MatMulNBits", "MultiHeadAttention", "NhwcConv"),
    *("QAttention", "QLinearAdd", "QLinearAveragePool", "QLinearConcat", "QLinearGlobalAveragePool"),
    *("QLinearSigmoid", "QuantizeLinear", "QuickGelu", "RotaryEmbedding", "SkipLayerNormalization"),
    "SkipSimplifiedLayerNormalization",
}
"""What docs/OperatorKernels.md of ONNX Runtime lists for its DirectML provider."""


def gelu(x: Array) -> Array:
    return np.asarray(x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))))


def test_what_onnx_runtime_has_on_gpus_only() -> None:
    x, bias = floats(2, 3, 8), floats(8)
    (found,), *_ = results_of("BiasSplitGelu", {"x": x, "b": bias})
    np.testing.assert_allclose(found, (x + bias)[..., :4] * gelu((x + bias)[..., 4:]), rtol=1e-5, atol=1e-6)
    (found,), *_ = results_of("BiasAdd", {"x": x, "b": bias, "s": x})
    np.testing.assert_allclose(found, x + bias + x)


def test_what_the_directml_provider_makes() -> None:
    """Operators with activations behind them, as a stored optimised model has them; padding that is an input."""
    x, w, b = floats(2, 3, 5, 5), floats(4, 3, 3, 3), floats(4)
    of_channels = floats(3), floats(3), floats(3), np.abs(floats(3))
    cases: list[tuple[str, list[Array], dict[str, Any]]] = [
        ("Add", [x, floats(2, 3, 5, 5)], {}),
        ("Sum", [x, floats(2, 3, 5, 5)], {}),
        ("BatchNormalization", [x, *of_channels], {"epsilon": 1e-3}),
        ("InstanceNormalization", [x, *of_channels[:2]], {}),
        ("MeanVarianceNormalization", [x], {}),
        ("Conv", [x, w, b], {"pads": [1, 1, 1, 1]}),
        ("ConvTranspose", [x, w.transpose(1, 0, 2, 3).copy(), b], {"strides": [2, 2]}),
        ("Gemm", [floats(3, 4), floats(4, 5)], {"alpha": 2.0}),
        ("MatMul", [floats(2, 3, 4), floats(2, 4, 5)], {}),
    ]
    for name, arrays, attributes in cases:
        names = [f"x{i}" for i in range(len(arrays))]
        nodes = [
            helper.make_node(name, names, ["t"], **attributes),
            helper.make_node("LeakyRelu", ["t"], ["y"], alpha=0.5),
        ]
        infos = [helper.make_tensor_value_info(n, 1, a.shape) for n, a in zip(names, arrays, strict=True)]
        result = [helper.make_tensor_value_info("y", 1, None)]
        imports = [helper.make_opsetid("", 13), helper.make_opsetid(DOMAIN + ".dml", 1)]
        given = dict(zip(names, arrays, strict=True))
        fused = {"fused_activation": "LeakyRelu", "fused_activation_domain": "", "fused_alpha": 0.5}
        one = helper.make_node(f"DmlFused{name}", names, ["y"], domain=DOMAIN + ".dml", **attributes, **fused)
        found = []
        for several in (nodes, [one]):
            graph = helper.make_graph(several, "g", infos, result)
            model = dml.load(helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString())
            assert isinstance(model, dml.OnnxModel)
            found.append(model.run(given, device=REFERENCE)["y"])
        np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5, err_msg=name)
    weights = w.transpose(1, 0, 2, 3).copy()
    as_onnx_runtime("ConvTransposeWithDynamicPads", {"x": x, "w": weights, "p": np.array([1, 0, 0, 1]), "b": b})


@pytest.mark.parametrize("is_last", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
def test_groups_of_channels(is_last: int, activation: int) -> None:
    images, scale, bias, skip = floats(2, 4, 3, 5), floats(4), floats(4), floats(2, 4, 3, 5)
    order = (0, 2, 3, 1) if is_last else (0, 1, 2, 3)

    def expected(x: Array) -> Array:
        parts = x.reshape(2, 2, -1)
        normal = (parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + 1e-5)
        found = normal.reshape(x.shape) * scale[:, None, None] + bias[:, None, None]
        return np.asarray((found / (1 + np.exp(-found)) if activation else found).transpose(order))

    named = {"x": images.transpose(order), "gamma": scale, "beta": bias}
    attributes: dict[str, Any] = {"groups": 2, "channels_last": is_last, "activation": activation}
    (found,), *_ = results_of("GroupNorm", named, **attributes)
    np.testing.assert_allclose(found, expected(images), rtol=1e-4, atol=1e-5)
    named |= {"skip": skip.transpose(order), "bias": bias}
    (found, total), *_ = results_of("SkipGroupNorm", named, outputs=2, **attributes)
    whole = images + skip + bias[:, None, None]
    np.testing.assert_allclose(total, whole.transpose(order), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found, expected(whole), rtol=1e-4, atol=1e-5)


def test_convolutions_with_channels_last() -> None:
    x, w, bias = floats(1, 2, 5, 6), floats(3, 2, 3, 3), floats(3)
    (expected,), *_ = results_of("FusedConv", {"x": x, "w": w, "b": bias}, pads=[1, 0, 0, 1], strides=[1, 2])
    named = {"x": x.transpose(0, 2, 3, 1), "w": w.transpose(0, 2, 3, 1), "b": bias}
    (found,), *_ = results_of("NhwcConv", named, pads=[1, 0, 0, 1], strides=[1, 2])
    np.testing.assert_array_equal(found, expected.transpose(0, 2, 3, 1))


# ---- normalisations


def test_normalisations_of_sums() -> None:
    x, skip, scale, beta, bias = floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8)
    named: dict[str, Array | None] = {"x": x, "skip": skip, "gamma": scale}
    as_onnx_runtime("SkipLayerNormalization", {**named, "beta": beta}, epsilon=1e-5)
    outputs: dict[str, Any] = {"outputs": 4, "types": ["f", None, None, "f"]}
    as_onnx_runtime("SkipLayerNormalization", {**named, "beta": beta, "bias": bias}, **outputs)
    as_onnx_runtime("SkipSimplifiedLayerNormalization", {**named, "bias": bias}, **outputs)
    as_onnx_runtime("SimplifiedLayerNormalization", {"x": x, "gamma": scale}, axis=-1, epsilon=1e-3)


def test_embeddings() -> None:
    given: dict[str, Array | None] = {
        "ids": integers(0, 7, 2, 3),
        "segments": integers(0, 2, 2, 3),
        "words": floats(7, 4),
        "positions": floats(5, 4),
        "kinds": floats(2, 4),
        "gamma": floats(4),
        "beta": floats(4),
        "mask": np.array([[1, 1, 0], [1, 1, 1]], "int32"),
    }
    as_onnx_runtime("EmbedLayerNormalization", given, outputs=2, types=["f", "int32"])
    without = given | {"segments": None, "kinds": None}
    as_onnx_runtime("EmbedLayerNormalization", without, outputs=3, types=["f", "int32", "f"])
    placed = given | {"places": integers(0, 5, 2, 3)}
    as_onnx_runtime("EmbedLayerNormalization", placed, outputs=2, types=["f", "int32"])


# ---- quantised


def scale(*sizes: int) -> Array:
    return np.asarray(np.abs(floats(*sizes)) * 0.05 + 0.01, np.float32)


@pytest.mark.parametrize("data_type", ["uint8", "int8"])
def test_quantised_elements(data_type: str) -> None:
    limits = np.iinfo(data_type)
    a, b = (integers(limits.min, limits.max + 1, *sizes, data_type=data_type) for sizes in ((2, 3, 4), (3, 1)))
    zeros = [np.array(v, data_type) for v in (3, 7, 11)]
    two: dict[str, Array | None] = {"a": a, "as": scale(), "az": zeros[0], "b": b, "bs": scale(), "bz": zeros[1]}
    two |= {"cs": np.array(0.1, "f"), "cz": zeros[2]}
    for operator in ("QLinearAdd", "QLinearMul"):
        as_onnx_runtime(operator, two, steps=1, types=[data_type])
    one: dict[str, Array | None] = {"a": a, "as": scale(), "az": zeros[0], "cs": np.array(0.01, "f"), "cz": zeros[2]}
    as_onnx_runtime("QLinearSigmoid", one, steps=1, types=[data_type])
    as_onnx_runtime("QLinearLeakyRelu", one, steps=1, types=[data_type], alpha=0.2)
    as_onnx_runtime("QLinearSoftmax", one, steps=1, types=[data_type], axis=-1, opset=13)
    parts: dict[str, Array | None] = {"cs": np.array(0.1, "f"), "cz": zeros[2], "a": a, "as": scale(), "az": zeros[0]}
    parts |= {"b": a[:, :1], "bs": scale(), "bz": zeros[1]}
    as_onnx_runtime("QLinearConcat", parts, steps=1, types=[data_type], axis=1)


@pytest.mark.parametrize("is_last", [0, 1])
def test_quantised_pools(is_last: int) -> None:
    x = integers(0, 256, 1, 2, 5, 6, data_type="uint8")
    x = x.transpose(0, 2, 3, 1).copy() if is_last else x
    given: dict[str, Array | None] = {"x": x, "xs": scale(), "xz": np.array(3, "uint8")}
    given |= {"ys": scale(), "yz": np.array(9, "uint8")}
    as_onnx_runtime("QLinearGlobalAveragePool", given, steps=1, types=["uint8"], channels_last=is_last)
    window = {"kernel_shape": [3, 2], "pads": [1, 0, 0, 1], "strides": [2, 1], "channels_last": is_last}
    for more in ({}, {"count_include_pad": 1}, {"ceil_mode": 1}):
        as_onnx_runtime("QLinearAveragePool", given, steps=1, types=["uint8"], **window, **more)


@pytest.mark.parametrize("types", [("uint8", "int8"), ("uint8", "uint8")])
def test_products_of_quantised_matrices(types: tuple[str, str]) -> None:
    a, b = integers(0, 256, 2, 3, 8, data_type=types[0]), integers(0, 120, 8, 5, data_type=types[1])
    given: dict[str, Array | None] = {"a": a, "b": b, "as": scale(1), "bs": scale(5)}
    given |= {"az": np.array([7], types[0]), "bz": integers(0, 9, 5, data_type=types[1]), "bias": floats(5)}
    as_onnx_runtime("MatMulIntegerToFloat", given)
    dynamic: dict[str, Array | None] = {"a": floats(2, 3, 8), "b": b, "bs": scale(1), "bz": None, "bias": floats(5)}
    as_onnx_runtime("DynamicQuantizeMatMul", dynamic)


def _quantised_lstm(directions: int, batch: int, weights: tuple[str, str], gates: bool) -> dict[str, Array | None]:
    steps, width, hidden = 4, 6, 5
    wide = 4 * hidden if gates else 1
    parameters = {
        "ws": RANDOM.uniform(0.005, 0.01, (directions, wide)).astype("f"),
        "wz": np.zeros((directions, wide), weights[0])
        if gates
        else integers(0, 9, directions, 1, data_type=weights[0]),
        "rs": RANDOM.uniform(0.005, 0.01, (directions, wide)).astype("f"),
        "rz": np.zeros((directions, wide), weights[1])
        if gates
        else integers(0, 9, directions, 1, data_type=weights[1]),
    }
    return {
        "x": floats(steps, batch, width),
        "w": integers(0, 120, directions, width, 4 * hidden, data_type=weights[0]),
        "r": integers(0, 120, directions, hidden, 4 * hidden, data_type=weights[1]),
        "b": floats(directions, 8 * hidden),
        **dict.fromkeys(("lengths", "h", "c", "p")),
        **{name: array if gates else array.reshape(directions) for name, array in parameters.items()},
    }


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("gates", [False, True])
def test_quantised_lstms(direction: str, gates: bool) -> None:
    """The state is quantised in every step, as ONNX Runtime does it."""
    count = 2 if direction == "bidirectional" else 1
    for weights in (("int8", "int8"), ("uint8", "uint8")):
        given = _quantised_lstm(count, 1, weights, gates)
        as_onnx_runtime("DynamicQuantizeLSTM", given, outputs=3, hidden_size=5, direction=direction)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize(
    "attributes", [{}, {"clip": 0.5}, {"input_forget": 1}, {"activations": ["Sigmoid", "Relu", "Tanh"]}]
)
def test_quantised_lstms_with_states(direction: str, attributes: dict[str, Any]) -> None:
    """States, peepholes, sequences that end before the others."""
    given = _quantised_lstm(1, 3, ("int8", "int8"), False)
    given |= {"h": floats(1, 3, 5), "c": floats(1, 3, 5), "p": floats(1, 15)}
    given |= {"lengths": np.array([4, 1, 3], np.int32)}
    as_onnx_runtime("DynamicQuantizeLSTM", given, outputs=3, hidden_size=5, direction=direction, **attributes)


# ---- attention


@pytest.mark.parametrize("mask", ["none", "lengths", "ends", "keys", "pairs"])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention(mask: str, unidirectional: int) -> None:
    batch, length, width, heads = 2, 4, 8, 2
    masks: dict[str, Array | None] = {
        "none": None,
        "lengths": np.array([3, 4], "int32"),
        "ends": np.array([3, 4, 1, 0], "int32"),
        "keys": np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "int32"),
        "pairs": np.tril(np.ones((batch, length, length), "int32")),
    }
    given = {"x": floats(batch, length, width), "w": floats(width, 3 * width), "b": floats(3 * width)}
    named = {**given, "mask": masks[mask]}
    if unidirectional and mask == "ends":
        named["mask"] = np.array([3, 4, 0, 0], "int32")
    as_onnx_runtime("Attention", named, num_heads=heads, unidirectional=unidirectional)


def test_attention_with_a_past() -> None:
    batch, length, width, heads, before = 1, 2, 8, 2, 3
    given: dict[str, Array | None] = {
        "x": floats(batch, length, width),
        "w": floats(width, 3 * width),
        "b": floats(3 * width),
        "mask": None,
        "past": floats(2, batch, heads, before, width // heads),
    }
    as_onnx_runtime("Attention", given, outputs=2, num_heads=heads, unidirectional=1)
    scores = given | {"past": None, "scores": floats(1, heads, length, length)}
    as_onnx_runtime("Attention", scores, num_heads=heads, scale=0.3)


def test_attention_of_quantised_weights() -> None:
    batch, length, width, heads = 1, 3, 8, 2
    given: dict[str, Array | None] = {
        "x": integers(0, 256, batch, length, width, data_type="uint8"),
        "w": integers(-100, 100, width, 3 * width, data_type="int8"),
        "b": floats(3 * width),
        "xs": np.array(0.02, "f"),
        "ws": np.array(0.01, "f"),
        "mask": None,
        "xz": np.array(128, "uint8"),
        "wz": np.array(0, "int8"),
    }
    as_onnx_runtime("QAttention", given, num_heads=heads)


def test_attention_of_separate_parts() -> None:
    batch, queries, keys, width, heads = 2, 3, 4, 8, 2
    given: dict[str, Array | None] = {
        "q": floats(batch, queries, width),
        "k": floats(batch, keys, width),
        "v": floats(batch, keys, width),
        "bias": floats(3 * width),
        "mask": np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "int32"),
        "scores": floats(1, heads, queries, keys),
    }
    as_onnx_runtime("MultiHeadAttention", given, num_heads=heads)
    by_heads = {"k": floats(batch, heads, keys, width // heads), "v": floats(batch, heads, keys, width // heads)}
    as_onnx_runtime("MultiHeadAttention", given | by_heads | {"bias": None}, num_heads=heads, scale=0.2)
    parts = [floats(batch, keys, heads, width // heads) for _ in range(3)]
    flat: dict[str, Array | None] = {name: one.reshape(batch, keys, -1) for name, one in zip("qkv", parts, strict=True)}
    (expected,), *_ = results_of("MultiHeadAttention", flat, num_heads=heads)
    for packed in (
        {"q": np.stack(parts, 3)},
        {"q": parts[0].reshape(batch, keys, -1), "k": np.stack(parts[1:], 3)},
    ):
        (found,), *_ = results_of("MultiHeadAttention", {**packed}, num_heads=heads)
        np.testing.assert_array_equal(found, expected)
    past = {"mask": None, "scores": None, "pk": floats(batch, heads, 2, width // heads)}
    past["pv"] = floats(batch, heads, 2, width // heads)
    as_onnx_runtime("MultiHeadAttention", given | past, outputs=3, num_heads=heads)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("do_rotary", [0, 1])
@pytest.mark.parametrize("before", [0, 5])
def test_attention_of_groups(is_packed: bool, do_rotary: int, before: int) -> None:
    """The first call, and one more position behind a past of 5."""
    batch, heads, groups, size = 2, 4, 2, 16
    length = 1 if before else 4
    widths = [heads * size, groups * size, groups * size]
    q, k, v = (floats(batch, length, width) for width in widths)
    given: dict[str, Array | None] = {"q": q, "k": k, "v": v}
    if is_packed:
        given = {"q": np.concatenate([q, k, v], 2), "k": None, "v": None}
    past = [floats(batch, groups, before, size) for _ in range(2)]
    given |= {"pk": past[0] if before else None, "pv": past[1] if before else None}
    total = before + length
    given |= {"lengths": np.full(batch, total - 1, "int32"), "total": np.array(total, "int32")}
    angles = np.outer(np.arange(8), 1 / 100 ** (np.arange(size // 2) / (size // 2)))
    given |= {"cos": np.cos(angles).astype("f"), "sin": np.sin(angles).astype("f")} if do_rotary else {}
    as_onnx_runtime("GroupQueryAttention", given, outputs=3, num_heads=heads, kv_num_heads=groups, do_rotary=do_rotary)


def grouped(before: int, window: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and attributes of GroupQueryAttention: five positions, or one behind pasts of different lengths."""
    batch, heads, groups, size = 2, 4, 2, 16
    length = 1 if before else 5
    q, k, v = (floats(batch, length, count * size) for count in (heads, groups, groups))
    past = [floats(batch, groups, before, size) for _ in range(2)]
    total = before + length
    lengths = np.array([total - 1, total - 4] if before else [total - 1] * 2, "int32")
    given: dict[str, Any] = {"q": q, "k": k, "v": v, "pk": None, "pv": None}
    given |= {"pk": past[0], "pv": past[1]} if before else {}
    given |= {"lengths": lengths, "total": np.array(total, "int32")}
    return given, {"num_heads": heads, "kv_num_heads": groups, "local_window_size": window}


@pytest.mark.parametrize("before", [0, 9])
@pytest.mark.parametrize("window", [1, 2, 3, 30])
def test_windows_of_groups(before: int, window: int) -> None:
    """Queries see so many keys, themselves among them, behind pasts of different lengths too."""
    given, attributes = grouped(before, window)
    (found, *_), data, fed = results_of("GroupQueryAttention", given, outputs=3, **attributes)
    expected = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, fed)[0]
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("before", [0, 9])
@pytest.mark.parametrize("softcap", [0.0, 1.5])
@pytest.mark.parametrize("sink", ["none", "smooth", "heads"])
@pytest.mark.parametrize("window", [-1, 3])
@pytest.mark.parametrize("has_bias", [False, True])
def test_scores_of_groups(before: int, softcap: float, sink: str, window: int, has_bias: bool) -> None:
    """Soft caps, sinks, and what is added to scores; one more position behind pasts of different lengths too."""
    given, attributes = grouped(before, window)
    (_, length, _), heads, lengths = given["q"].shape, attributes["num_heads"], given["lengths"]
    given |= {"cos": None, "sin": None, "places": None}
    given |= {"bias": floats(1, heads, length, before + length) if has_bias else None}
    given |= {"sink": floats(heads) if sink == "heads" else None}
    if given["sink"] is None and given["bias"] is None:
        given = {name: given[name] for name in [*given][:7]}
    attributes |= {"softcap": softcap} if softcap else {}
    attributes |= {"smooth_softmax": 1} if sink == "smooth" else {}
    found, data, fed = results_of("GroupQueryAttention", given, outputs=3, **attributes)
    expected = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, fed)
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-4, atol=2e-5)
    for mine, theirs in zip(found[1:], expected[1:], strict=True):
        assert mine.shape == theirs.shape
        for one, other, end in zip(mine, theirs, lengths + 1, strict=True):
            np.testing.assert_array_equal(one[:, :end], other[:, :end])


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embeddings(interleaved: int) -> None:
    batch, length, heads, size = 2, 3, 2, 8
    angles = np.outer(np.arange(7), np.arange(1, size // 2 + 1))
    tables = {"cos": np.cos(angles).astype("f"), "sin": np.sin(angles).astype("f")}
    places = np.array([[1, 2, 3], [0, 4, 5]])
    named = {"x": floats(batch, length, heads * size), "at": places, **tables}
    as_onnx_runtime("RotaryEmbedding", named, interleaved=interleaved)
    as_onnx_runtime("RotaryEmbedding", named | {"at": np.array([2])}, interleaved=interleaved)
    by_heads = floats(batch, heads, length, size)
    as_onnx_runtime("RotaryEmbedding", named | {"x": by_heads}, interleaved=interleaved)
    part = {"cos": tables["cos"][:, :2].copy(), "sin": tables["sin"][:, :2].copy()}
    as_onnx_runtime("RotaryEmbedding", named | part, interleaved=interleaved, num_heads=heads, rotary_embedding_dim=4)


def test_what_is_refused_is_said() -> None:
    operators: list[tuple[str, Callable[[], dict[str, Any]], str]] = [
        ("MatMulNBits", lambda: {"bits": 3, "block_size": 16, "N": 2, "K": 16}, "other than 2, 4 or 8 bits"),
        ("QMoE", lambda: {"k": 2}, "which experts compute what depends on values"),
    ]
    for operator, attributes, message in operators:
        given = {"a": floats(1, 16), "b": integers(0, 9, 2, 1, 4, data_type="uint8"), "s": floats(2)}
        with pytest.raises(dml.ModelFormatError, match=message):
            results_of(operator, given, **attributes())
