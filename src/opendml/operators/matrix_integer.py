"""Products of quantized matrices: sums of exact integer products, as they are, scaled, or quantized again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from opendml.description.data_types import BYTES, FLOAT32_ONLY, FLOATS, INT32_ONLY, INTEGERS_UP_TO_32_BIT
from opendml.description.descriptors import Operator, at, levels, tensor_input, tensor_output
from opendml.description.enums import OperatorType
from opendml.expression.element_types import F32, I32, I64
from opendml.expression.folds import partials_for, sum_of_products
from opendml.expression.ir import Expression, cast, grid, index, indices, load
from opendml.expression.reductions import SHORTEST_PARTIALS
from opendml.expression.statements import Compute, Definition, Store
from opendml.operators.definition import widen
from opendml.operators.quantization_parameters import (
    COLUMNS,
    ROWS,
    Tensors,
    check_counted,
    difference,
    requantized,
    value_for,
)

if TYPE_CHECKING:
    from opendml.description.field_types import Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class MatrixMultiplyInteger(Operator, type=OperatorType.MATRIX_MULTIPLY_INTEGER, since="2_1"):
    """Batched product of 8-bit integer matrices, less their zero points, with INT32 result.

    A {..., M, K} has one zero point or one a row, B {..., K, N} one or one a column; without one it is 0. The output is
    {..., M, N}.
    """

    a_tensor: Value[TensorDesc] = tensor_input()
    a_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    b_tensor: Value[TensorDesc] = tensor_input()
    b_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_tensor: Value[TensorDesc] = tensor_output()

    support = levels(
        at(
            "5_2",
            (2, 4),
            BYTES,
            {"a_zero_point_tensor": (1, 4), "b_zero_point_tensor": (1, 4)},
            output_tensor=INT32_ONLY,
        ),
        at("4_0", (2, 4), BYTES, {"a_zero_point_tensor": (1, 4)}, output_tensor=INT32_ONLY),
        at("2_1", (4, 4), BYTES, output_tensor=INT32_ONLY),
    )

    def check(self, rules: Rules) -> None:
        """{..., M, K} times {..., K, N} gives {..., M, N}; zero points have the types of their matrices."""
        rules.same_data_type("a_tensor", "a_zero_point_tensor")
        rules.same_data_type("b_tensor", "b_zero_point_tensor")
        rules.same_rank("a_tensor", "b_tensor", "output_tensor")
        _check_matrices(rules, ["a_zero_point_tensor"], ["b_zero_point_tensor"])

    def define(self) -> Definition:
        """Sums of products of the differences, modulo 2^32."""
        return _product(Tensors(self), lambda total, place: total)


class MatrixMultiplyIntegerToFloat(Operator, type=OperatorType.MATRIX_MULTIPLY_INTEGER_TO_FLOAT, since="6_2"):
    """Batched product of quantized integer matrices, scaled to floating-point numbers, with an optional bias.

    A {..., M, K} has one scale and zero point or one a row, B {..., K, N} one or one a column; without a zero point it
    is 0. Bias and output are {..., M, N}.
    """

    a_tensor: Value[TensorDesc] = tensor_input()
    a_scale_tensor: Value[TensorDesc] = tensor_input()
    a_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    b_tensor: Value[TensorDesc] = tensor_input()
    b_scale_tensor: Value[TensorDesc] = tensor_input()
    b_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    bias_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_tensor: Value[TensorDesc] = tensor_output()

    support = levels(
        at(
            "6_2",
            (2, 4),
            INTEGERS_UP_TO_32_BIT,
            dict.fromkeys(("a_scale_tensor", "a_zero_point_tensor", "b_scale_tensor", "b_zero_point_tensor"), (1, 4)),
            a_scale_tensor=FLOATS,
            b_scale_tensor=FLOATS,
            bias_tensor=FLOATS,
            output_tensor=FLOATS,
        )
    )

    def check(self, rules: Rules) -> None:
        """{..., M, K} times {..., K, N} gives {..., M, N}; all integers are alike, and all floating-point numbers."""
        rules.same_data_type("a_tensor", "a_zero_point_tensor", "b_tensor", "b_zero_point_tensor")
        rules.same_data_type("a_scale_tensor", "b_scale_tensor", "bias_tensor", "output_tensor")
        rules.same_rank("a_tensor", "b_tensor", "bias_tensor", "output_tensor")
        of_rows, of_columns = ["a_scale_tensor", "a_zero_point_tensor"], ["b_scale_tensor", "b_zero_point_tensor"]
        rules.same_rank(*of_rows, *of_columns)
        _check_matrices(rules, of_rows, of_columns)
        rules.same_sizes("output_tensor", "bias_tensor")

    def define(self) -> Definition:
        """The sum, rounded to float32, times the product of the scales, plus the bias; each operation in float32."""
        tensors = Tensors(self)
        a_scale, b_scale, bias = tensors["a_scale_tensor"], tensors["b_scale_tensor"], tensors.get("bias_tensor")

        def scaled(total: Expression, place: tuple[Expression, ...]) -> Expression:
            scale = widen(value_for(a_scale, place[-2])) * widen(value_for(b_scale, place[-1]))
            product = cast(total, F32) * scale
            return product if bias is None else product + widen(load(bias, place))

        return _product(tensors, scaled)


class QuantizedLinearMatrixMultiply(Operator, type=OperatorType.QUANTIZED_LINEAR_MATRIX_MULTIPLY, since="2_1"):
    """Batched product of quantized 8-bit matrices, quantized again: dequantize both, multiply, quantize.

    A {..., M, K} and the output {..., M, N} have one scale and zero point or one a row, B {..., K, N} one or one a
    column; without a zero point it is 0.
    """

    a_tensor: Value[TensorDesc] = tensor_input()
    a_scale_tensor: Value[TensorDesc] = tensor_input()
    a_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    b_tensor: Value[TensorDesc] = tensor_input()
    b_scale_tensor: Value[TensorDesc] = tensor_input()
    b_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_scale_tensor: Value[TensorDesc] = tensor_input()
    output_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_tensor: Value[TensorDesc] = tensor_output()

    _SCALES = dict.fromkeys(("a_scale_tensor", "b_scale_tensor", "output_scale_tensor"), FLOAT32_ONLY)
    _PARAMETERS = (*_SCALES, "a_zero_point_tensor", "b_zero_point_tensor", "output_zero_point_tensor")

    support = levels(
        at("4_0", (2, 4), BYTES, dict.fromkeys(_PARAMETERS, (1, 4)), **_SCALES),
        at("2_1", (4, 4), BYTES, **_SCALES),
    )

    def check(self, rules: Rules) -> None:
        """{..., M, K} times {..., K, N} gives {..., M, N}; zero points have the types of their matrices."""
        for name in ("a", "b", "output"):
            rules.same_data_type(f"{name}_tensor", f"{name}_zero_point_tensor")
        rules.same_rank("a_tensor", "b_tensor", "output_tensor")
        rules.same_rank(*(name for name in self.fields if "scale" in name or "zero_point" in name))
        _check_matrices(
            rules,
            ["a_scale_tensor", "a_zero_point_tensor", "output_scale_tensor", "output_zero_point_tensor"],
            ["b_scale_tensor", "b_zero_point_tensor"],
        )

    def define(self) -> Definition:
        """The sum, rounded to float32, times ``AScale * BScale / OutputScale``; each operation in float32."""
        tensors = Tensors(self)
        a_scale, b_scale, scale = (tensors[f"{name}_scale_tensor"] for name in ("a", "b", "output"))
        zero_point = tensors.get("output_zero_point_tensor")

        def again(total: Expression, place: tuple[Expression, ...]) -> Expression:
            row, column = place[-2:]
            factor = value_for(a_scale, row) * value_for(b_scale, column) / value_for(scale, row)
            return requantized(cast(total, F32) * factor, zero_point, row, tensors["output_tensor"].type)

        return _product(tensors, again)


def _check_matrices(rules: Rules, of_rows: list[str], of_columns: list[str]) -> None:
    """The sizes of A, B and the output, of those with the rank that most have, and of what is given for each row or
    column."""
    rank = rules.common_rank("a_tensor", "b_tensor", "output_tensor")
    if rank is None:
        return
    a, b, output = (rules.sizes_of_rank(name, rank) for name in ("a_tensor", "b_tensor", "output_tensor"))
    for i in range(rank - 2):
        first, source = (a[i], "ATensor") if a[i] is not None else (b[i], "BTensor")
        for name, size in (("b_tensor", b[i]), ("output_tensor", output[i])):
            if size is not None:
                rules.size_is(name, i, first, f"{source}.Sizes[i]")
    if rank < 2:
        return
    if b[-2] is not None:
        rules.size_is("b_tensor", rank - 2, a[-1], f"ATensor.Sizes[{rank - 1}]", "the inner size")
    if output[-2] is not None:
        rules.size_is("output_tensor", rank - 2, a[-2], "ATensor.Sizes[i]")
    if output[-1] is not None:
        rules.size_is("output_tensor", rank - 1, b[-1], "BTensor.Sizes[i]")
    check_counted(rules, of_rows, ROWS, a[-2], f"ATensor.Sizes[{rank - 2}]")
    check_counted(rules, of_columns, COLUMNS, b[-1], f"BTensor.Sizes[{rank - 1}]")


def _product(tensors: Tensors, finish: Callable[[Expression, tuple[Expression, ...]], Expression]) -> Definition:
    """The output is ``finish(sum, place)`` of the sums of products, cast to its type."""
    a, b, output = tensors["a_tensor"], tensors["b_tensor"], tensors["output_tensor"]
    inner_size, columns = a.sizes[-1], output.sizes[-1]
    axes, (inner,) = grid(output.sizes, "bcmn"[-len(output.sizes) :]), grid([inner_size], "k")
    *batch, row, column = place = indices(axes)
    # The differences of 16 bits have 17, their products 34.
    type = I32 if a.type.bits == 8 else I64
    left = difference(load(a, (*batch, row, index(inner))), tensors.get("a_zero_point_tensor"), row, type)
    right = difference(load(b, (*batch, index(inner), column)), tensors.get("b_zero_point_tensor"), column, type)
    partials = partials_for(inner) if columns == 1 and inner_size >= SHORTEST_PARTIALS else 1
    total = finish(sum_of_products((inner,), left, right, partials=partials), place)
    return tensors.definition(Compute(axes, (Store(output, place, cast(total, output.type)),)))
