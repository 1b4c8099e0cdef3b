"""Bands of diagonals: diagonal_matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.description.structs import ScalarUnion
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, integers
from opendml.functions.signatures import operator_function
from opendml.operators.diagonal import DiagonalMatrix1
from opendml.programs.device import Device


@operator_function
def diagonal_matrix(
    input: Operand | None = None,
    *,
    output_sizes: Sequence[int] | None = None,
    output_data_type: TensorDataType | str | Any = None,
    value: float | ScalarUnion = 1,
    diagonal_fill_begin: int = 0,
    diagonal_fill_end: int | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """Matrices with a value on a band of diagonals (DIAGONAL_MATRIX1), elsewhere the input or zeros.

    ``input``: matrices of any type, of rank 2 to 4, or None; ``output_sizes`` and ``output_data_type`` are needed then,
    otherwise they are the input's. The element in row y and column x is on diagonal x - y; the band reaches from
    ``diagonal_fill_begin`` to before ``diagonal_fill_end``, by default it is a single diagonal. Where the end is less
    than the beginning, all that is not from the end to before the beginning is filled.

    >>> dml.diagonal_matrix(output_sizes=[2, 3], output_data_type="int32", diagonal_fill_begin=1).tolist()
    [[0, 1, 0], [0, 0, 1]]
    >>> dml.diagonal_matrix(np.array([[1, 2], [3, 4]]), value=0, diagonal_fill_begin=-1).tolist()
    [[1, 2], [0, 4]]
    """
    parameters = (integers(output_sizes), output_data_type, diagonal_fill_begin, diagonal_fill_end)
    return evaluate_single(_diagonal_matrix, (input,), parameters, (value,), optional=1, device=device, out=out)


def _diagonal_matrix(
    input: TensorDesc | None, output_sizes: Any, output_data_type: Any, begin: Any, end: Any, value: Any
) -> Operator:
    if input is not None:
        output_sizes = input.sizes if output_sizes is None else output_sizes
        output_data_type = input.data_type if output_data_type is None else output_data_type
    output = TensorDesc(output_data_type, output_sizes)
    return DiagonalMatrix1(
        input_tensor=input,
        output_tensor=output,
        value_data_type=output.data_type,
        value=value,
        diagonal_fill_begin=begin,
        diagonal_fill_end=begin + 1 if end is None and isinstance(begin, int) else end,
    )
