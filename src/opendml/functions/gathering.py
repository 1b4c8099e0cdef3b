"""Selecting by indices: gather."""

from __future__ import annotations

from typing import Any

from opendml.descriptors import Operator
from opendml.device import Device
from opendml.functions.core import Array, Operand, evaluate_single, sizes_or
from opendml.operators.gathering import Gather
from opendml.tensor import TensorDesc


def gather(
    input: Operand,
    indices: Operand,
    axis: int,
    index_dimensions: int,
    *,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The slices of the input along an axis that the indices name (GATHER).

    ``input``: any type and rank. ``indices``: uint32, uint64, int32 or int64, of the input's rank; of its sizes the
    last ``index_dimensions`` count, the others are 1. Negative indices count from the end; those outside are moved to
    the nearest end. The result has the input's sizes with those of the indices in place of the axis, aligned right in
    the same rank.

    >>> dml.gather(np.array([[1, 2], [3, 4], [5, 6]]), np.array([[2, 0]], "uint32"), 0, 1).tolist()
    [[5, 6], [1, 2]]
    """
    return evaluate_single(_gather, (input, indices), (axis, index_dimensions), device=device, out=out)


def _gather(input: TensorDesc, indices: TensorDesc, axis: Any, index_dimensions: Any) -> Operator:
    rank = input.rank

    def gathered() -> tuple[int, ...]:
        chosen = indices.sizes[max(rank - index_dimensions, 0) :]
        sizes = (*input.sizes[:axis], *chosen, *input.sizes[axis + 1 :])
        return (*(1,) * (rank - len(sizes)), *sizes[max(len(sizes) - rank, 0) :])

    return Gather(
        input_tensor=input,
        indices_tensor=indices,
        output_tensor=TensorDesc(input.data_type, sizes_or(input.sizes, gathered)),
        axis=axis,
        index_dimensions=index_dimensions,
    )
