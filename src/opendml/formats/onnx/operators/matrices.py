"""Products of matrices."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["MATRICES"]

_STACKS: Final = 2
"""Dimensions of stacks of matrices that GEMM has."""


def _product(a: GraphTensor, b: GraphTensor) -> GraphTensor:
    """``a @ b``; of more dimensions than GEMM has those of the stacks become one. Integers are added exactly."""
    rows = a if a.rank > 1 else a.expand_dims(0)
    columns = b if b.rank > 1 else b.expand_dims(1)
    if a.dtype.kind != "f":
        products = rows.expand_dims(rows.rank) * columns.expand_dims(columns.rank - 2)
        sums = dml.reduce(products, "SUM", axes=[products.rank - 2])
        return sums.squeeze(sums.rank - 2)
    stacks = np.broadcast_shapes(rows.sizes[:-2], columns.sizes[:-2])
    if len(stacks) <= _STACKS:
        return rows @ columns
    rows, columns = (
        one.broadcast_to((*stacks, *one.sizes[-2:])).reshape(math.prod(stacks), *one.sizes[-2:])
        for one in (rows, columns)
    )
    product: GraphTensor = rows @ columns
    return product.reshape(*stacks, *product.sizes[-2:])


def _product_sizes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's: a vector is a row or a column, and its dimension is left out."""
    stacks = np.broadcast_shapes(a[:-2], b[:-2])
    return (*stacks, *(a[-2:-1] if len(a) > 1 else ()), *(b[-1:] if len(b) > 1 else ()))


def _matmul(node: Node) -> Results:
    return node.result(_product(node.tensor(0), node.tensor(1)), _product_sizes(node.sizes(0), node.sizes(1)))


def _gemm(node: Node) -> Results:
    transposed = ["TRANSPOSE" if node.integer(name) else "NONE" for name in ("transA", "transB")]
    return node.result(
        dml.gemm(
            node.tensor(0),
            node.tensor(1),
            node.optional(2),
            alpha=node.number("alpha", 1.0),
            beta=node.number("beta", 1.0),
            trans_a=transposed[0],
            trans_b=transposed[1],
        )
    )


def _matmul_integer(node: Node) -> Results:
    a, b = node.tensor(0), node.tensor(1)
    rows = a if a.rank > 1 else a.expand_dims(0)
    columns = b if b.rank > 1 else b.expand_dims(1)
    product = dml.matrix_multiply_integer(rows, _per(node, 2), columns, _per(node, 3))
    return node.result(product, _product_sizes(node.sizes(0), node.sizes(1)))


def _per(node: Node, position: int) -> GraphTensor | None:
    """A scale or a zero point: one, or one for each row or column."""
    found = node.optional(position)
    if found is not None and found.rank > 1:
        raise NotExpressibleError(f"its input {position} of {list(found.sizes)} has no operator")
    return found


def _scale(node: Node, position: int) -> GraphTensor:
    found = _per(node, position)
    assert found is not None
    return found if found.dtype == np.float32 else dml.cast(found, "float32")


def _qlinear_matmul(node: Node) -> Results:
    a, b = node.tensor(0), node.tensor(3)
    if min(a.rank, b.rank) < 2:
        raise NotExpressibleError("vectors have no operator")
    product = dml.quantized_linear_matrix_multiply(
        a, _scale(node, 1), _per(node, 2), b, _scale(node, 4), _per(node, 5), _scale(node, 6), _per(node, 7)
    )
    return node.result(product, _product_sizes(node.sizes(0), node.sizes(3)))


MATRICES: Final[Table] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMulInteger": _matmul_integer,
    "QLinearMatMul": _qlinear_matmul,
}
