"""Activations with what stands before them: biases, products of matrices, convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results
from opendml.formats.onnx.operators.element_wise import ELEMENT_WISE
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.operators.matrices import MATRICES
from opendml.formats.onnx.operators.windows import WINDOWS
from opendml.formats.onnx.values import NotExpressibleError, Value

__all__ = ["FUSED", "tanh_gelu"]


def _plus(node: Node, position: int) -> GraphTensor:
    """The first input with one added that may be left out."""
    other = node.optional(position)
    return node.tensor() if other is None else node.tensor() + other


def tanh_gelu(x: GraphTensor) -> GraphTensor:
    """``0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))``."""
    inner = (x * x * 0.044715 + 1.0) * x * math.sqrt(2 / math.pi)
    found: GraphTensor = x * 0.5 * (dml.activation_tanh(inner) + 1.0)
    return found


def _bias_gelu(node: Node) -> Results:
    return node.result(dml.activation_gelu(_plus(node, 1)), node.sizes())


def _fast_gelu(node: Node) -> Results:
    return node.result(tanh_gelu(_plus(node, 1)), node.sizes())


def _quick_gelu(node: Node) -> Results:
    scale = node.number("alpha", 1.702)
    return node.result(dml.activation_swish(node.tensor(), sigmoid_input_scale=scale), node.sizes())


def _bias_split_gelu(node: Node) -> Results:
    """One half times the other one activated."""
    whole = _plus(node, 1)
    half = whole.sizes[-1] // 2
    return node.result(whole[..., :half] * dml.activation_gelu(whole[..., half:]))


def _bias_add(node: Node) -> Results:
    return node.result(node.tensor(0) + node.tensor(1) + node.tensor(2), node.sizes())


# ---- what is activated afterwards


def _activated(node: Node, given: Results, parameters: dict[str, Any] | None = None) -> Results:
    """What a function gives, activated as the node says."""
    name = node.text("activation")
    (value,) = node.values(given)
    if not name or value is None:
        return given
    if name not in ELEMENT_WISE:
        raise NotExpressibleError(f"the activation {name!r} is not known")
    usual = {one: node.attributes[f"activation_{one}"] for one in _PARAMETERS if f"activation_{one}" in node.attributes}
    behind = Node(node.graph, name, 10, [value], usual if parameters is None else parameters, node.outputs)
    found = ELEMENT_WISE[name](behind)
    if found is None:
        raise NotExpressibleError(f"the activation {name!r} has no operator")
    return found


_PARAMETERS: Final = ("alpha", "beta", "gamma")
_LISTED: Final[dict[str, Sequence[str]]] = {
    "LeakyRelu": ("alpha",),
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
    "Elu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
}
"""What ``activation_params`` of FusedConv are."""


def _fused_convolution(node: Node) -> Results:
    """Something of the result's sizes may be added before it is activated."""
    found: Any = WINDOWS["Conv"](node)
    if node.has(3):
        (value,) = node.values(found)
        assert value is not None
        assert value.tensor is not None
        found = node.result(value.tensor + node.tensor(3))
    names = _LISTED.get(node.text("activation"), ())
    given = node.attributes.get("activation_params") or ()
    return _activated(node, found, dict(zip(names, map(float, given), strict=False)))


def _fused_gemm(node: Node) -> Results:
    found: Any = MATRICES["Gemm"](node)
    return _activated(node, found)


def _fused_matmul(node: Node) -> Results:
    """Transposed: the last two dimensions, or (``transBatch``) the first one behind the batches that follow it."""
    operands = [_matrix(node, position, letter) for position, letter in enumerate("AB")]
    values = [node.result(one, data_type=node.type_of(i)) for i, one in enumerate(operands)]
    product: Any = MATRICES["MatMul"](Node(node.graph, "MatMul", 13, values, {}, node.outputs))
    alpha = node.number("alpha", 1.0)
    if alpha != 1:
        (value,) = node.values(product)
        assert isinstance(value, Value)
        assert value.tensor is not None
        product = node.result(value.tensor * alpha, value.sizes)
    return _activated(node, product)


def _matrix(node: Node, position: int, letter: str) -> GraphTensor:
    found = node.tensor(position)
    rank = found.rank
    if rank > 2 and node.integer(f"transBatch{letter}"):
        found = found.transpose([*range(1, rank - 1), 0, rank - 1])
    if rank > 1 and node.integer(f"trans{letter}"):
        found = found.transpose([*range(rank - 2), rank - 1, rank - 2])
    return found


