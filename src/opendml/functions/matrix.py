"""Products of matrices: gemm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opendml.building.operands import OperandRules, Sizes, View, broadcast
from opendml.description.descriptors import Operator
from opendml.description.enums import MatrixTransform
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, is_member, operand_rules, sizes_or
from opendml.functions.signatures import operator_function
from opendml.operators.matrix import Gemm
from opendml.programs.device import Device


@operator_function
def gemm(
    a: Operand,
    b: Operand,
    c: Operand | None = None,
    *,
    trans_a: MatrixTransform | str = MatrixTransform.NONE,
    trans_b: MatrixTransform | str = MatrixTransform.NONE,
    alpha: float = 1.0,
    beta: float = 1.0,
    fused_activation: Operator | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``alpha * A @ B + beta * C`` for every pair of matrices, with an optional activation (GEMM).

    ``a``: {..., M, K}, or {..., K, M} with ``trans_a="TRANSPOSE"``; ``b``: {..., K, N} likewise; ``c``: {..., M, N}.
    Ranks 2 to 4, float32 or float16, the same leading sizes. ``fused_activation``: an activation without tensors, such
    as ``dml.fused_activation.relu()``. Returns {..., M, N}.

    >>> a, b = np.array([[1, 2]], "float32"), np.array([[3, 4]], "float32")
    >>> dml.gemm(a, b, trans_b="TRANSPOSE", alpha=2).tolist()
    [[22.0]]
    """
    parameters = (trans_a, trans_b, fused_activation)
    return evaluate_single(_gemm, (a, b, c), parameters, (alpha, beta), optional=1, device=device, out=out)


def _matrices(shapes: Sequence[Sizes | None], parameters: tuple[Any, ...]) -> Sequence[View | None]:
    """Stacks of matrices have common sizes, and what is added has those of the product. Unfitting ones stay."""
    a, b, c = shapes
    if a is None or b is None or min(len(a), len(b)) < 2:
        return [None] * len(shapes)
    trans_a, trans_b = (is_member(given, MatrixTransform.TRANSPOSE) for given in parameters[:2])
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    product = (*batch, a[-1] if trans_a else a[-2], b[-2] if trans_b else b[-1])
    stacks = [broadcast(a, (*batch, *a[-2:])), broadcast(b, (*batch, *b[-2:]))]
    return [*stacks, None if c is None else broadcast(c, product)]


@operand_rules(OperandRules("x", views=_matrices))
def _gemm(
    a: TensorDesc,
    b: TensorDesc,
    c: TensorDesc | None,
    trans_a: Any,
    trans_b: Any,
    fused_activation: Operator | None,
    alpha: Any,
    beta: Any,
) -> Operator:
    def product() -> tuple[int, ...]:
        rows = a.sizes[-1] if is_member(trans_a, MatrixTransform.TRANSPOSE) else a.sizes[-2]
        columns = b.sizes[-2] if is_member(trans_b, MatrixTransform.TRANSPOSE) else b.sizes[-1]
        return *a.sizes[:-2], rows, columns

    return Gemm(
        a_tensor=a,
        b_tensor=b,
        c_tensor=c,
        output_tensor=TensorDesc(a.data_type, sizes_or(a.sizes, product)),
        trans_a=trans_a,
        trans_b=trans_b,
        alpha=alpha,
        beta=beta,
        fused_activation=fused_activation,
    )
