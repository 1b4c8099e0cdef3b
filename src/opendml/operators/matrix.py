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
from opendml.expression.element_types import F16
from opendml.expression.folds import lanes_for, sum_of_products
from opendml.expression.ir import Expression, Tensor, cast, grid, index, indices, load, temporary
from opendml.expression.reductions import SHORTEST_LANES, packed_reduction
from opendml.expression.statements import Compute, Definition, Statement, Store
from opendml.operators.activation import FUSABLE_WITH_SOFTMAX, ActivationSoftmax, ActivationSoftmax1
from opendml.operators.activation_functions import activate, softmax
from opendml.operators.definition import computation_type, optional_tensor, tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import Member, Number, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


FEW: Final = 4
"""Rows or columns of the output below which the other matrix is not copied: it would be read once or twice only."""

PANEL: Final = 64
"""Columns of a panel, the copied form of the right matrix: whole registers on every processor."""

COLUMNS_OF_ROWS: Final = 128
"""Columns of the output from which on a copy of a left matrix pays off that is not contiguous along its rows."""

_Place = Sequence[Expression]
_Element = Callable[[_Place], Expression]
_PanelElement = Callable[[_Place, Expression, Expression, Expression], Expression]
_Region = tuple[int, int, int]


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
    """Whether the sums of a product run along the inner size in lanes."""
    few_rows = rows < FEW and trans_b == MatrixTransform.TRANSPOSE
    few_columns = columns < FEW and trans_a == MatrixTransform.NONE
    return (few_rows or few_columns) and inner >= SHORTEST_LANES


def _rows_and_columns(rank: int, transform: MatrixTransform) -> tuple[int, int]:
    """The dimensions of a matrix tensor that are its rows and columns in the product."""
    return (rank - 1, rank - 2) if transform == MatrixTransform.TRANSPOSE else (rank - 2, rank - 1)


