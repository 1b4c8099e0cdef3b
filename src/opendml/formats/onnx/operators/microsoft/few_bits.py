"""Products with weights of a few bits: of 4 as they are, if there are few rows, else laid out once as numbers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["FEW_BITS"]

STEPS: Final = 16
"""Steps of which a multiple has one scale in all models: the least block that there is."""


def _matmul_of_bits(node: Node) -> Results:
    """Weights of 2, 4 or 8 bits in blocks along the rows that they are multiplied with, laid out once."""
    bits, block = node.integer("bits", 4), node.integer("block_size")
    count, length = node.integer("N"), node.integer("K")
    if bits not in (2, 4, 8):
        raise NotExpressibleError("weights of other than 2, 4 or 8 bits have no operator")
    a, blocks = node.tensor(0), -(-length // block)
    packed = node.tensor(1).flatten() if bits == 4 else _bytes(node, bits, count, blocks * block)
    named: dict[str, Any] = {"input_data_type": "uint4", "input_sizes": [count, blocks * block]} if bits == 4 else {}
    scale = node.tensor(2).reshape(count, blocks)
    is_whole = not node.has(3) or node.type_of(3) == np.uint8
    is_plain = is_whole and not node.has(4)
    if is_plain:
        weights: Any = dml.dequantize(packed, scale, _zero_points(node, bits, count, blocks), **named)
        weights = weights if blocks * block == length else weights[:, :length]
    else:
        numbers = dml.dequantize(packed, np.ones((1, 1), scale.dtype), **named)[:, :length]
        zero_point = node.tensor(3).reshape(count, blocks) if not is_whole else _real_zero_points(node, bits, scale)
        zero_point, scale = (_of_columns(node, one, block, length) for one in (zero_point, scale))
        weights = (numbers - zero_point) * scale
    found: Any
    is_in_blocks = is_plain and blocks * block == length and block % STEPS == 0
    if bits == 4 and is_in_blocks and weights.dtype == a.dtype:
        # As columns, not as rows to be transposed: their sums have no partial ones, and devices may read the bits.
        found = dml.gemm(a.reshape(-1, length), weights.transpose())
    else:
        weights = weights if weights.dtype == a.dtype else dml.cast(weights, a.data_type)
        found = dml.gemm(a.reshape(-1, length), weights, trans_b="TRANSPOSE")
    if node.has(5):
        found = found + node.tensor(5).reshape(1, -1)
    return node.result(found, (*node.sizes()[:-1], count))


def _bytes(node: Node, bits: int, rows: int, columns: int) -> GraphTensor:
    """The weights, a byte each: DirectML has tensors of 4 and 8 bits. The first of those in a byte are its lowest."""
    packed = node.tensor(1)
    if bits == 8:
        return packed.reshape(rows, columns)
    sizes = (rows, columns * bits // 8, 8 // bits)
    shifts = node.graph.constant(np.arange(0, 8, bits, dtype=np.uint8).reshape(1, 1, -1)).broadcast_to(sizes)
    shifted = dml.bit_shift_right(packed.reshape(rows, -1, 1).broadcast_to(sizes), shifts)
    mask = node.graph.constant(np.full((1, 1, 1), (1 << bits) - 1, np.uint8)).broadcast_to(sizes)
    found: GraphTensor = dml.bit_and(shifted, mask)
    return found.reshape(rows, columns)


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
    if bits != 4:
        return node.graph.constant(np.ascontiguousarray(numbers))
    flat = np.resize(numbers.reshape(-1), numbers.size + numbers.size % 2)
    return node.graph.constant((flat[::2] | flat[1::2] << 4).astype(np.uint8))


def _numbers(node: Node, bits: int, rows: int, blocks: int) -> npt.NDArray[np.uint8]:
    """Zero points {rows, blocks}, without the rows' padding to whole bytes; by default the middle number."""
    if not node.has(3):
        return np.full((rows, blocks), 1 << (bits - 1), np.uint8)
    bytes_of_rows = node.known(3).reshape(rows, -1)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return (bytes_of_rows[..., None] >> shifts & np.uint8((1 << bits) - 1)).reshape(rows, -1)[:, :blocks]


FEW_BITS: Final[Table] = {"MatMulNBits": _matmul_of_bits}
