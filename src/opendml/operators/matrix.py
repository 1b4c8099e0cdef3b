"""GEMM: batched matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from opendml.activations import activate, softmax
from opendml.data_types import FLOATS
from opendml.definition import computation_type, optional_tensor, tensor, widen
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
from opendml.expression.folds import sum_of_products
from opendml.expression.ir import (
    F16,
    Axis,
    Compute,
    Definition,
    Expression,
    Statement,
    Store,
    Tensor,
    cast,
    grid,
    index,
    indices,
    load,
    temporary,
)
from opendml.expression.reductions import packed_reduction
from opendml.operators.activation import FUSABLE_WITH_SOFTMAX, ActivationSoftmax, ActivationSoftmax1

if TYPE_CHECKING:
    from opendml.rules import Rules
    from opendml.tensor import TensorDesc


WORTH_A_COPY: Final = 4
"""Rows (columns) of the output from which on the other operand is copied to be contiguous and float32."""

_Element = Callable[[Sequence[Expression]], Expression]


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

    def define(self) -> Definition:
        """Sums of products in float32 over the inner size in order; a fused softmax takes its maximum and sum of them
        before they are rounded."""
        a, b = tensor("ATensor", self.a_tensor, "input"), tensor("BTensor", self.b_tensor, "input")
        c, output = (
            optional_tensor("CTensor", self.c_tensor, "input"),
            tensor("OutputTensor", self.output_tensor, "output"),
        )
        copies: list[tuple[Tensor, Statement]] = []
        *_, rows, columns = output.sizes
        left = _operand(a, self.trans_a, columns >= WORTH_A_COPY and a.type is F16, copies)
        is_contiguous = b.strides[-2 if self.trans_b else -1] == 1 or columns == 1
        right = _operand(b, self.trans_b, rows >= WORTH_A_COPY and (b.type is F16 or not is_contiguous), copies)
        axes = grid(output.sizes)
        value = self._scaled(_product(left, right, axes, a.sizes[-2 if self.trans_a else -1]), c, indices(axes))
        temporaries, statements = [copy for copy, _ in copies], [statement for _, statement in copies]
        normalised = self._softmax_axes()
        if normalised is None:
            stored = cast(activate(self.fused_activation, value), output.type)
            statements.append(Compute(axes, (Store(output, indices(axes), stored),)))
        else:
            work = packed_reduction("product", value.type, output.sizes, normalised)
            work.statements.append(Compute(axes, (Store(work.source, work.place(indices(axes)), value),)))
            softmax(work, output)
            temporaries += work.temporaries
            statements += work.statements
        return Definition((a, b, c), (output,), tuple(statements), tuple(temporaries))

    def _scaled(self, product: Expression, c: Tensor | None, place: Sequence[Expression]) -> Expression:
        """``alpha * product + beta * C``, without the multiplications by 1; a beta of 0 leaves C out altogether."""
        total = product if self.alpha == 1 else product * self.alpha
        if c is None or self.beta == 0:
            return total
        addend = widen(load(c, place))
        return total + (addend if self.beta == 1 else addend * self.beta)

    def _softmax_axes(self) -> tuple[int, ...] | None:
        """The axes of a fused softmax; None without one."""
        if isinstance(self.fused_activation, ActivationSoftmax1):
            return self.fused_activation.axes
        return (self.output_tensor.rank - 1,) if isinstance(self.fused_activation, ActivationSoftmax) else None

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


def _product(left: _Element, right: _Element, axes: Sequence[Axis], inner_size: int) -> Expression:
    """The sum over the inner size of a row of the left matrix times a column of the right one."""
    (inner,) = grid([inner_size], "k")
    *batch, row, column = indices(axes)
    return sum_of_products((inner,), left((*batch, row, index(inner))), right((*batch, index(inner), column)))


def _operand(
    source: Tensor, transform: MatrixTransform, is_copied: bool, copies: list[tuple[Tensor, Statement]]
) -> _Element:
    """How the product reads a matrix, by {batch..., row, column}; a copy is added to ``copies``."""
    rank = len(source.sizes)
    order = [*range(rank - 2), rank - 1, rank - 2] if transform == MatrixTransform.TRANSPOSE else [*range(rank)]
    if not is_copied:
        return lambda place: widen(load(source, [place[d] for d in order]))
    # A matrix that all batches share (a stride of 0) is copied once.
    sizes = [1 if source.strides[d] == 0 and d < rank - 2 else source.sizes[d] for d in order]
    copy = temporary(f"packed_{source.name}", computation_type(source.type), sizes)
    axes = grid(sizes)
    element = widen(load(source, [index(axes[d]) for d in order]))
    copies.append((copy, Compute(axes, (Store(copy, indices(axes), element),))))
    return lambda place: load(copy, [0 if size == 1 else p for p, size in zip(place, sizes, strict=True)])
