"""Quantised integers: products of matrices, and operators between dequantised and quantised again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results, normal_axis
from opendml.formats.onnx.operators.interface import Function, Table
from opendml.formats.onnx.operators.quantization import QUANTIZATION
from opendml.formats.onnx.operators.windows import WINDOWS, pooled, reaching
from opendml.formats.onnx.values import NotExpressibleError, Value

__all__ = ["QUANTIZED", "product_of_integers"]


def _parameter(node: Node, position: int, rank: int, axis: int = -1) -> GraphTensor | None:
    """A scale or a zero point: one, or one for each element along an axis."""
    tensor = node.optional(position)
    if tensor is None:
        return None
    if tensor.size == 1:
        return tensor.reshape([1] * rank)
    return tensor.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


def _scale(node: Node, position: int, rank: int) -> GraphTensor:
    found = _parameter(node, position, rank)
    if found is None:
        raise NotExpressibleError(f"its input {position} is missing")
    return found


def _dequantized(node: Node, first: int) -> GraphTensor:
    """An input with its scale and its zero point behind it."""
    tensor = node.tensor(first)
    found: Any = dml.dequantize_linear(
        tensor, _scale(node, first + 1, tensor.rank), _parameter(node, first + 2, tensor.rank)
    )
    return found  # type: ignore[no-any-return]


def _quantized(node: Node, tensor: GraphTensor, first: int, data_type: Any, sizes: tuple[int, ...]) -> Results:
    """What was computed in float32, by a scale and a zero point."""
    scale, zero_point = _scale(node, first, tensor.rank), _parameter(node, first + 1, tensor.rank)
    return node.result(dml.quantize_linear(tensor, scale, zero_point, output_data_type=data_type), sizes)


def _of_one(function: Callable[[Node, GraphTensor], GraphTensor]) -> Function:
    def express(node: Node) -> Results:
        return _quantized(node, function(node, _dequantized(node, 0)), 3, node.type_of(), node.sizes())

    return express


def _softmax(node: Node, tensor: GraphTensor) -> GraphTensor:
    """Below version 13 of ONNX all dimensions from the axis on are one."""
    axis = normal_axis(node.integer("axis", -1), tensor.rank)
    axes = [axis] if node.integer("opset", 13) >= 13 else list(range(axis, tensor.rank))
    found: GraphTensor = dml.activation_softmax(tensor, axes=axes)
    return found


def _add(node: Node) -> Results:
    a, b = node.tensor(0), node.tensor(3)
    sizes = np.broadcast_shapes(node.sizes(0), node.sizes(3))
    whole = sizes or (1,)
    found = dml.quantized_linear_add(
        a.broadcast_to(whole),
        _scale(node, 1, len(whole)),
        _parameter(node, 2, len(whole)),
        b.broadcast_to(whole),
        _scale(node, 4, len(whole)),
        _parameter(node, 5, len(whole)),
        _scale(node, 6, len(whole)),
        _parameter(node, 7, len(whole)),
        output_data_type=a.data_type,
    )
    return node.result(found, sizes)


def _multiply(node: Node) -> Results:
    product = _dequantized(node, 0) * _dequantized(node, 3)
    return _quantized(node, product, 6, node.type_of(), np.broadcast_shapes(node.sizes(0), node.sizes(3)))


def _concat(node: Node) -> Results:
    """Inputs come in threes, behind the scale and the zero point of the result."""
    places = range(2, len(node.inputs), 3)
    parts = [_dequantized(node, place) for place in places]
    joined = dml.join(parts, axis=node.axis(parts[0].rank)) if len(parts) > 1 else parts[0]
    return _quantized(node, joined, 0, node.type_of(2), joined.sizes)


def _average_pool(node: Node) -> Results:
    data = node.tensor()
    is_last = bool(node.integer("channels_last"))
    if is_last:
        data = data.transpose(0, 3, 1, 2)
    images = node.result(data)
    inner = Node(node.graph, "AveragePool", 11, [images], node.attributes, node.outputs)
    data, window, sizes = pooled(inner)
    found: Any = dml.quantized_linear_average_pooling(
        data,
        _scale(node, 1, 1),
        _parameter(node, 2, 1),
        _scale(node, 3, 1),
        _parameter(node, 4, 1),
        window_size=window.size,
        include_padding=bool(node.integer("count_include_pad")),
        output_sizes=sizes,
        **reaching(window, data.sizes[2:], sizes[2:]).fields(),
    )
    return node.result(found.transpose(0, 2, 3, 1).packed() if is_last else found)


def _global_average_pool(node: Node) -> Results:
    is_last = bool(node.integer("channels_last"))
    data = _dequantized(node, 0)
    first = 1 if is_last else 2
    means = dml.reduce(data, "AVERAGE", axes=list(range(first, first + data.rank - 2)))
    return _quantized(node, means, 3, node.type_of(), means.sizes)


def _convolution(node: Node) -> Results:
    """QLinearConv, whose channels may be last."""
    if not node.integer("channels_last"):
        found: Any = WINDOWS["QLinearConv"](node)
        return found  # type: ignore[no-any-return]
    data = node.tensor()
    rank = data.rank
    images = node.result(data.transpose([0, rank - 1, *range(1, rank - 1)]))
    inner = Node(node.graph, "QLinearConv", 10, [images, *node.inputs[1:]], node.attributes, node.outputs)
    result: Any = WINDOWS["QLinearConv"](inner)
    assert isinstance(result, Value)
    assert result.tensor is not None
    return node.result(result.tensor.transpose([0, *range(2, rank), 1]).packed())


# ---- products of matrices


def product_of_integers(
    node: Node,
    a: tuple[GraphTensor, GraphTensor, GraphTensor | None],
    b: tuple[GraphTensor, GraphTensor, GraphTensor | None],
    bias: GraphTensor | None,
) -> GraphTensor:
    """``(a - a_zero_point) @ (b - b_zero_point) * (a_scale * b_scale) + bias``, each given with its scale and zero
    point. Of one type that is MATRIX_MULTIPLY_INTEGER_TO_FLOAT, of two the same by MATRIX_MULTIPLY_INTEGER."""
    (rows, a_scale, a_zero), (columns, b_scale, b_zero) = a, b
    if rows.dtype == columns.dtype:
        found: Any = dml.matrix_multiply_integer_to_float(rows, a_scale, a_zero, columns, b_scale, b_zero, bias)
        return found  # type: ignore[no-any-return]
    sums = dml.cast(dml.matrix_multiply_integer(rows, a_zero, columns, b_zero), a_scale.data_type)
    found = sums * (a_scale.reshape(1, -1) * b_scale.reshape(1, -1))
    total: GraphTensor = found if bias is None else found + bias
    return total


def _flat(tensor: GraphTensor | None) -> GraphTensor | None:
    return None if tensor is None else tensor.flatten()


def _matmul_to_float(node: Node) -> Results:
    a, b = node.tensor(0), node.tensor(1)
    a_scale, b_scale = (_flat(node.tensor(position)) for position in (2, 3))
    assert a_scale is not None
    assert b_scale is not None
    rows = a.reshape(-1, a.sizes[-1]) if b.rank == 2 else a
    found = product_of_integers(
        node, (rows, a_scale, _flat(node.optional(4))), (b, b_scale, _flat(node.optional(5))), _flat(node.optional(6))
    )
    return node.result(found, _product_sizes(node, 0, 1))


def _dynamic_matmul(node: Node) -> Results:
    """The first matrix is quantised by the smallest and the largest of its elements."""
    whole = node.tensor(0)
    if len(node.sizes(1)) != 2:
        raise NotExpressibleError("stacks of quantised matrices have no operator")
    a, a_scale, a_zero = dml.dynamic_quantize_linear(whole.reshape(-1, whole.sizes[-1]))
    b_scale = _flat(node.tensor(2))
    assert b_scale is not None
    found = product_of_integers(
        node,
        (a, a_scale.flatten(), a_zero.flatten()),
        (node.tensor(1), b_scale, _flat(node.optional(3))),
        _flat(node.optional(4)),
    )
    return node.result(found, _product_sizes(node, 0, 1))


def _product_sizes(node: Node, a: int, b: int) -> tuple[int, ...]:
    rows, columns = node.sizes(a), node.sizes(b)
    return (*np.broadcast_shapes(rows[:-2], columns[:-2]), rows[-2], columns[-1])


def _leaky(node: Node, tensor: GraphTensor) -> GraphTensor:
    found: GraphTensor = dml.activation_leaky_relu(tensor, alpha=node.number("alpha", 0.01))
    return found


def _sigmoid(node: Node, tensor: GraphTensor) -> GraphTensor:
    found: GraphTensor = dml.activation_sigmoid(tensor)
    return found


QUANTIZED: Final[Table] = {
    "DequantizeLinear": QUANTIZATION["DequantizeLinear"],
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "MatMulIntegerToFloat": _matmul_to_float,
    "QLinearAdd": _add,
    "QLinearAveragePool": _average_pool,
    "QLinearConcat": _concat,
    "QLinearConv": _convolution,
    "QLinearGlobalAveragePool": _global_average_pool,
    "QLinearLeakyRelu": _of_one(_leaky),
    "QLinearMul": _multiply,
    "QLinearSigmoid": _of_one(_sigmoid),
    "QLinearSoftmax": _of_one(_softmax),
    "QuantizeLinear": QUANTIZATION["QuantizeLinear"],
}