def _channels_last_convolution(node: Node) -> Results:
    """NHWC: the same elements, seen otherwise."""
    rank = len(node.sizes())
    data, filter = (_channels_second(node.tensor(position)) for position in range(2))
    values = [node.result(data), node.result(filter), node.inputs[2] if node.has(2) else None]
    found: Any = WINDOWS["Conv"](Node(node.graph, "Conv", 11, values, node.attributes, node.outputs))
    assert isinstance(found, Value)
    assert found.tensor is not None
    return node.result(found.tensor.transpose([0, *range(2, rank), 1]).packed())


def _channels_second(tensor: GraphTensor) -> GraphTensor:
    return tensor.transpose([0, tensor.rank - 1, *range(1, tensor.rank - 1)])


def _gelu(node: Node) -> Results:
    return node.result(dml.activation_gelu(node.tensor()), node.sizes())


def _matmul_of_bits(node: Node) -> Results:
    """Weights of 4 or 8 bits in blocks along the rows that they are multiplied with, laid out once."""
    bits, block = node.integer("bits", 4), node.integer("block_size")
    count, length = node.integer("N"), node.integer("K")
    if bits not in (4, 8):
        raise NotExpressibleError("weights of other than 4 or 8 bits have no operator")
    a, blocks = node.tensor(0), -(-length // block)
    packed = node.tensor(1).flatten() if bits == 4 else node.tensor(1).reshape(count, blocks * block)
    named: dict[str, Any] = {"input_data_type": "uint4", "input_sizes": [count, blocks * block]} if bits == 4 else {}
    scale = node.tensor(2).reshape(count, blocks)
    is_whole = not node.has(3) or node.type_of(3) == np.uint8
    if is_whole and not node.has(4):
        weights: Any = dml.dequantize(packed, scale, _zero_points(node, bits, count, blocks), **named)
        weights = weights if blocks * block == length else weights[:, :length]
    else:
        numbers = dml.dequantize(packed, np.ones((1, 1), scale.dtype), **named)[:, :length]
        zero_point = node.tensor(3).reshape(count, blocks) if not is_whole else _real_zero_points(node, bits, scale)
        zero_point, scale = (_of_columns(node, one, block, length) for one in (zero_point, scale))
        weights = (numbers - zero_point) * scale
    if weights.dtype != a.dtype:
        weights = dml.cast(weights, a.data_type)
    found: Any = dml.gemm(a.reshape(-1, length), weights, trans_b="TRANSPOSE")
    if node.has(5):
        found = found + node.tensor(5).reshape(1, -1)
    return node.result(found, (*node.sizes()[:-1], count))


def _of_columns(node: Node, parameter: GraphTensor, block: int, length: int) -> GraphTensor:
    """A scale or a zero point {rows, blocks} for every column: that of its block, which a node may name."""
    if node.has(4):
        blocks = node.tensor(4)[:length].reshape(1, -1)
    else:
        blocks = node.graph.constant((np.arange(length, dtype=np.int32) // block)[None])
    found: Any = dml.gather(parameter, blocks, axis=1, index_dimensions=1)
    return found.reshape(parameter.sizes[0], length)  # type: ignore[no-any-return]


def _real_zero_points(node: Node, bits: int, scale: GraphTensor) -> GraphTensor:
    """Zero points that are whole numbers, as real ones of the scale's type and sizes."""
    return node.graph.constant(_numbers(node, bits, *scale.sizes).astype(scale.dtype))


def _zero_points(node: Node, bits: int, rows: int, blocks: int) -> GraphTensor:
    """Zero points as numbers of the weights' type."""
    numbers = _numbers(node, bits, rows, blocks)
    if bits == 8:
        return node.graph.constant(np.ascontiguousarray(numbers))
    flat = np.resize(numbers.reshape(-1), numbers.size + numbers.size % 2)
    return node.graph.constant((flat[::2] | flat[1::2] << 4).astype(np.uint8))


def _numbers(node: Node, bits: int, rows: int, blocks: int) -> npt.NDArray[np.uint8]:
    """Zero points {rows, blocks}, without the rows' padding to whole bytes; by default the middle number."""
    if not node.has(3):
        return np.full((rows, blocks), 1 << (bits - 1), np.uint8)
    bytes_of_rows = node.known(3).reshape(rows, -1)
    halves = np.stack([bytes_of_rows & 15, bytes_of_rows >> 4], -1).reshape(rows, -1)
    return (halves if bits == 4 else bytes_of_rows)[:, :blocks]


FUSED: Final[Table] = {
    "BiasAdd": _bias_add,
    "BiasGelu": _bias_gelu,
    "BiasSplitGelu": _bias_split_gelu,
    "FastGelu": _fast_gelu,
    "FusedConv": _fused_convolution,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "FusedMatMulActivation": _fused_matmul,
    "Gelu": _gelu,
    "MatMulNBits": _matmul_of_bits,
    "NhwcConv": _channels_last_convolution,
    "QuickGelu": _quick_gelu,
    "TransposeMatMul": _fused_matmul,
}
