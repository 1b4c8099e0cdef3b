"""Activations with what stands before them: biases, products of matrices, convolutions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results, normal_axis
from opendml.formats.onnx.operators.element_wise import ELEMENT_WISE
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.operators.matrices import MATRICES
from opendml.formats.onnx.operators.windows import WINDOWS
from opendml.formats.onnx.values import NotExpressibleError, Value

__all__ = ["FUSED", "activation_of", "tanh_gelu"]


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
    usual = {one: node.attributes[f"activation_{one}"] for one in _PARAMETERS if f"activation_{one}" in node.attributes}
    return activation_of(node, value, name, usual if parameters is None else parameters)


def activation_of(node: Node, value: Value, name: str, parameters: Mapping[str, Any]) -> Results:
    """A value activated by an operator of ONNX, which is named; ``parameters`` are its attributes."""
    if name == "Softmax":
        assert value.tensor is not None
        axis = normal_axis(int(parameters.get("axis", -1)), value.rank)
        return node.result(dml.activation_softmax(value.tensor, axes=[axis]), value.sizes)
    if name not in ELEMENT_WISE:
        raise NotExpressibleError(f"the activation {name!r} is not known")
    found = ELEMENT_WISE[name](Node(node.graph, name, 10, [value], parameters, node.outputs))
    if found is None:
        raise NotExpressibleError(f"the activation {name!r} has no operator")
    return found


_PARAMETERS: Final = ("alpha", "beta", "gamma", "axis")
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


def _padded_transposed_convolution(node: Node) -> Results:
    """Its third input is its padding."""
    values = [node.value(0), node.value(1), node.inputs[3] if node.has(3) else None]
    attributes = {**node.attributes, **({"pads": node.integers_of(2)} if node.has(2) else {})}
    return WINDOWS["ConvTranspose"](Node(node.graph, "ConvTranspose", 11, values, attributes, node.outputs)) or []


def _gelu(node: Node) -> Results:
    return node.result(dml.activation_gelu(node.tensor()), node.sizes())


FUSED: Final[Table] = {
    "BiasAdd": _bias_add,
    "BiasGelu": _bias_gelu,
    "BiasSplitGelu": _bias_split_gelu,
    "ConvTransposeWithDynamicPads": _padded_transposed_convolution,
    "FastGelu": _fast_gelu,
    "FusedConv": _fused_convolution,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "FusedMatMulActivation": _fused_matmul,
    "Gelu": _gelu,
    "NhwcConv": _channels_last_convolution,
    "QuickGelu": _quick_gelu,
    "TransposeMatMul": _fused_matmul,
}
