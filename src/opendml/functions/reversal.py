"""Reversing sequences: reverse_subsequences."""

from __future__ import annotations

from typing import Any

from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single
from opendml.functions.element_wise import packed
from opendml.functions.signatures import operator_function
from opendml.operators.reversal import ReverseSubsequences
from opendml.programs.device import Device


@operator_function
def reverse_subsequences(
    input: Operand,
    sequence_lengths: Operand,
    *,
    axis: int,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """Sequences along an axis with their first elements in reverse, the rest as it is (REVERSE_SUBSEQUENCES).

    ``input``: any type and rank. ``sequence_lengths``: uint32 or uint64, the number of elements to reverse, of the
    input's sizes but 1 along the axis; ``numpy.broadcast_to`` gives one length to many sequences.

    >>> dml.reverse_subsequences(np.array([[1, 2, 3], [4, 5, 6]]), np.array([[2], [3]], "uint32"), axis=1).tolist()
    [[2, 1, 3], [6, 5, 4]]
    """
    return evaluate_single(_reverse_subsequences, (input, sequence_lengths), (axis,), device=device, out=out)


def _reverse_subsequences(input: TensorDesc, sequence_lengths: TensorDesc, axis: Any) -> Operator:
    return ReverseSubsequences(
        input_tensor=input, sequence_lengths_tensor=sequence_lengths, output_tensor=packed(input), axis=axis
    )