class _Product:
    """The tensors and statements of one product.

    A right matrix that is OWNED_BY_DML is laid out anew in panels of ``PANEL`` columns, contiguous and in float32.
    Where there are few rows or few columns (``is_dot``: by sizes and transforms alone) the sums run along the inner
    size in lanes, as vectors along it are contiguous in both matrices.
    """

    def __init__(self, desc: Gemm) -> None:
        self.desc = desc
        self.a, self.b = tensor("ATensor", desc.a_tensor, "input"), tensor("BTensor", desc.b_tensor, "input")
        self.c = optional_tensor("CTensor", desc.c_tensor, "input")
        self.output = tensor("OutputTensor", desc.output_tensor, "output")
        self.order_a, self.order_b = _order(self.a, desc.trans_a), _order(self.b, desc.trans_b)
        *self.batch, self.rows, self.columns = self.output.sizes
        self.inner = self.a.sizes[self.order_a[-1]]
        self.is_dot = is_dot(self.rows, self.columns, self.inner, desc.trans_a, desc.trans_b)
        self.statements: list[Statement] = []
        self.temporaries: list[Tensor] = []

    def definition(self) -> Definition:
        """Copies, products, and a softmax of them."""
        axes = self.desc.softmax_axes()
        if axes is None:
            self._multiply(self._store_output)
        else:
            work = packed_reduction("product", computation_type(self.a.type), self.output.sizes, axes)
            self._multiply(lambda place, value: Store(work.source, work.place(place), value))
            softmax(work, self.output)
            self.statements += work.statements
            self.temporaries += work.temporaries
        tensors = (self.a, self.b, self.c)
        return Definition(tensors, (self.output,), tuple(self.statements), tuple(self.temporaries))

    def _store_output(self, place: _Place, value: Expression) -> Store:
        return Store(self.output, tuple(place), cast(activate(self.desc.fused_activation, value), self.output.type))

    def _multiply(self, store: Callable[[_Place, Expression], Store]) -> None:
        """Adds the statements of the product, each for some of the columns."""
        left = self._element(self.a, self.order_a, self._is_worth_rows())
        if self.is_dot or not self._is_worth_panels():
            right = self._right_of_dot() if self.is_dot else self._element(self.b, self.order_b, False)
            self._add_product(
                left, lambda batch, inner, block, column: right((*batch, inner, column)), (0, 1, self.columns), store
            )
            return
        whole = self.columns // PANEL
        for region in ((0, whole, PANEL), (whole * PANEL, 1, self.columns % PANEL)):
            if region[1] and region[2]:
                self._add_product(left, self._panels(region), region, store)

    def _add_product(
        self, left: _Element, right: _PanelElement, region: _Region, store: Callable[[_Place, Expression], Store]
    ) -> None:
        start, blocks, width = region
        axes = grid([*self.batch, self.rows, blocks, width], "bcdefmno"[-len(self.batch) - 3 :])
        (inner,) = grid([self.inner], "k")
        *batch, row, block, column = indices(axes)
        lanes = lanes_for(inner) if self.is_dot else 1
        factors = left((*batch, row, index(inner))), right(batch, index(inner), block, column)
        place = (*batch, row, block * width + column + start)
        value = self.desc.scaled(sum_of_products((inner,), *factors, lanes=lanes), self.c, place)
        self.statements.append(Compute(axes, (store(place, value),)))

    def _is_worth_rows(self) -> bool:
        """Whether copying the left matrix, so that its rows are contiguous and float32, costs less than it saves."""
        inner_stride, row_stride = self.a.strides[self.order_a[-1]], self.a.strides[self.order_a[-2]]
        if self.columns < FEW or 0 in (inner_stride, row_stride):
            return False
        return self.a.type is F16 or (self.columns >= COLUMNS_OF_ROWS and inner_stride != 1)

    def _is_worth_panels(self) -> bool:
        """Whether to lay the right matrix out in panels: where that is done only once, before the product ever runs."""
        strides = self.b.strides[self.order_b[-1]], self.b.strides[self.order_b[-2]]
        return self.desc.b_tensor.is_owned_by_dml and self.rows >= FEW and self.columns >= FEW and 0 not in strides

    def _panels(self, region: _Region) -> _PanelElement:
        """How the product reads a copy of some of the right matrix's columns, and that copy, added."""
        start, blocks, width = region
        # A matrix that all batches share (a stride of 0) is copied once.
        batch = [1 if stride == 0 else n for n, stride in zip(self.batch, self.b.strides, strict=False)]
        copy = temporary("panels", computation_type(self.b.type), [*batch, blocks, self.inner, width])
        axes = grid(copy.sizes)
        *place, block, inner, column = indices(axes)
        logical = (*place, inner, block * width + column + start)
        element = widen(load(self.b, [logical[d] for d in self.order_b]))
        self._add_copy(copy, Compute(axes, (Store(copy, indices(axes), element),)))
        return lambda batch, inner, block, column: load(copy, _repeated((*batch, block, inner, column), copy))

    def _right_of_dot(self) -> _Element:
        """The right matrix for sums along the inner size; a narrow one is copied so that its columns are contiguous."""
        inner_stride = self.b.strides[self.order_b[-2]]
        if inner_stride == 1 or self.columns >= FEW:
            return self._element(self.b, self.order_b, False)
        across = self._element(self.b, (*self.order_b[:-2], self.order_b[-1], self.order_b[-2]), True)
        return lambda place: across((*place[:-2], place[-1], place[-2]))

    def _element(self, source: Tensor, order: Sequence[int], is_copied: bool) -> _Element:
        """How a matrix is read by coordinates in ``order``, and the copy of it that takes, added."""
        if not is_copied:
            return lambda place: widen(load(source, [place[d] for d in order]))
        sizes = [1 if source.strides[d] == 0 and d < len(order) - 2 else source.sizes[d] for d in order]
        copy = temporary(f"packed_{source.name}", computation_type(source.type), sizes)
        axes = grid(sizes)
        element = widen(load(source, [index(axes[d]) for d in order]))
        self._add_copy(copy, Compute(axes, (Store(copy, indices(axes), element),)))
        return lambda place: load(copy, _repeated(place, copy))

    def _add_copy(self, copy: Tensor, statement: Statement) -> None:
        self.temporaries.append(copy)
        self.statements.append(statement)


def _order(matrix: Tensor, transform: MatrixTransform) -> tuple[int, ...]:
    """The dimensions of a matrix tensor in the product's order (exchanging two is its own inverse)."""
    *batch, row, column = range(len(matrix.sizes))
    return (*batch, column, row) if transform == MatrixTransform.TRANSPOSE else (*batch, row, column)


def _repeated(place: _Place, copy: Tensor) -> list[Expression | int]:
    """Coordinates in a copy that has dimensions of size 1 for those that repeat."""
    return [0 if size == 1 else p for p, size in zip(place, copy.sizes, strict=True)]
