"""GEMM: batched matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from opendml.description.data_types import FLOATS
from opendml.description.descriptors import (
    Operator,
    at,
    enumeration,
    float_value,
    levels,
    operator_desc,
    tensor_input,
    tensor_output,
)
from opendml.description.enums import MatrixTransform, OperatorType
from opendml.expression.folds import partials_for, sum_of_products
from opendml.expression.ir import Expression, Tensor, cast, grid, index, indices, load, temporary
from opendml.expression.reductions import SHORTEST_PARTIALS, reduction
from opendml.expression.statements import Compute, Definition, Store
from opendml.operators.activation import FUSABLE_WITH_SOFTMAX, ActivationSoftmax, ActivationSoftmax1
from opendml.operators.activation_functions import activate, softmax
from opendml.operators.definition import computation_type, optional_tensor, tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import Member, Number, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


FEW: Final = 4
"""Rows or columns of the output below which a sum may have partial sums: the order of its terms depends on this."""


class Gemm(Operator, type=OperatorType.GEMM, since="1_0"):
    """Batched general matrix multiplication with scaling, an optional addend and an optional fused activation.

    ``output = activation(alpha * A' @ B' + beta * C)`` over the last two dimensions, where A' is A or its transpose.
    """

    a_tensor: Value[TensorDesc] = tensor_input()
    b_tensor: Value[TensorDesc] = tensor_input()
    c_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_tensor: Value[TensorDesc] = tensor_output()
    trans_a: Member[MatrixTransform] = enumeration(MatrixTransform)
    trans_b: Member[MatrixTransform] = enumeration(MatrixTransform)
    alpha: Number = float_value()
    beta: Number = float_value()
    fused_activation: Value[Operator | None] = operator_desc(FUSABLE_WITH_SOFTMAX, default=None)

    support = levels(at("4_0", (2, 4), FLOATS), at("1_0", (4, 4), FLOATS))

    def define(self) -> Definition:
        """Sums of products in float32 over the inner size; a fused softmax takes its maximum and sum of them before
        they are rounded."""
        return _Product(self).definition()

    def scaled(self, product: Expression, c: Tensor | None, place: Sequence[Expression]) -> Expression:
        """``alpha * product + beta * C``, without the multiplications by 1; a beta of 0 leaves C out altogether."""
        total = product if self.alpha == 1 else product * self.alpha
        if c is None or self.beta == 0:
            return total
        addend = widen(load(c, place))
        return total + (addend if self.beta == 1 else addend * self.beta)

    def softmax_axes(self) -> tuple[int, ...] | None:
        """The axes of a fused softmax; None without one."""
        if isinstance(self.fused_activation, ActivationSoftmax1):
            return self.fused_activation.axes
        return (self.output_tensor.rank - 1,) if isinstance(self.fused_activation, ActivationSoftmax) else None

    def check(self, rules: Rules) -> None:
        """{..., M, K} times {..., K, N} gives {..., M, N}."""
        rules.same_data_type("a_tensor", "b_tensor", "c_tensor", "output_tensor")
        rules.same_rank("a_tensor", "b_tensor", "c_tensor", "output_tensor")
        a, b, output = (rules.rank(name) for name in ("a_tensor", "b_tensor", "output_tensor"))
        rank = rules.common_rank("a_tensor", "b_tensor", "output_tensor")
        if rank is not None:
            self._check_sizes(rules, rank, a == rank, b == rank, output == rank)
        rules.same_sizes("output_tensor", "c_tensor")

    def _check_sizes(self, rules: Rules, rank: int, has_a: bool, has_b: bool, has_output: bool) -> None:
        """The sizes of the tensors of one rank, the batch, then rows, columns and the inner size."""
        for i in range(rank - 2):
            first = "a_tensor" if has_a else "b_tensor"
            for name in ["b_tensor"] * has_b + ["output_tensor"] * has_output:
                rules.size_is(name, i, rules.size(first, i), f"{rules.location(first)}.Sizes[i]")
        a = _rows_and_columns(rank, self.trans_a) if has_a and rules.ready("trans_a") else None
        b = _rows_and_columns(rank, self.trans_b) if has_b and rules.ready("trans_b") else None
        if a and b:
            inner, source = rules.size("a_tensor", a[1]), f"ATensor.Sizes[{a[1]}]"
            rules.size_is("b_tensor", b[0], inner, source, "the inner size by TransA and TransB")
        if a and has_output:
            rules.size_is(
                "output_tensor", rank - 2, rules.size("a_tensor", a[0]), f"ATensor.Sizes[{a[0]}]", "by TransA"
            )
        if b and has_output:
            rules.size_is(
                "output_tensor", rank - 1, rules.size("b_tensor", b[1]), f"BTensor.Sizes[{b[1]}]", "by TransB"
            )


def is_dot(
    rows: int,
    columns: int,
    inner: int,
    trans_a: MatrixTransform = MatrixTransform.NONE,
    trans_b: MatrixTransform = MatrixTransform.NONE,
) -> bool:
    """Whether the sums of a product run along the inner size in partial sums."""
    few_rows = rows < FEW and trans_b == MatrixTransform.TRANSPOSE
    few_columns = columns < FEW and trans_a == MatrixTransform.NONE
    return (few_rows or few_columns) and inner >= SHORTEST_PARTIALS


def _rows_and_columns(rank: int, transform: MatrixTransform) -> tuple[int, int]:
    """The dimensions of a matrix tensor that are its rows and columns in the product."""
    return (rank - 1, rank - 2) if transform == MatrixTransform.TRANSPOSE else (rank - 2, rank - 1)


class _Product:
    """The tensors and statements of one product.

    Where there are few rows or few columns (``is_dot``: by sizes and transforms alone) the sums run along the inner
    size in partial sums, as vectors along it are contiguous in both matrices.
    """

    def __init__(self, desc: Gemm) -> None:
        self.desc = desc
        self.a, self.b = tensor("ATensor", desc.a_tensor, "input"), tensor("BTensor", desc.b_tensor, "input")
        self.c = optional_tensor("CTensor", desc.c_tensor, "input")
        self.output = tensor("OutputTensor", desc.output_tensor, "output")

    def definition(self) -> Definition:
        """The product, and a softmax of it."""
        inputs, axes = (self.a, self.b, self.c), self.desc.softmax_axes()
        if axes is None:
            return Definition(inputs, (self.output,), (self._product(self._store_output),))
        scores = temporary("product", computation_type(self.a.type), self.output.sizes)
        product = self._product(lambda place, value: Store(scores, tuple(place), value))
        work = reduction(scores, axes)
        softmax(work, self.output)
        return Definition(inputs, (self.output,), (product, *work.statements), (scores, *work.temporaries))

    def _store_output(self, place: Sequence[Expression], value: Expression) -> Store:
        return Store(self.output, tuple(place), cast(activate(self.desc.fused_activation, value), self.output.type))

    def _product(self, store: Callable[[Sequence[Expression], Expression], Store]) -> Compute:
        """For each row and column of each batch the sum over the inner size."""
        desc, sizes = self.desc, self.output.sizes
        rank = len(sizes)
        order_a, order_b = _order(rank, desc.trans_a), _order(rank, desc.trans_b)
        axes, (inner,) = grid(sizes, "bcdefmn"[-rank:]), grid([self.a.sizes[order_a[-1]]], "k")
        *batch, row, column = place = indices(axes)
        rows, columns = (*batch, row, index(inner)), (*batch, index(inner), column)
        left = widen(load(self.a, [rows[d] for d in order_a]))
        right = widen(load(self.b, [columns[d] for d in order_b]))
        has_partials = is_dot(sizes[-2], sizes[-1], inner.size, desc.trans_a, desc.trans_b)
        total = sum_of_products((inner,), left, right, partials=partials_for(inner) if has_partials else 1)
        return Compute(axes, (store(place, desc.scaled(total, self.c, place)),))


def _order(rank: int, transform: MatrixTransform) -> tuple[int, ...]:
    """The dimensions of a matrix tensor in the product's order (exchanging two is its own inverse)."""
    *batch, row, column = range(rank)
    return (*batch, column, row) if transform == MatrixTransform.TRANSPOSE else (*batch, row, column)
