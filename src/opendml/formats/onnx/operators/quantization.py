"""Quantised integers: to and from them, with scales for the whole tensor, for an axis or for blocks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results, normal_axis
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["QUANTIZATION"]

BYTES: Final = (np.dtype(np.uint8), np.dtype(np.int8))


WORDS: Final = (np.dtype(np.uint16), np.dtype(np.int16))


def _placed(node: Node, position: int) -> GraphTensor | None:
    """A scale or a zero point where its elements belong: everywhere, along the axis, or one for every block of it."""
    tensor = node.optional(position)
    sizes = node.sizes()
    if tensor is None or tensor.size == 1:
        return tensor if tensor is None else tensor.reshape([1] * max(len(sizes), 1))
    axis = normal_axis(node.integer("axis", 1), len(sizes))
    block = node.integer("block_size")
    if not block:
        return tensor.reshape([size if i == axis else 1 for i, size in enumerate(sizes)])
    blocks = tensor.sizes[axis]
    if blocks * block != sizes[axis]:
        raise NotExpressibleError(f"{blocks} blocks of {block} do not make {sizes[axis]}")
    every = (*sizes[: axis + 1], 1, *sizes[axis + 1 :])
    shared = tensor.reshape(*every[:axis], blocks, 1, *every[axis + 2 :])
    return shared.broadcast_to((*every[:axis], blocks, block, *every[axis + 2 :])).reshape(sizes)


def _quantize(node: Node) -> Results:
    zero_point = _placed(node, 2)
    data_type: Any = node.data_type("output_dtype", np.dtype(np.uint8) if zero_point is None else zero_point.dtype)
    if node.integer("precision") not in (0, 1):
        raise NotExpressibleError("a division in another type than float32 has no operator")
    data, scale = node.tensor(), _placed(node, 1)
    assert scale is not None
    if data_type in WORDS:
        return node.result(_to_words(data, scale, zero_point, data_type), node.sizes())
    if data_type not in BYTES:
        raise NotExpressibleError(f"quantising to {data_type} has no operator")
    if data.dtype != scale.dtype:
        raise NotExpressibleError(f"a scale of {scale.dtype} beside {data.dtype} has no operator")
    found: Any = dml.quantize_linear(data, scale, zero_point, output_data_type=data_type)
    return node.result(found, node.sizes())


def _to_words(data: GraphTensor, scale: GraphTensor, zero_point: GraphTensor | None, data_type: Any) -> GraphTensor:
    """To integers of 16 bits, which QUANTIZE_LINEAR lacks: all of them are numbers of float32."""
    data, scale = (dml.cast(one, "float32") if one.dtype != np.float32 else one for one in (data, scale))
    found = dml.round(data / scale)
    if zero_point is not None:
        found = found + dml.cast(zero_point, "float32")
    limits = np.iinfo(data_type)
    return dml.cast(dml.min(dml.max(found, float(limits.min)), float(limits.max)), data_type)


def _dequantize(node: Node) -> Results:
    scale = _placed(node, 1)
    assert scale is not None
    asked = node.data_type("output_dtype", scale.dtype)
    if asked != scale.dtype:
        raise NotExpressibleError(f"a result of {asked} with scales of {scale.dtype} has no operator")
    found: Any = dml.dequantize_linear(node.tensor(), scale, _placed(node, 2))
    return node.result(found, node.sizes())


def _dynamic_quantize(node: Node) -> Results:
    found = dml.dynamic_quantize_linear(node.tensor())
    output, scale, zero_point = found
    return [node.result(output, node.sizes()), node.result(scale, ()), node.result(zero_point, ())]


QUANTIZATION: Final[Table] = {
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "QuantizeLinear": _quantize,
}
