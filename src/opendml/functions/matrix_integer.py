"""Products of quantized matrices: matrix_multiply_integer, matrix_multiply_integer_to_float,
quantized_linear_matrix_multiply.

``a`` {..., M, K} and ``b`` {..., K, N} have the same leading sizes, to which they broadcast. Scales and zero points are
numbers (or tensors of one element), one for the whole tensor, or arrays of one dimension: of ``a`` and the output one
for each row, of ``b`` one for each column. A zero point of None is 0. Sums are exact modulo 2^32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opendml.building.operands import OperandRules, Sizes, View
from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, operand_rules, sizes_or
from opendml.functions.quantized_operands import matrix_views, type_or
from opendml.functions.signatures import operator_function
from opendml.operators.matrix_integer import (
    MatrixMultiplyInteger,
    MatrixMultiplyIntegerToFloat,
    QuantizedLinearMatrixMultiply,
)
from opendml.programs.device import Device

_FLOAT32 = np.dtype(np.float32)


@operator_function
def matrix_multiply_integer(
    a: Operand,
    a_zero_point: Operand | None,
    b: Operand,
    b_zero_point: Operand | None = None,
    *,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``(a - a_zero_point) @ (b - b_zero_point)`` in int32 (MATRIX_MULTIPLY_INTEGER).

    ``a``: {..., M, K}, ``b``: {..., K, N}, each int8 or uint8. Zero points: of the type of their matrix, one, or one a
    row of ``a``, one a column of ``b``. Returns {..., M, N}.

    >>> a, b = np.array([[3, 4]], "uint8"), np.array([[1, -1], [2, 0]], "int8")
    >>> dml.matrix_multiply_integer(a, 3, b).tolist()
    [[2, 0]]
    """
    operands = (a, a_zero_point, b, b_zero_point)
    return evaluate_single(_matrix_multiply_integer, operands, optional=3, device=device, out=out)


def _with_zero_points(shapes: Sequence[Sizes | None], _: tuple[Any, ...]) -> Sequence[View | None]:
    return matrix_views(shapes, (None, -2, None, -1))


@operand_rules(OperandRules("aabb", views=_with_zero_points))
def _matrix_multiply_integer(
    a: TensorDesc, a_zero_point: TensorDesc | None, b: TensorDesc, b_zero_point: TensorDesc | None
) -> Operator:
    return MatrixMultiplyInteger(
        a_tensor=a,
        a_zero_point_tensor=a_zero_point,
        b_tensor=b,
        b_zero_point_tensor=b_zero_point,
        output_tensor=TensorDesc(TensorDataType.INT32, _product(a, b)),
    )


@operator_function
def matrix_multiply_integer_to_float(
    a: Operand,
    a_scale: Operand,
    a_zero_point: Operand | None,
    b: Operand,
    b_scale: Operand,
    b_zero_point: Operand | None = None,
    bias: Operand | None = None,
    *,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``(a - a_zero_point) @ (b - b_zero_point) * (a_scale * b_scale) + bias`` (MATRIX_MULTIPLY_INTEGER_TO_FLOAT).

    ``a``: {..., M, K}, ``b``: {..., K, N}, both of one integer type of up to 32 bits, as are the zero points. Scales:
    float32 or float16, the type of the result and of ``bias``, which broadcasts to {..., M, N}, the sizes of the
    result.

    >>> a, b = np.array([[3, 4]], "uint8"), np.array([[1, 5], [2, 0]], "uint8")
    >>> dml.matrix_multiply_integer_to_float(a, 0.5, 3, b, np.array([1, 2], "float32")).tolist()
    [[1.0, 0.0]]
    """
    operands = (a, a_scale, a_zero_point, b, b_scale, b_zero_point, bias)
    return evaluate_single(_matrix_multiply_integer_to_float, operands, optional=5, device=device, out=out)


def _with_scales(shapes: Sequence[Sizes | None], _: tuple[Any, ...]) -> Sequence[View | None]:
    return matrix_views(shapes, (None, -2, -2, None, -1, -1, None))


@operand_rules(OperandRules("asaasas", {"s": _FLOAT32}, _with_scales))
def _matrix_multiply_integer_to_float(
    a: TensorDesc,
    a_scale: TensorDesc,
    a_zero_point: TensorDesc | None,
    b: TensorDesc,
    b_scale: TensorDesc,
    b_zero_point: TensorDesc | None,
    bias: TensorDesc | None,
) -> Operator:
    return MatrixMultiplyIntegerToFloat(
        a_tensor=a,
        a_scale_tensor=a_scale,
        a_zero_point_tensor=a_zero_point,
        b_tensor=b,
        b_scale_tensor=b_scale,
        b_zero_point_tensor=b_zero_point,
        bias_tensor=bias,
        output_tensor=TensorDesc(a_scale.data_type, _product(a, b)),
    )


@operator_function
def quantized_linear_matrix_multiply(
    a: Operand,
    a_scale: Operand,
    a_zero_point: Operand | None,
    b: Operand,
    b_scale: Operand,
    b_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = None,
    *,
    output_data_type: TensorDataType | str | Any = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The product of two quantized matrices, quantized (QUANTIZED_LINEAR_MATRIX_MULTIPLY).

    ``a``: {..., M, K}, ``b``: {..., K, N}, each int8 or uint8. Scales: float32, zero points: of the type of what they
    belong to; those of the output one, or one a row. ``output_data_type``: by default that of the output's zero point,
    where there is none that of ``a``. Returns {..., M, N}:
    ``round((a - a_zero_point) @ (b - b_zero_point) * (a_scale * b_scale / output_scale)) + output_zero_point``, halves
    to even, clamped.

    >>> a, b = np.array([[3, 4]], "uint8"), np.array([[1, -1], [2, 0]], "int8")
    >>> dml.quantized_linear_matrix_multiply(a, 0.5, 3, b, 1, None, 0.25, np.uint8(128)).tolist()
    [[132, 128]]
    """
    operands = (a, a_scale, a_zero_point, b, b_scale, b_zero_point, output_scale, output_zero_point)
    parameters = (output_data_type,)
    return evaluate_single(_quantized_linear_matrix_multiply, operands, parameters, optional=6, device=device, out=out)


def _quantized_views(shapes: Sequence[Sizes | None], _: tuple[Any, ...]) -> Sequence[View | None]:
    return matrix_views(shapes, (None, -2, -2, None, -1, -1, -2, -2))


@operand_rules(OperandRules("asabsbsz", {"s": _FLOAT32, "z": "a"}, _quantized_views))
def _quantized_linear_matrix_multiply(
    a: TensorDesc,
    a_scale: TensorDesc,
    a_zero_point: TensorDesc | None,
    b: TensorDesc,
    b_scale: TensorDesc,
    b_zero_point: TensorDesc | None,
    output_scale: TensorDesc,
    output_zero_point: TensorDesc | None,
    output_data_type: Any,
) -> Operator:
    return QuantizedLinearMatrixMultiply(
        a_tensor=a,
        a_scale_tensor=a_scale,
        a_zero_point_tensor=a_zero_point,
        b_tensor=b,
        b_scale_tensor=b_scale,
        b_zero_point_tensor=b_zero_point,
        output_scale_tensor=output_scale,
        output_zero_point_tensor=output_zero_point,
        output_tensor=TensorDesc(type_or(output_data_type, output_zero_point, a.data_type), _product(a, b)),
    )


def _product(a: TensorDesc, b: TensorDesc) -> tuple[int, ...]:
    """The sizes of the product."""
    return sizes_or(a.sizes, lambda: (*a.sizes[:-2], a.sizes[-2], b.sizes[-1]))
