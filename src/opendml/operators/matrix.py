"""GEMM: batched matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.data_types import FLOATS
from opendml.descriptors import (
    Operator,
    at,
    enumeration,
    float_value,
    levels,
    operator_desc,
    tensor_input,
    tensor_output,
)
from opendml.enums import MatrixTransform, OperatorType
from opendml.operators.activation import FUSABLE_WITH_SOFTMAX

if TYPE_CHECKING:
    from opendml.rules import Rules
    from opendml.tensor import TensorDesc


class Gemm(Operator, type=OperatorType.GEMM, since="1_0"):
    """Batched general matrix multiplication with scaling, an optional addend and an optional fused activation.

    ``output = activation(alpha * A' @ B' + beta * C)`` over the last two dimensions, where A' is A or its transpose.
    """

    a_tensor: TensorDesc = tensor_input()
    b_tensor: TensorDesc = tensor_input()
    c_tensor: TensorDesc | None = tensor_input(default=None)
    output_tensor: TensorDesc = tensor_output()
    trans_a: MatrixTransform = enumeration(MatrixTransform)
    trans_b: MatrixTransform = enumeration(MatrixTransform)
    alpha: float = float_value()
    beta: float = float_value()
    fused_activation: Operator | None = operator_desc(FUSABLE_WITH_SOFTMAX, default=None)

    support = levels(at("4_0", (2, 4), FLOATS), at("1_0", (4, 4), FLOATS))

    def check(self, rules: Rules) -> None:
        """{..., M, K} times {..., K, N} gives {..., M, N}."""
        rules.same_data_type("a_tensor", "b_tensor", "c_tensor", "output_tensor")
        rules.same_rank("a_tensor", "b_tensor", "c_tensor", "output_tensor")
        if rules.ready("a_tensor", "b_tensor", "output_tensor", "trans_a", "trans_b"):
            self._check_sizes(rules)
        rules.same_sizes("output_tensor", "c_tensor")

    def _check_sizes(self, rules: Rules) -> None:
        *batch, rows, inner = self.a_tensor.sizes
        *batch_b, inner_b, columns = self.b_tensor.sizes
        if self.trans_a == MatrixTransform.TRANSPOSE:
            rows, inner = inner, rows
        if self.trans_b == MatrixTransform.TRANSPOSE:
            inner_b, columns = columns, inner_b
        must = f"must be a matrix with {inner} {'columns' if self.trans_b else 'rows'}, the inner size of ATensor"
        rules.require(inner == inner_b, "b_tensor.sizes", must, self.b_tensor.sizes, breaks=False)
        for i, (size, expected) in enumerate(zip(batch_b, batch, strict=True)):
            rules.require(size == expected, f"b_tensor.sizes[{i}]", f"must be {expected}, as in ATensor", size)
        rules.sizes_are("output_tensor", (*batch, rows, columns), "by the sizes of ATensor and BTensor")
