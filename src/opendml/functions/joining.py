"""Cutting along an axis and putting together: split, join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opendml.building.operands import OperandRules
from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.functions.core import (
    INFERENCE_ERRORS,
    Array,
    Operand,
    evaluate,
    evaluate_single,
    integers,
    operand_rules,
    replaced,
)
from opendml.functions.signatures import operator_function
from opendml.operators.joining import Join, Split
from opendml.programs.binding import several
from opendml.programs.device import Device


@operator_function
def split(
    input: Operand,
    *,
    axis: int,
    output_axis_sizes: Sequence[int],
    device: Device | None = None,
    out: Sequence[Any] | None = None,
) -> tuple[Array, ...]:
    """Consecutive pieces of the input along an axis (SPLIT).

    ``input``: any type and rank. ``output_axis_sizes``: the sizes of the pieces along ``axis``; they add up to the
    input's. Returns one array a piece.

    >>> [piece.tolist() for piece in dml.split(np.arange(6), axis=0, output_axis_sizes=[1, 3, 2])]
    [[0], [1, 2, 3], [4, 5]]
    """
    return tuple(evaluate(_split, (input,), (axis, integers(output_axis_sizes)), device=device, out=out))


def _split(input: TensorDesc, axis: Any, output_axis_sizes: Any) -> Operator:
    sizes = output_axis_sizes if isinstance(output_axis_sizes, tuple) else ()
    pieces = tuple(TensorDesc(input.data_type, replaced(input.sizes, axis, size)) for size in sizes)
    return Split(input_tensor=input, output_tensors=pieces, axis=axis)


@operator_function
def join(
    inputs: Sequence[Operand],
    *,
    axis: int,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The inputs one after the other along an axis (JOIN).

    ``inputs``: at least one; of the same type, any rank, and the same sizes except along ``axis``.

    >>> dml.join([np.array([[1], [2]]), np.array([[3, 4], [5, 6]])], axis=1).tolist()
    [[1, 3, 4], [2, 5, 6]]
    """
    return evaluate_single(_join, several(inputs, "inputs"), (axis,), device=device, out=out)


@operand_rules(OperandRules("x"))
def _join(*inputs: Any) -> Operator:
    *tensors, axis = inputs
    return Join(input_tensors=tuple(tensors), output_tensor=_joined(tensors, axis), axis=axis)


def _joined(tensors: Sequence[TensorDesc], axis: Any) -> TensorDesc:
    if not tensors:
        return TensorDesc(TensorDataType.FLOAT32, (1,))
    sizes = tensors[0].sizes
    try:
        return TensorDesc(tensors[0].data_type, replaced(sizes, axis, sum(tensor.sizes[axis] for tensor in tensors)))
    except INFERENCE_ERRORS:
        return TensorDesc(tensors[0].data_type, sizes)
